# SPDX-License-Identifier: Apache-2.0

"""Checks of our extra specs in Nova's API, before a flavor has them.

Nova loads this module from the entry point
``nova.api.extra_spec_validators`` and calls :func:`register`. It checks
when extra specs are written with microversion 2.86 or later.

Nova's own validator of ``resources`` takes -1, and drops it when it
schedules. Validators are known by their names, and for one name the last
to be loaded wins. In which order packages are loaded is left to chance, so
ours take Nova's place on both ways: in the registry, and in the list from
which Nova fills it.
"""

from typing import Any

from nova.api.validation.extra_specs import base
from nova.api.validation.extra_specs import resources
from nova import exception as nova_exception

from nova_ext_resources.claims import extra_specs
from nova_ext_resources import exception
from nova_ext_resources import plugins

#: Everything that ``extra_specs.is_ours`` says yes to. The colon is written
#: \x3a where Nova, which cuts this in two at the first one, shall not see it.
_NAMES = r'{prefix}:{rest}'
_PREFIX = r'resources?[^\x3a]*'


class GrammarValidator(base.ExtraSpecValidator):
    """Checks one kind of extra specs with our grammar."""

    #: Set by :func:`register`: Nova's class is a dataclass with a signature
    #: of its own.
    grammar: extra_specs.Grammar

    def validate(self, name: str, value: str) -> None:
        """Check an extra spec.

        :raises nova.exception.ValidationError: with the key, the value, and
            what would be right; Nova answers 400
        """
        try:
            extra_specs.check(name, str(value), self.grammar)
        except exception.InvalidExtraSpec as err:
            raise nova_exception.ValidationError(str(err)) from err


def register() -> list[base.ExtraSpecValidator]:
    """Return the validators, for Nova."""
    grammar = plugins.load_grammar()
    ours = [
        _replace(theirs, grammar) for theirs in resources.EXTRA_SPEC_VALIDATORS
    ]
    resources.EXTRA_SPEC_VALIDATORS[:] = ours
    return [*ours, _make_rest(grammar)]


def _replace(
    theirs: base.ExtraSpecValidator, grammar: extra_specs.Grammar
) -> GrammarValidator:
    """Make ours of the same name, so that it takes the place of theirs."""
    return _make(
        grammar,
        name=theirs.name,
        description=theirs.description,
        value=theirs.value,
        parameters=theirs.parameters,
    )


def _make_rest(grammar: extra_specs.Grammar) -> GrammarValidator:
    """Make the one for ``resource:*``, and for what looks like either."""
    return _make(
        grammar,
        name=_NAMES,
        description='An amount of a resource, or an attribute of one: '
        'resources:CLASS, resource:CLASS:ATTRIBUTE or '
        'resource:ENFORCER:KEY; or how long it is used: resource:lease:KEY.',
        value={'type': str},
        parameters=[
            {'name': 'prefix', 'pattern': _PREFIX},
            {'name': 'rest', 'pattern': '.*'},
        ],
    )


def _make(grammar: extra_specs.Grammar, **fields: Any) -> GrammarValidator:
    made = GrammarValidator(**fields)
    made.grammar = grammar
    return made
