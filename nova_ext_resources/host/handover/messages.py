# SPDX-License-Identifier: Apache-2.0

"""What a hand-over says to the operator. Pure."""

from nova_ext_resources.objects import assignment

#: The option of the command that leaves the source alone.
SOURCE_IS_GONE = '--source-is-gone'

UNCHANGED = 'Nothing was changed.'


def tell_state(source: str, target: str, *, is_released: bool) -> str:
    """Explain in what state everything is, and how to go on and back.

    :param is_released: whether everything has been at the source
    """
    if is_released:
        here = (
            f'Nothing of ours is in force at {source} any more; what the '
            f'ledger calls applied is in force at {target}.'
        )
        hint = (
            f' If {source} still holds classes of service in the kernel, stop '
            'it and remove its groups.'
        )
    else:
        here = f'What the ledger calls applied is still in force at {source}.'
        hint = ''
    return (
        f'{here} All servers run on.{hint} To go on: the same command again. '
        f'To go back: --from {target} --to {source}, which first releases at '
        f'{target} what was applied there. Should the one that it comes from '
        f'be gone for good, either way takes {SOURCE_IS_GONE}. nova-compute '
        'does not start before one of them has ended.'
    )


def tell_unasked(source: str) -> str:
    """Say what to do about a source that does not answer."""
    return (
        f'{UNCHANGED} What {source} has in force is released there first, so '
        'mend or start it. If it is gone for good, and nothing that it did is '
        f'in force in the kernel any more, add {SOURCE_IS_GONE}.'
    )


def tell_elsewhere(source: str, target: str, count: int) -> str:
    """Say what it may mean that a source has nothing of ours."""
    return (
        f'the ledger says that {count} servers are in force, and {source} '
        f'answers that it has none of them. {UNCHANGED} If this host runs '
        f'with {target}, exchange --from and --to. If {source} has lost them, '
        f'start nova-compute with it once, or add {SOURCE_IS_GONE}.'
    )


def tell_absent(target: str) -> str:
    """Say what to do about a target that does not answer."""
    return (
        f'Nothing more was released: {target} could not take it. Mend or '
        'start it; if it cannot run beside the other one, add --unchecked.'
    )


def tell_answered(source: str, count: int) -> str:
    """Explain why a source is not believed to be gone."""
    return (
        f'{source} answers, and has {count} servers in force. {UNCHANGED} Run '
        f'it without {SOURCE_IS_GONE}.'
    )


def describe(entry: assignment.Entry) -> str:
    """Return a server and its units on one line."""
    held = ', '.join(
        f'{one.amount} {one.resource_class} of {one.rp_key}'
        + (f' {dict(one.units)}' if one.units else '')
        for one in entry.assignments
    )
    return f'{entry.consumer_uuid}: {held}'
