# SPDX-License-Identifier: Apache-2.0

"""Where Nova keeps its state, for programs that run without Nova."""

import importlib.util
import os

from oslo_config import cfg

#: Below Nova's folder.
_FOLDER = 'ext_resources'


def find_folder(conf: cfg.ConfigOpts) -> str:
    """Return the folder of our files below Nova's ``state_path``.

    The defaults are Nova's (``nova.conf.paths``): where it is installed.

    :param conf: parsed, and not Nova's global one
    :return: an absolute path; '' if no option names it and Nova is not
        installed in this environment
    """
    conf.register_opts(
        [
            cfg.StrOpt('pybasedir', default=_find_nova()),
            cfg.StrOpt('state_path', default='$pybasedir'),
        ]
    )
    if not conf.state_path:
        return ''
    return os.path.abspath(os.path.join(conf.state_path, _FOLDER))


def _find_nova() -> str:
    """Return the folder that has the package ``nova``; '' if none has."""
    spec = importlib.util.find_spec('nova')
    # This package has a folder of that name, without a module.
    if spec is None or not spec.origin:
        return ''
    return os.path.dirname(os.path.dirname(spec.origin))
