# SPDX-License-Identifier: Apache-2.0

"""Checks of our extra specs in Nova's API, before a flavor has them.

Nova loads this module from the entry point
``nova.api.extra_spec_validators`` and calls :func:`register`. It checks
when extra specs are written with microversion 2.86 or later.

Nova's own validator of ``resources`` takes -1, and drops it when it
schedules. Of two validators with one name, Nova keeps the one that is loaded
last, at the place of the first; for an extra spec, it asks the first one that
matches. In which order packages are loaded is left to chance. So ours begin
with one that matches every extra spec of ours, for when they are loaded first,
and go on with one for each name of Nova's, for when they are loaded last.
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
    return [
        _make_common(grammar),
        *(_replace(one, grammar) for one in resources.EXTRA_SPEC_VALIDATORS),
    ]


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


def _make_common(grammar: extra_specs.Grammar) -> GrammarValidator:
    """Make the one for ``resource:*`` and ``resources:*``, and such."""
    return _make(
        grammar,
        name=_NAMES,
        description='An amount of a resource (resources:CLASS), an attribute '
        '(resource:CLASS:ATTRIBUTE or resource:ENFORCER:KEY), or the '
        'duration of its use (resource:lease:KEY).',
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
