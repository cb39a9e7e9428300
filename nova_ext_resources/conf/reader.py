# SPDX-License-Identifier: Apache-2.0

"""Reads Nova's configuration files for one host."""

from collections.abc import Sequence
import os
import re
import socket

from oslo_config import cfg

from nova_ext_resources.conf.drivers import fake
from nova_ext_resources.conf import host as host_conf
from nova_ext_resources.conf import metrics
from nova_ext_resources.conf import values
from nova_ext_resources import exception

#: Characters that are replaced in a file name.
_UNSAFE = re.compile(r'[^A-Za-z0-9._-]')

#: How oslo.config quotes a line that it cannot read: it may have a password.
_QUOTED = re.compile(r": '.*'\s*$", re.DOTALL)


def read_conf(
    files: Sequence[str], folders: Sequence[str], host: str
) -> cfg.ConfigOpts:
    """Read Nova's configuration files with a parser of our own.

    ``<host>.conf`` of ``[ext_resources] host_config_dir`` comes last.

    :raises InvalidConfiguration: the folder is named and has no such file,
        a file cannot be read, or an option of the host is wrong
    """
    conf = _parse(files, folders)
    extra_dir = conf.ext_resources.host_config_dir
    if not extra_dir:
        return conf
    extra = os.path.join(extra_dir, f'{make_file_name(host)}.conf')
    if not os.path.isfile(extra):
        raise exception.InvalidConfiguration(
            option='[ext_resources] host_config_dir',
            value=extra_dir,
            reason=f'there is no file {extra} for host {host}; create the '
            'file, empty if this host needs no options of its own',
        )
    return _parse(files, folders, extra)


def read_host(files: Sequence[str], folders: Sequence[str]) -> str:
    """Return the name that Nova gives to this host.

    :raises InvalidConfiguration: a file cannot be read
    """
    conf = cfg.ConfigOpts()
    conf.register_opt(cfg.StrOpt('host', default=socket.gethostname()))
    parse(conf, files, folders)
    host: str = conf.host
    return host


def _parse(
    files: Sequence[str], folders: Sequence[str], *last: str
) -> cfg.ConfigOpts:
    conf = cfg.ConfigOpts()
    host_conf.register_opts(conf)
    fake.register_opts(conf)
    metrics.register_opts(conf)
    parse(conf, files, folders, *last)
    for part in (host_conf, fake, metrics):
        values.check(conf, part.GROUP.name, part.OPTS)
    return conf


def parse(
    conf: cfg.ConfigOpts,
    files: Sequence[str],
    folders: Sequence[str],
    *last: str,
) -> None:
    """Read configuration files, without any defaults.

    :param last: files that are read after the folders
    :raises InvalidConfiguration: a file cannot be read, or an option of the
        log has a wrong value
    """
    # As arguments they are read in this order, and the last one wins.
    named = [
        *(f'--config-file={path}' for path in files),
        *(f'--config-dir={path}' for path in folders),
        *(f'--config-file={path}' for path in last),
    ]
    try:
        conf(
            named,
            project='nova',
            default_config_files=[],
            default_config_dirs=[],
        )
    # Options of the log are arguments as well, and argparse ends the program
    # for a wrong value: also one that runs, and reads its options again.
    except SystemExit:
        reason = 'an option of the log has a wrong value; see standard error'
    except cfg.Error as err:
        reason = _QUOTED.sub('', str(err))
    else:
        return
    # Not chained: the text of oslo.config may show a secret.
    raise exception.InvalidConfiguration(
        option='--config-file, --config-dir',
        value=', '.join([*files, *folders, *last]),
        reason=f'{reason}; correct the file, or the arguments of the service',
    )


def make_file_name(host: str) -> str:
    """Make a file name of a host name, which comes from outside."""
    return _UNSAFE.sub('_', host).lstrip('.') or '_'
