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

"""Run a module in a child process that cannot outlive its parent.

``python -m demo.cloud.guard FOLDER MODULE ARGUMENT ...``

Standard input is a pipe whose other end only the parent holds. When the
parent ends, however it ends, the kernel closes that end: the child then
removes the folder and ends too. ``PR_SET_PDEATHSIG`` would do less: it
follows the *thread* that started the child, is lost when the parent died
before the call, and cannot remove a folder.
"""

import os
import runpy
import shutil
import sys
import threading


def main() -> None:
    """Watch the parent, then become the module."""
    folder, module, *arguments = sys.argv[1:]
    threading.Thread(
        target=_watch, args=(folder,), daemon=True, name='guard'
    ).start()
    sys.argv[:] = [module, *arguments]
    runpy.run_module(module, run_name='__main__', alter_sys=True)


def _watch(folder: str) -> None:
    # os.read, because a daemon thread inside sys.stdin would hold a lock
    # that the interpreter wants at its end.
    while os.read(0, 1):
        pass
    # Several children do this at once and may write until they end: the
    # last one leaves nothing.
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(0)


if __name__ == '__main__':
    main()
