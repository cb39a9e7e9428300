# SPDX-License-Identifier: Apache-2.0

"""Numbers as the kernel reads and writes them.

Its parsers are stricter than Python's: no blanks, no underscores, at most
one newline at the end.
"""

from collections.abc import Iterable
import errno
import re

_LIST_PART = re.compile(
    r'(?:all|(\d+|N)(?:-(\d+|N))?)(?::(\d+)/(\d+))?', re.IGNORECASE
)
_SEPARATORS = re.compile(r'[,\s]')
_WORD = 32


def parse_decimal(text: str) -> int:
    """Read what kstrtoul() takes with base 10.

    :raises ValueError: it takes none of it
    """
    if not re.fullmatch(r'\+?[0-9]+\n?', text):
        raise ValueError(text)
    return int(text)


def parse_hex(text: str) -> int:
    """Read what kstrtoul() takes with base 16.

    :raises ValueError: it takes none of it
    """
    if not re.fullmatch(r'\+?(0[xX])?[0-9a-fA-F]+\n?', text):
        raise ValueError(text)
    return int(text, 16)


def parse_integer(text: str, maximum: int = (1 << 31) - 1) -> int:
    """Read what kstrtoint() takes with base 0: the prefix tells the base.

    :raises ValueError: it takes none of it
    :raises OverflowError: it is more than the maximum
    """
    match = re.fullmatch(r'([+-]?)(0[xX][0-9a-fA-F]+|[0-9]+)\n?', text)
    if not match:
        raise ValueError(text)
    digits = match[2]
    base = 10
    if digits[:2].lower() == '0x':
        base = 16
    elif digits.startswith('0'):
        base = 8
    number = int(f'{match[1]}{digits}', base)
    if number > maximum:
        raise OverflowError(text)
    return number


def parse_cpu_list(text: str, count: int) -> set[int]:
    """Read a list like ``0-3,8``, as bitmap_parselist() does.

    :raises OSError: EINVAL, or ERANGE for CPUs that no such host can have
    """
    cpus: set[int] = set()
    for part in _split_line(text):
        match = _LIST_PART.fullmatch(part)
        if not match:
            raise OSError(errno.EINVAL, f'{text!r} is no list of CPUs')
        ends = [match[1], match[2] or match[1]] if match[1] else ['0', 'N']
        first, last = (
            count - 1 if end == 'N' else int(end, 10) for end in ends
        )
        used, group = int(match[3] or 1), int(match[4] or 1)
        if last < first or not 0 < used <= group:
            raise OSError(errno.EINVAL, f'{text!r} is no list of CPUs')
        if last >= count:
            raise OSError(errno.ERANGE, f'CPU {last} of {count}')
        cpus.update(
            cpu
            for cpu in range(first, last + 1)
            if (cpu - first) % group < used
        )
    return cpus


def _split_line(text: str) -> list[str]:
    """Return the parts of the first line; the kernel reads no other."""
    line = text.partition('\n')[0]
    return [part for part in _SEPARATORS.split(line) if part]


def parse_cpu_mask(text: str, count: int) -> set[int]:
    """Read a mask like ``ff,ffffffff``, as bitmap_parse() does.

    It reads the last word first.

    :raises OSError: EINVAL, or EOVERFLOW for too many digits, words or CPUs
    """
    mask = 0
    for low, word in enumerate(reversed(_split_line(text))):
        if low * _WORD >= count:
            raise OSError(errno.EOVERFLOW, f'{text!r} has too many words')
        if not re.fullmatch(r'[0-9a-fA-F]+', word):
            raise OSError(errno.EINVAL, f'{text!r} is no mask of CPUs')
        if len(word) > _WORD // 4:
            raise OSError(errno.EOVERFLOW, f'{word!r} has more than 32 bits')
        mask |= int(word, 16) << low * _WORD
    if mask >> count:
        raise OSError(errno.EOVERFLOW, f'{text!r} has more than {count} CPUs')
    return {cpu for cpu in range(count) if mask >> cpu & 1}


def format_cpu_list(cpus: Iterable[int]) -> str:
    """Write ``%*pbl``."""
    runs: list[list[int]] = []
    for cpu in sorted(cpus):
        if runs and cpu == runs[-1][1] + 1:
            runs[-1][1] = cpu
        else:
            runs.append([cpu, cpu])
    return ','.join(f'{a}-{b}' if a != b else f'{a}' for a, b in runs)


def format_cpu_mask(cpus: Iterable[int], count: int) -> str:
    """Write ``%*pb``: words of 32 bits, the first as short as it can be."""
    mask = sum(1 << cpu for cpu in cpus)
    words = []
    for low in range(0, count, _WORD):
        bits = min(_WORD, count - low)
        word = mask >> low & ((1 << bits) - 1)
        words.append(f'{word:0{(bits + 3) // 4}x}')
    return ','.join(reversed(words))
