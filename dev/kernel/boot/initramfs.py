# SPDX-License-Identifier: Apache-2.0

"""The archive that a kernel starts from: modules, and a first process."""

from collections.abc import Iterator
import gzip
import lzma
import pathlib
import stat
import subprocess
import tempfile

HERE = pathlib.Path(__file__).parent

#: What the guest needs, and the kernel has not built in; with options.
MODULES = {
    'virtio_pci': '',
    '9pnet_virtio': '',
    '9p': '',
    'overlay': '',
    # The registers of the processor are for the tests to look at.
    'msr': 'allow_writes=on',
}


def find_kernel(tree: pathlib.Path) -> pathlib.Path:
    """Return the kernel itself in an unpacked package."""
    found = [*tree.glob('boot/vmlinuz-*'), *tree.glob('**/modules/*/vmlinuz')]
    return found[0]


def write(tree: pathlib.Path, to: pathlib.Path) -> None:
    """Write the archive for an unpacked kernel."""
    order = []
    with gzip.open(to, 'wb', compresslevel=1) as stream:
        for one in _list_folders('modules', 'proc', 'dev'):
            stream.write(one)
        for path, options in _list_modules(tree):
            name = path.name.removesuffix('.xz')
            order.append(f'/modules/{name} {options}'.strip())
            stream.write(pack(f'modules/{name}', _read(path)))
        text = ''.join(f'{line}\n' for line in order)
        stream.write(pack('modules/order', text.encode()))
        stream.write(pack('init', _compile(), mode=0o755))
        stream.write(pack('TRAILER!!!', b''))


def _list_folders(*names: str) -> Iterator[bytes]:
    for name in names:
        yield pack(name, b'', mode=0o755, kind=stat.S_IFDIR)


def pack(
    name: str, data: bytes, *, mode: int = 0o644, kind: int = stat.S_IFREG
) -> bytes:
    """Return one entry of cpio's format "newc" (cpio(5))."""
    path = name.encode() + b'\0'
    numbers = [0] * 13
    numbers[1] = kind | mode
    numbers[4] = 1
    numbers[6] = len(data)
    numbers[11] = len(path)
    head = b'070701' + b''.join(b'%08X' % one for one in numbers) + path
    return _pad(head) + _pad(data)


def _pad(data: bytes) -> bytes:
    return data + b'\0' * (-len(data) % 4)


def _list_modules(
    tree: pathlib.Path,
) -> Iterator[tuple[pathlib.Path, str]]:
    """Return each module once, after those that it needs."""
    if not (tree / 'lib').exists():
        (tree / 'lib').symlink_to('usr/lib')
    (release,) = (path.name for path in (tree / 'lib' / 'modules').iterdir())
    _run('depmod', '-b', str(tree), release)
    separate = (tree / 'lib/modules' / release / 'modules.dep').read_text()
    seen = set()
    for module, options in MODULES.items():
        # Kernels since 7 are packed without a list of what is built in.
        if f'/{module}.ko' not in separate:
            continue
        words = ('-d', str(tree), '-S', release, '--show-depends', module)
        for line in _run('modprobe', *words).splitlines():
            # What is built in is named so.
            what, _space, rest = line.partition(' ')
            path = pathlib.Path(rest.split()[0])
            if what == 'insmod' and path not in seen:
                seen.add(path)
                is_it = path.name.startswith(f'{module}.')
                yield path, options if is_it else ''


def _read(path: pathlib.Path) -> bytes:
    data = path.read_bytes()
    return lzma.decompress(data) if path.suffix == '.xz' else data


def _compile() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        made = pathlib.Path(folder) / 'init'
        _run('gcc', '-O1', '-static', '-o', str(made), str(HERE / 'init.c'))
        return made.read_bytes()


def _run(*command: str) -> str:
    ended = subprocess.run(
        command, check=True, capture_output=True, text=True, timeout=300
    )
    return ended.stdout
