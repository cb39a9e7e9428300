# SPDX-License-Identifier: Apache-2.0

"""Where the pools of a last-level cache lie. Pure.

They follow from the hardware and the options alone, so that they are where
they were after every restart: beside the ways of the host, as far from them
as can be. The ways between are those that servers have for themselves, and
the default group keeps what is free of these for as long as it is one run
with the host's.
"""

from nova_ext_resources.objects import bitmask


def place(
    usable: int, host: int, *, burst: int, shared: int, least: int
) -> tuple[int, int]:
    """Return the ways of the burst pool and of the shared pool.

    :param usable: ways that are neither the host's nor the hardware's
    :param burst: how many are for burst ways
    :param shared: how many are for the servers that share a pool
    :param least: how many the CPU gives to a group at least
    :raises ValueError: they do not fit; says why
    """
    of_burst = _place(usable, host, burst, least, 'burst_ways')
    # Only the deployer knows which of the two is too large.
    before = f' and of burst_ways = {burst}' if burst else ''
    usable &= ~of_burst
    return of_burst, _place(usable, host, shared, least, 'shared_ways', before)


def _place(
    usable: int,
    host: int,
    size: int,
    least: int,
    name: str,
    before: str = '',
) -> int:
    if not size:
        return 0
    if size < least:
        raise ValueError(
            f'{name} is {size}, but this CPU needs at least {least} ways for '
            'each group'
        )
    runs = [run for run in bitmask.split(usable) if run.bit_count() >= size]
    if not runs:
        longest = bitmask.find_longest(usable).bit_count()
        raise ValueError(
            f'{name} is {size}, but only {longest} ways in a row are left '
            f'beside the ways of the host, of I/O devices{before}'
        )
    if host > usable:
        return runs[0] & ~(runs[0] << size)
    return runs[-1] & ~(runs[-1] >> size)
