# SPDX-License-Identifier: Apache-2.0

"""Ask the kernel of this machine, or the model.

    OS_TEST_RESCTRL=skylake2 python -m tests.kernel.ask OUT.json
    python -m tests.kernel.ask --model 6.12 OUT.json

OUT.json has each operation and its answer.
"""

import argparse
import dataclasses
import errno
import json
from typing import Any

from nova_ext_resources.testing import resctrl
from tests.kernel import operations
from tests import machines

STATUS = 'info/last_cmd_status'

SHAPE = 'skylake2'

_CALLS = {'list': 'listdir', 'mkdir': 'mkdir', 'rmdir': 'rmdir'}


def escape(text: str) -> str:
    """Return it on one line."""
    return text.encode('unicode_escape').decode()


def answer(files: Any, operation: operations.Operation) -> str:
    """Return what is said to one operation."""
    try:
        if operation.kind == 'read':
            said = files.read(operation.path)
        elif operation.kind == 'write':
            said = files.write(operation.path, operation.text)
        else:
            said = getattr(files, _CALLS[operation.kind])(operation.path)
    except OSError as err:
        return errno.errorcode.get(err.errno or 0, str(err.errno))
    if isinstance(said, list):
        return ' '.join(sorted(said))
    return 'done' if said is None else escape(str(said))


def ask(machine: Any) -> list[dict[str, str]]:
    """Return each operation and what came of it.

    Of what is no read, the kernel's words belong to the answer.
    """
    rows = []
    files = machine.file_system
    for chapter in operations.CHAPTERS:
        machine.kernel.reset()
        tid = machine.kernel.start_task()
        for one in chapter():
            if one.kind != 'read':
                # Not each operation clears the words of the one before.
                files.write('tasks', f'{tid}\n')
            said = answer(files, one)
            if one.kind in ('write', 'mkdir', 'rmdir'):
                said = f'{said}: {escape(files.read(STATUS).strip())}'
            rows.append({'operation': one.words, 'answer': said})
    return rows


def make_model(release: str) -> resctrl.ResctrlFixture:
    """Return the model as it is on a kernel."""
    major, minor = map(int, release.split('.')[:2])
    shape = dataclasses.replace(resctrl.SHAPES[SHAPE], kernel=(major, minor))
    return resctrl.ResctrlFixture(shape)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--model', metavar='RELEASE')
    parser.add_argument('out')
    arguments = parser.parse_args()
    if arguments.model:
        machine = make_model(arguments.model)
    else:
        machine = machines.make(SHAPE)
    machine.setUp()
    try:
        rows = ask(machine)
    finally:
        machine.cleanUp()
    with open(arguments.out, 'w', encoding='utf-8') as stream:
        json.dump(rows, stream, indent=1)


if __name__ == '__main__':
    main()
