# SPDX-License-Identifier: Apache-2.0

"""Explains to an operator which value of an option is not valid, and why.

oslo.config checks a value when it is first read, which may be long after the
start, and describes the place that it came from by a Python object.
"""

from collections.abc import Iterable, Iterator
import contextlib
import re

from oslo_config import cfg
from oslo_config import types

from nova_ext_resources import conf as conf_package
from nova_ext_resources import exception

#: How oslo.config names the file that a value came from.
_FROM_FILE = re.compile(r"LocationInfo\(.*detail='([^']*)'\)")
#: The start of Python's own messages about a text that is not a number.
_PYTHONS = ('invalid literal for int()', 'could not convert string to float')
#: The value that is needed instead.
_NEEDED = {
    types.Integer: 'a whole number is needed',
    types.Port: 'a whole number is needed',
    types.Float: 'a number is needed',
}


def load(
    conf: cfg.ConfigOpts, group: cfg.OptGroup, options: Iterable[cfg.Opt]
) -> cfg.ConfigOpts.GroupAttr:
    """Declare options on a parsed ``conf``, check them, and return them.

    :raises InvalidConfiguration: a value is not valid for its option
    """
    conf_package.register(group, options, conf)
    check(conf, group.name, options)
    loaded: cfg.ConfigOpts.GroupAttr = conf[group.name]
    return loaded


def check(
    conf: cfg.ConfigOpts, group: str, options: Iterable[cfg.Opt]
) -> None:
    """Read all options of a group once.

    :param conf: parsed, with the options registered
    :raises InvalidConfiguration: a value is not valid for its option
    """
    for option in options:
        try:
            conf[group][option.dest]
        except (cfg.Error, ValueError) as err:
            # Not chained: the text of oslo.config may show a secret.
            raise _refuse(group, option, err) from None


@contextlib.contextmanager
def checked(option: str, value: object) -> Iterator[None]:
    """Report a ValueError of what is done inside as one of an option.

    :raises InvalidConfiguration: there was one
    """
    try:
        yield
    except ValueError as err:
        raise exception.InvalidConfiguration(
            option=option, value=value, reason=str(err)
        ) from err


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
        reason = f'{reason}; write a literal $ as $$'
    if option.secret:
        reason = 'not a valid value for this option'
    where = f' (in {path})' if path else ''
    return exception.InvalidConfiguration(
        option=f'[{group}] {option.name}',
        value='***' if option.secret else _read(path, group, option),
        reason=f'{reason}{where}',
    )


def _read(path: str, group: str, option: cfg.Opt) -> str:
    """Read the value from the file; errors of oslo.config do not have it."""
    sections: dict[str, dict[str, list[str]]] = {}
    try:
        cfg.ConfigParser(path, sections).parse()
    except (OSError, cfg.ParseError):
        return '(unknown)'
    written = sections.get(group, {})
    return written.get(option.dest, ['(unknown)'])[-1]
