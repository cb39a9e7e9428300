# SPDX-License-Identifier: Apache-2.0

"""``nova-compute-ext``: Nova's compute service, from a develop install.

``nova-compute`` looks for drivers in the ``nova.virt`` package only. Beside
a Nova that was installed as a wheel, the shim of this package is found
there. Beside a checkout of Nova it is not: this script puts it there.
"""

import importlib
import sys


def main() -> None:
    """Run nova-compute with the drivers of this package.

    :raises SystemExit: Nova is not installed
    """
    try:
        # First of all: it chooses between eventlet and threads, in the way of
        # its release.
        from nova.cmd import compute
    except ImportError as err:
        raise SystemExit(
            f'nova-compute-ext: Nova cannot be imported ({err}). Install '
            'Nova into the same environment: pip install '
            '"nova-ext-resources[nova]".'
        ) from err
    name = 'nova.virt.ext_resources'
    sys.modules[name] = importlib.import_module('nova_ext_resources.virt')
    compute.main()
