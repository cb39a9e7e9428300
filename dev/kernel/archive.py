# SPDX-License-Identifier: Apache-2.0

"""Packages of Debian's archive, fetched and unpacked, not installed.

apt works on lists of its own below the cache; the sources of this machine
are read, for the address of the archive, and never changed.
"""

from collections.abc import Iterable, Sequence
import pathlib
import re
import shutil
import subprocess

from dev.kernel import obstacle

#: Release whose QEMU the patch fits.
QEMU_RELEASE = 'bookworm'

#: Where kernels are looked for.
RELEASES = (
    QEMU_RELEASE,
    f'{QEMU_RELEASE}-backports',
    'trixie',
    'trixie-backports',
)

_KEYS = pathlib.Path('/usr/share/keyrings/debian-archive-keyring.gpg')

#: As ``linux-image-6.12.95+deb13-amd64`` is named.
_IMAGE = re.compile(r'linux-image-(\d+\.\d+)([\d.]*[^ ]*)-amd64')

#: Variants: for clouds, for real time, and without a signature.
_VARIANT = re.compile(r'cloud|rt|unsigned|dbg')

#: What newer packages of a kernel are split into.
_PARTS = ('linux-image', 'linux-binary', 'linux-modules')

_SECONDS = 600


def find_addresses() -> dict[bool, str]:
    """Return where this machine gets Debian from; True: what is mended.

    :raises obstacle.Obstacle: its apt knows no archive of Debian
    """
    found = _run(
        'apt-get',
        'indextargets',
        '--format',
        '$(REPO_URI) $(RELEASE)',
        'Created-By: Packages',
    )
    addresses = {}
    for line in found.splitlines():
        address, release = line.split(' ', 1)
        if address.rstrip('/').endswith(('/debian', '/debian-security')):
            addresses[release.endswith('-security')] = address
    if False not in addresses:
        raise obstacle.Obstacle(
            'the apt of this machine knows no archive of Debian; the kernels '
            'and the source of QEMU come from there'
        )
    return addresses


def _run(*command: str, folder: pathlib.Path | None = None) -> str:
    short = ' '.join(command[:1] + command[-2:])
    try:
        ended = subprocess.run(
            command,
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as err:
        raise obstacle.Obstacle(f'"{short}" failed: {err}') from err
    if ended.returncode:
        said = (ended.stderr or ended.stdout).strip().splitlines()
        raise obstacle.Obstacle(
            f'"{short}" failed: '
            + (said[-1] if said else f'status {ended.returncode}')
        )
    return ended.stdout


def choose(packages: Iterable[str]) -> dict[str, str]:
    """Return the newest kernel of each series."""
    newest: dict[str, str] = {}
    for name in sorted(packages, key=_key):
        parts = _IMAGE.fullmatch(name)
        if parts and not _VARIANT.search(parts[2]):
            newest[parts[1]] = name
    return newest


class Archive:
    """What apt can fetch, with lists and downloads in a folder.

    :param folder: kept from run to run
    """

    def __init__(self, folder: pathlib.Path) -> None:
        self._folder = folder
        self._options: list[str] = []

    def update(self) -> None:
        """Fetch the lists of packages.

        :raises obstacle.Obstacle: the archive does not answer
        """
        (self._folder / 'lists' / 'partial').mkdir(parents=True, exist_ok=True)
        sources = self._folder / 'sources.list'
        sources.write_text(_list_sources(find_addresses()))
        self._options = _make_options(self._folder, sources)
        self._apt('apt-get', 'update')

    def _apt(self, *words: str, folder: pathlib.Path | None = None) -> str:
        return _run(words[0], *self._options, *words[1:], folder=folder)

    def find_qemu(self) -> str:
        """Return the version of QEMU's source package."""
        shown = self._apt('apt-cache', 'showsrc', '--only-source', 'qemu')
        versions = re.findall(r'^Version: (.*)$', shown, re.MULTILINE)
        return str(max(versions, key=_key))

    def fetch_qemu(self, version: str, folder: pathlib.Path) -> None:
        """Unpack that source into a folder that is not there."""
        at = folder.parent / 'source'
        shutil.rmtree(at, ignore_errors=True)
        at.mkdir(parents=True)
        self._apt(
            'apt-get',
            'source',
            '--download-only',
            f'qemu={version}',
            folder=at,
        )
        (described,) = at.glob('qemu_*.dsc')
        _run('dpkg-source', '--no-copy', '-x', str(described), str(folder))
        shutil.rmtree(at)

    def list_kernels(self) -> dict[str, str]:
        """Return the newest package of each series, by names like 6.12."""
        found = self._apt('apt-cache', 'pkgnames', 'linux-image-')
        return choose(found.split())

    def fetch_kernel(self, package: str, folder: pathlib.Path) -> None:
        """Unpack a kernel and its modules into a folder that is not there.

        Whatever stops this, nobody finds half a kernel in the folder.
        """
        at = folder.with_name(f'{folder.name}.debs')
        unpacked = folder.with_name(f'{folder.name}.new')
        for one in (at, unpacked):
            shutil.rmtree(one, ignore_errors=True)
        at.mkdir(parents=True)
        self._apt('apt-get', 'download', *self._list_parts(package), folder=at)
        for one in sorted(at.glob('*.deb')):
            _run('dpkg-deb', '-x', str(one), str(unpacked))
        shutil.rmtree(at)
        unpacked.rename(folder)

    def _list_parts(self, package: str) -> Sequence[str]:
        said = self._apt('apt-cache', 'depends', '--important', package)
        found = re.findall(r'Depends: ([^ <>\n]+)$', said, re.MULTILINE)
        return [package, *(one for one in found if one.startswith(_PARTS))]


def _list_sources(addresses: dict[bool, str]) -> str:
    signed = f'[signed-by={_KEYS}] ' if _KEYS.exists() else ''
    plain = f'{signed}{addresses[False]}'
    lines = [f'deb-src {plain} {QEMU_RELEASE} main']
    lines += [f'deb {plain} {name} main' for name in RELEASES]
    if True in addresses:
        mended = f'{signed}{addresses[True]}'
        lines.append(f'deb {mended} {QEMU_RELEASE}-security main')
    return '\n'.join(lines) + '\n'


def _make_options(folder: pathlib.Path, sources: pathlib.Path) -> list[str]:
    given = {
        'Dir::Etc::sourcelist': sources,
        'Dir::Etc::sourceparts': '/dev/null',
        'Dir::State::lists': folder / 'lists',
        'Dir::Cache': folder / 'cache',
        # Descriptions are large, and nobody reads them.
        'Acquire::Languages': 'none',
        'Acquire::Retries': '2',
        'Acquire::http::Timeout': '30',
        'APT::Get::List-Cleanup': 'true',
        # Another user could not write below .tox.
        'APT::Sandbox::User': 'root',
    }
    options = []
    for name, value in given.items():
        options += ['-o', f'{name}={value}']
    return options


def _key(name: str) -> list[tuple[int, str]]:
    """Order names with numbers in them as the numbers are."""
    return [
        (int(part), '') if part.isdigit() else (-1, part)
        for part in re.split(r'(\d+)', name)
    ]
