# SPDX-License-Identifier: Apache-2.0

"""Text that RMD, or what answers in its place, has sent. Pure."""


def escape(text: str) -> str:
    r"""Return text fit for logs: ``\x1b`` in place of an escape byte.

    What a terminal obeys could hide or forge lines of a log.
    """
    return ''.join(
        one if one.isprintable() else one.encode('unicode_escape').decode()
        for one in text
    )
