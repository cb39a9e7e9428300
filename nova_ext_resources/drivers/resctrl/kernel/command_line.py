# SPDX-License-Identifier: Apache-2.0

"""Whom a command line names, as libvirt starts QEMU. Pure.

Only the first occurrence of an option counts. libvirt writes its own before
those with values that come from an image (``-append``).
"""

from collections.abc import Mapping

#: How QEMU takes its options.
_DASHES = (b'-', b'--')

#: A comma within a value is written twice (qemu(1), "-name" and others).
_COMMA = b',,'


def find_server(line: bytes, names: Mapping[str, str]) -> str:
    """Return the server of a command line, '' when it is of none.

    :param line: words, each with a zero byte at its end
    :param names: the hypervisor's name of a guest -> its server; asked only
        where there is no ``-uuid``
    """
    words = line.split(b'\0')
    uuid = _find_value(words, b'uuid').decode('ascii', 'replace').lower()
    return uuid or names.get(_find_name(words), '')


def _find_name(words: list[bytes]) -> str:
    # No word has a zero byte in it.
    value = _find_value(words, b'name').replace(_COMMA, b'\0')
    name = value.split(b',')[0].replace(b'\0', b',')
    return name.removeprefix(b'guest=').decode('utf-8', 'replace')


def _find_value(words: list[bytes], name: bytes) -> bytes:
    for dashes in _DASHES:
        option = dashes + name
        if option in words[1:-1]:
            return words[words.index(option, 1) + 1]
    return b''
