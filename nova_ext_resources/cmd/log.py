# SPDX-License-Identifier: Apache-2.0

"""The log of a program that must not end by it.

A folder of logs may be deleted, moved or full while a program runs. What it
does goes on: its log goes to standard error until the file can be written.
"""

import logging as std_logging
from logging import handlers
import sys

from oslo_config import cfg
from oslo_log import log as logging

from nova_ext_resources import exception


class LogFile(handlers.WatchedFileHandler):
    """Writes to standard error while the file cannot be opened.

    The handler of Python raises then, in whatever line of the program has
    something to log.
    """

    _is_lost = False

    def emit(self, record: std_logging.LogRecord) -> None:
        try:
            super().emit(record)
        except OSError as err:
            if not self._is_lost:
                print(
                    f'The log file {self.baseFilename} cannot be opened: '
                    f'{err}. Create the folder again, writable for this '
                    'program. Until then the log goes to standard error.',
                    file=sys.stderr,
                )
            self._is_lost = True
            print(self.format(record), file=sys.stderr, flush=True)
        else:
            self._is_lost = False


def set_up(conf: cfg.ConfigOpts, program: str) -> None:
    """Log to where the options say; to standard error if they do not.

    :raises InvalidConfiguration: that cannot be; the log goes where it went
    """
    if not (
        conf.log_file or conf.log_dir or conf.use_syslog or conf.use_journal
    ):
        # Otherwise nobody would see the log: oslo.log drops it by default.
        conf.set_default('use_stderr', True)
    root = std_logging.getLogger()
    before = [*root.handlers]
    try:
        logging.setup(conf, program)
    except (OSError, logging.LogConfigError, TypeError, RuntimeError) as err:
        _replace(root, before)
        raise _refuse(conf, err) from err
    _replace(root, [*map(_make_steady, root.handlers)])


def _replace(
    root: std_logging.Logger, wanted: list[std_logging.Handler]
) -> None:
    for one in [*root.handlers]:
        root.removeHandler(one)
    for one in wanted:
        root.addHandler(one)


def _make_steady(handler: std_logging.Handler) -> std_logging.Handler:
    """Return what does the same, and never raises; most are so already."""
    if type(handler) is not handlers.WatchedFileHandler:
        return handler
    made = LogFile(handler.baseFilename)
    made.setFormatter(handler.formatter)
    handler.close()
    return made


def _refuse(
    conf: cfg.ConfigOpts, err: Exception
) -> exception.InvalidConfiguration:
    if conf.log_config_append:
        option = 'log_config_append'
    else:
        option = 'log_file' if conf.log_file else 'log_dir'
    return exception.InvalidConfiguration(
        option=f'[DEFAULT] {option}',
        value=conf[option],
        reason=f'the log cannot be set up: {err}; create the folder, writable '
        'for this program, or correct the options of the log',
    )
