# SPDX-License-Identifier: Apache-2.0

"""What the kernel and the model are both asked, to compare the answers.

The machine is ``skylake2``: two caches of 11 ways, bandwidth in percent, 48
CPUs. Each chapter begins with a machine as it is after a mount.
"""

from collections.abc import Iterable, Iterator
import dataclasses


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One system call.

    :ivar kind: ``read``, ``write``, ``list``, ``mkdir`` or ``rmdir``
    """

    kind: str
    path: str
    text: str = ''

    @property
    def words(self) -> str:
        """Return it as the table of differences has it."""
        text = self.text.encode('unicode_escape').decode()
        if len(text) > 40:
            text = f'{text[:20]}... ({len(self.text)})'
        path = self.path
        if len(path) > 40:
            path = f'{path[:20]}... ({len(path)})'
        return f'{self.kind} {path or "/"} {text}'.strip()


def write(
    path: str, *texts: str, see: Iterable[str] = ()
) -> Iterator['Operation']:
    """Write each text, and look at files after it."""
    for text in texts:
        yield Operation(kind='write', path=path, text=text)
        yield from read(*see)


def read(*paths: str) -> Iterator[Operation]:
    for path in paths:
        yield Operation(kind='read', path=path)


def look(*paths: str) -> Iterator[Operation]:
    for path in paths:
        yield Operation(kind='list', path=path)


def make(*paths: str) -> Iterator[Operation]:
    for path in paths:
        yield Operation(kind='mkdir', path=path)


def remove(*paths: str) -> Iterator[Operation]:
    for path in paths:
        yield Operation(kind='rmdir', path=path)


def tell_the_tree() -> Iterator[Operation]:
    yield from look('', 'info', 'info/L3', 'info/MB', 'info/L3_MON')
    yield from look('mon_data', 'mon_data/mon_L3_00', 'mon_groups')
    for name in (
        'cbm_mask',
        'min_cbm_bits',
        'num_closids',
        'shareable_bits',
        'bit_usage',
        'sparse_masks',
    ):
        yield from read(f'info/L3/{name}')
    for name in (
        'num_closids',
        'min_bandwidth',
        'bandwidth_gran',
        'delay_linear',
        'thread_throttle_mode',
    ):
        yield from read(f'info/MB/{name}')
    for name in ('num_rmids', 'mon_features', 'max_threshold_occupancy'):
        yield from read(f'info/L3_MON/{name}')
    yield from read('info/last_cmd_status', 'schemata', 'size', 'mode')
    yield from read('cpus', 'cpus_list')
    yield from make('a')
    yield from look('a', 'a/mon_groups', 'a/mon_data')
    for name in ('schemata', 'size', 'mode', 'cpus', 'cpus_list', 'tasks'):
        yield from read(f'a/{name}')


def set_masks() -> Iterator[Operation]:
    yield from make('a')
    good = ('0=3', '0=3;1=3', '1=1;0=1', '0=0x7', '0=F', '0=400;1=600')
    spaces = (' 0=7', '0= 7', '0=3 ', '0=3 ;1=3')
    numbers = ('00=3', '+0=3', '-1=3', '0x0=3', 'zero=1', '2=1', '0=1;2=1')
    marks = ('0=3;', '0=3;;1=1', ';0=3', '0', '0=', '0=3=3', '', '0=1;0=1')
    values = ('0=0', '0=5', '0=fff', '0=7ff', '0=xyz', '0=fffffffffff')
    for one in (*good, *spaces, *numbers, *marks, *values):
        yield from write('a/schemata', f'L3:{one}\n', see=['a/schemata'])
    whole = (
        '',
        '\n',
        'L3\n',
        ':\n',
        '=\n',
        'abc\n',
        ' L3 : 0 = 3\n',
        '\tL3:0=3\n',
        'l3:0=3\n',
        'L2:0=1\n',
        'L3CODE:0=1\n',
        'L3:0=3',
        'L3:0=5',
        'L3:0=3\r\n',
        'L3:0=3\0\n',
        'L3:0=1\n\n',
        '\nL3:0=1\n',
        'L3:0=3\nL3:0=7\n',
        'L3:0=3\nL3:1=7\n',
        'L3:0=7\nL3:1=5\n',
        'L3:0=3\nMB:0=20\n',
        'MB:0=20\nL3:0=5\n',
        'L3:0=1;' * 700 + '\n',
    )
    yield from write('a/schemata', *whole, see=['a/schemata'])
    yield from read('a/size')


def set_bandwidth() -> Iterator[Operation]:
    yield from make('a')
    for value in (
        *('10', '11', '9', '100', '101', '0', '030', '+40', '-10'),
        *('0x14', '1e1', 'ten', '', ' 30', '30 ', '99999999999'),
    ):
        yield from write('a/schemata', f'MB:0={value}\n', see=['a/schemata'])
    yield from write('a/schemata', 'MB:2=10\n', 'MB:0=10;0=20\n')
    yield from write('schemata', 'MB:0=50\n', see=['schemata', 'size'])


def name_groups() -> Iterator[Operation]:
    yield from make('a', 'a', 'a/mon_groups/m')
    names = (
        *('info', 'mon_groups', 'mon_data', 'schemata', 'tasks'),
        *('a b', '.hidden', 'two\nlines', '\u00fcber', 'n' * 255, 'n' * 256),
        *('a/x', 'a/mon_groups/mon_groups', 'a/mon_groups/m/x'),
        *('a/mon_data/x', 'info/x', 'none/x', 'none/mon_groups/x'),
    )
    yield from make(*names)
    yield from remove(
        *('a b', '.hidden', 'two\nlines', '\u00fcber', 'n' * 255, 'n' * 256),
        *('info', 'info/L3', 'mon_groups', 'mon_data', 'schemata', 'none'),
        *('a/mon_groups', 'a/mon_data', 'a/mon_groups/m', 'a'),
    )
    yield from look('')


def use_all_classes() -> Iterator[Operation]:
    yield from make(*(f'g{number}' for number in range(9)))
    yield from read('g0/schemata')
    yield from remove('g3')
    yield from make('again', 'more')


def deal_cpus() -> Iterator[Operation]:
    yield from make('a')
    lists = (
        *('1\n', '1', '1,3\n', '1-3\n', '0-7:2/4\n', 'all\n', 'N\n', '2-N\n'),
        *('3-1\n', 'x\n', '48\n', '99999\n', ' 1 \n', '1, 3\n', '1 3\n'),
        *(',1\n', '1,\n', '-1\n', '\n', '', '1\n2\n', '0x1\n'),
    )
    yield from write('a/cpus_list', *lists, see=['a/cpus_list'])
    masks = (
        *('1\n', '0x3\n', 'f0\n', 'ffff,00000000\n', '1,00000000\n', '0\n'),
        *('\n', 'g\n', '0,1\n', '02,\n', '10000,00000000\n'),
    )
    yield from write('a/cpus', *masks, see=['a/cpus'])
    yield from write('a/cpus_list', '2-3\n', see=['a/cpus_list', 'cpus_list'])
    yield from write('cpus_list', '0-1\n', '0-2,4-47\n', see=['a/cpus_list'])
    yield from make('a/mon_groups/m')
    yield from write(
        'a/mon_groups/m/cpus_list',
        '3\n',
        '4\n',
        see=['a/mon_groups/m/cpus_list'],
    )
    yield from write('a/cpus_list', '2\n', '\n', see=['cpus_list'])


def move_tasks() -> Iterator[Operation]:
    yield from make('a', 'a/mon_groups/m')
    wrong = (
        *('abc\n', '-1\n', '4194999\n', '99999999999\n', '1x\n', '0x1\n'),
        *('', '\n', ' \n', ',\n', '4194999,4194998\n', '1,' * 3000 + '\n'),
    )
    yield from write('a/tasks', *wrong)
    seen = ('a/tasks', 'a/mon_groups/m/tasks')
    yield from write('a/mon_groups/m/tasks', '1\n', see=seen)
    yield from write('a/tasks', '1\n', see=seen)
    yield from write('a/mon_groups/m/tasks', '1\n', see=seen)
    yield from write('tasks', ' 1 \n', see=seen)


def change_modes() -> Iterator[Operation]:
    yield from make('a')
    words = (
        *('shareable\n', 'shareable', 'Exclusive\n', ' exclusive\n', '\n', ''),
        *('exclusive\n', 'pseudo-locked\n', 'pseudo-locksetup\n'),
    )
    yield from write('a/mode', *words, see=['a/mode'])
    yield from write('mode', *words, see=['mode'])
    yield from write('mode', 'shareable\n')
    yield from write('schemata', 'L3:0=7fc;1=7fc\n', 'MB:0=100;1=100\n')
    yield from write('a/schemata', 'L3:0=3;1=3\n')
    yield from write('a/mode', 'exclusive\n', see=['info/L3/bit_usage'])
    yield from write('schemata', 'L3:0=7fe\n', see=['schemata'])
    yield from write('a/schemata', 'L3:0=7\n', 'L3:0=1\n', see=['a/schemata'])
    yield from make('b')
    yield from read('b/schemata')
    yield from write('a/mode', 'shareable\n')
    yield from write('a/schemata', 'L3:0=600\n')
    yield from write('a/mode', 'exclusive\n')


def write_elsewhere() -> Iterator[Operation]:
    for path in ('info/L3/cbm_mask', 'size', 'info/last_cmd_status'):
        yield from write(path, '1\n')
    limit = 'info/L3_MON/max_threshold_occupancy'
    texts = (
        *('200000\n', '0\n', 'x\n', '1048576\n', '131072', '-1\n', '\n'),
        *('4294967295\n', '99999999999\n'),
    )
    yield from write(limit, *texts, see=[limit])


CHAPTERS = (
    tell_the_tree,
    set_masks,
    set_bandwidth,
    name_groups,
    use_all_classes,
    deal_cpus,
    move_tasks,
    change_modes,
    write_elsewhere,
)
