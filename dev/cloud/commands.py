# SPDX-License-Identifier: Apache-2.0

"""The ``openstack`` command line, as an operator types it."""

from collections.abc import Mapping
import dataclasses
import os
import subprocess

from dev.cloud import folder as folders
from dev.cloud import programs
from dev.cloud import sdk
from dev.cloud import told

#: No command here needs longer, even under load.
_SECONDS = 900.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a command did.

    :ivar status: that it ended with; 0 for success
    :ivar output: what it printed
    :ivar errors: what it printed to standard error
    """

    status: int
    output: str
    errors: str


def ask(folder: folders.Folder, *words: str) -> Answer:
    """Run one command to its end.

    :raises CloudError: ``openstack`` is not installed beside this Python
    """
    return _ask(folder, [programs.get('openstack'), *words])


def ask_script(
    folder: folders.Folder, path: str, variables: Mapping[str, str]
) -> Answer:
    """Run a script of the shell that runs such commands, to its end.

    :param variables: of its environment
    :raises CloudError: ``openstack`` is not installed beside this Python
    """
    beside = os.path.dirname(programs.get('openstack'))
    paths = f'{beside}{os.pathsep}{os.environ.get("PATH", os.defpath)}'
    return _ask(folder, ['bash', path], {'PATH': paths, **variables})


def _ask(
    folder: folders.Folder,
    command: list[str],
    variables: Mapping[str, str] | None = None,
) -> Answer:
    done = subprocess.run(
        command,
        env={
            **os.environ,
            'OS_CLIENT_CONFIG_FILE': str(folder.clouds_yaml),
            'OS_CLOUD': folders.CLOUD,
            'OS_COMPUTE_API_VERSION': sdk.COMPUTE_MICROVERSION,
            **(variables or {}),
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=False,
    )
    return Answer(
        status=done.returncode,
        output=done.stdout.strip(),
        errors=done.stderr.strip(),
    )


def run(folder: folders.Folder, *words: str) -> str:
    """Run one command; return what it printed.

    :raises NotAsTold: it fails
    """
    answer = ask(folder, *words)
    told.expect(
        answer.status == 0,
        f'openstack {" ".join(words)} succeeds',
        f'{answer.status}: {answer.errors or answer.output}',
    )
    return answer.output


def run_in_vain(folder: folders.Folder, *words: str) -> str:
    """Run one command that must be refused; return the reason.

    :raises NotAsTold: it succeeds
    """
    answer = ask(folder, *words)
    told.expect(
        answer.status != 0,
        f'openstack {" ".join(words)} is refused',
        answer.output,
    )
    return answer.errors
