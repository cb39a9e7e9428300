# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""Options whose values cannot be used, in words for whoever wrote them.

oslo.config looks at a value when it is first read, which may be long after
the start, and tells where it came from in words of its own.
"""

from collections.abc import Iterable
import re

from oslo_config import cfg
from oslo_config import types

from nova_ext_resources import exception

#: How oslo.config says from which file a value came.
_FROM_FILE = re.compile(r"LocationInfo\(.*detail='([^']*)'\)")
#: How Python's own words about a text that is no number begin.
_PYTHONS = ('invalid literal for int()', 'could not convert string to float')
#: What it should be.
_NEEDED = {
    types.Integer: 'a whole number is needed',
    types.Port: 'a whole number is needed',
    types.Float: 'a number is needed',
}
#: What it quotes of a line that it cannot read; it may be part of a password.
_QUOTED = re.compile(r": '.*'\s*$", re.DOTALL)


def check(
    conf: cfg.ConfigOpts, group: str, options: Iterable[cfg.Opt]
) -> None:
    """Read all options of a group once.

    :param conf: parsed, with the options registered
    :raises InvalidConfiguration: a value is not what its option takes
    """
    for option in options:
        try:
            conf[group][option.dest]
        except (cfg.Error, ValueError) as err:
            # Not chained: the text of oslo.config may show a secret.
            raise _refuse(group, option, err) from None


def tell_unreadable(
    err: cfg.Error, paths: Iterable[str]
) -> exception.InvalidConfiguration:
    """Give the error for files that cannot be read as configuration."""
    return exception.InvalidConfiguration(
        option='--config-file, --config-dir',
        value=', '.join(paths),
        reason=f'{_QUOTED.sub("", str(err))}; correct the file, or the '
        'arguments of the service',
    )


def _refuse(
    group: str, option: cfg.Opt, err: Exception
) -> exception.InvalidConfiguration:
    found = _FROM_FILE.search(str(err))
    path = found[1] if found else ''
    # NOTE: oslo.config raises while it handles the error of the type, which
    # alone has the reason.
    reason = str(err.__context__ or err).rstrip('.')
    if reason.startswith(_PYTHONS):
        reason = _NEEDED.get(type(option.type), reason)
    if isinstance(err, cfg.NoSuchOptError):
        reason = f'{reason}; a $ that is meant as such is written $$'
    if option.secret:
        reason = 'it is no value that this option takes'
    where = f' (in {path})' if path else ''
    return exception.InvalidConfiguration(
        option=f'[{group}] {option.name}',
        value='***' if option.secret else _read(path, group, option),
        reason=f'{reason}{where}',
    )


def _read(path: str, group: str, option: cfg.Opt) -> str:
    """Read the value as it is written; errors of oslo.config have it not."""
    sections: dict[str, dict[str, list[str]]] = {}
    try:
        cfg.ConfigParser(path, sections).parse()
    except (OSError, cfg.ParseError):
        return '(unknown)'
    written = sections.get(group, {})
    return written.get(option.dest, ['(unknown)'])[-1]
