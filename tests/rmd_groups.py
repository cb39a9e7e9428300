# SPDX-License-Identifier: Apache-2.0

"""Control groups of a simulated RMD, as the kernel of its host shows them."""

import pathlib
import shutil

import fixtures

from nova_ext_resources.testing import rmd_simulator

_INFO = {
    'L3/cbm_mask': '7ff',
    'L3/min_cbm_bits': '1',
    'L3/num_closids': '8',
    'L3/shareable_bits': '0',
    'MB/bandwidth_gran': '10',
    'MB/delay_linear': '1',
    'MB/min_bandwidth': '10',
    'MB/num_closids': '8',
}


class ShownGroups(fixtures.Fixture):
    """A folder like ``/sys/fs/resctrl``, which clients of RMD read."""

    def __init__(self, simulator: rmd_simulator.Simulator) -> None:
        super().__init__()
        self._simulator = simulator

    def _setUp(self) -> None:
        folder = self.useFixture(fixtures.TempDir())
        self._root = pathlib.Path(folder.path)
        for path, text in _INFO.items():
            self._write(f'info/{path}', text)
        self.useFixture(
            fixtures.MonkeyPatch(
                'nova_ext_resources.drivers.rmd.api.client.RESCTRL',
                folder.path,
            )
        )
        self.show()
        self._simulator.on_change.append(self.show)

    def show(self) -> None:
        """Write all groups."""
        shown = {one['name']: one for one in self._simulator.list_groups()}
        for path in self._root.iterdir():
            if path.is_dir() and path.name not in (*shown, 'info'):
                shutil.rmtree(path)
        for name, group in shown.items():
            lines = [
                f'{control}:' + ';'.join(f'{k}={v}' for k, v in values.items())
                for control, values in group['schemata'].items()
            ]
            folder = name.removeprefix('.')
            self._write(f'{folder}/schemata', '\n'.join(lines))
            self._write(f'{folder}/cpus_list', group['cpus'])
            self._write(f'{folder}/mode', 'shareable')

    def _write(self, path: str, text: str) -> None:
        file = self._root / path.lstrip('/')
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f'{text}\n')
