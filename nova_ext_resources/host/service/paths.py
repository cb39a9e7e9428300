# SPDX-License-Identifier: Apache-2.0

"""Where the files of a host are that no option names."""

import os

from oslo_config import cfg

from nova_ext_resources.conf import reader
from nova_ext_resources import exception
from nova_ext_resources.host.ledger import ledger


def find_ledger_path(
    options: cfg.ConfigOpts.GroupAttr, state_path: str, host: str
) -> str:
    """Return the file of a host's ledger.

    :param options: of ``[ext_resources]``
    :param state_path: its folder where the options name no file
    """
    name = f'{reader.make_file_name(host)}.sqlite'
    return options.ledger_path or os.path.join(state_path, name)


def make_folder(path: str) -> None:
    """Make the folder of the files of a host.

    :raises InvalidConfiguration: it cannot be made
    """
    try:
        os.makedirs(path, mode=ledger.FOLDER_MODE, exist_ok=True)
    except OSError as err:
        raise exception.InvalidConfiguration(
            option='[DEFAULT] state_path',
            value=os.path.dirname(path),
            reason=f'the folder {path} cannot be made: {err.strerror}. Let '
            'the user of nova-compute write there',
        ) from err


def find_audit_path(state_path: str, host: str) -> str:
    """Return the file of a host's audit trail where no option names it."""
    return os.path.join(
        state_path, f'{reader.make_file_name(host)}-tuning.jsonl'
    )
