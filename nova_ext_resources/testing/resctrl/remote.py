# SPDX-License-Identifier: Apache-2.0

"""Interferes with a model in another process: JSON, a line each.

``{"do": "set_offline", "arguments": ["3"]}`` is answered by
``{"result": null}`` or ``{"error": ..., "errno": ...}``.
"""

import json
import threading
from typing import IO, Any

from nova_ext_resources.testing.resctrl import interference


class RemoteError(RuntimeError):
    """The other process refused, or is gone."""


def answer(interfering: interference.Interference, line: str) -> str:
    """Do what a line says, and give the line that says what came of it."""
    try:
        asked = json.loads(line)
        result = interfering.call(
            asked['do'],
            *asked.get('arguments', ()),
            **asked.get('named', {}),
        )
        return json.dumps({'result': result})
    except OSError as err:
        return json.dumps({'error': str(err), 'errno': err.errno})
    except (ValueError, TypeError, KeyError, LookupError) as err:
        return json.dumps({'error': f'{type(err).__name__}: {err}'})


class RemoteInterference:
    """Has the methods of :class:`.interference.Interference`."""

    def __init__(self, asking: IO[str], answers: IO[str]) -> None:
        self._asking = asking
        self._answers = answers
        self._lock = threading.Lock()

    def __getattr__(self, name: str) -> Any:
        if name.startswith('_') or not hasattr(
            interference.Interference, name
        ):
            raise AttributeError(name)

        def call(*arguments: Any, **named: Any) -> Any:
            return self._call(name, arguments, named)

        return call

    def _call(
        self, name: str, arguments: tuple[Any, ...], named: dict[str, Any]
    ) -> Any:
        line = json.dumps(
            {'do': name, 'arguments': arguments, 'named': named}, default=list
        )
        with self._lock:
            self._asking.write(f'{line}\n')
            self._asking.flush()
            said = self._answers.readline()
        if not said:
            raise RemoteError('the process that has the model is gone')
        answered = json.loads(said)
        if answered.get('errno') is not None:
            raise OSError(answered['errno'], answered['error'])
        if 'error' in answered:
            raise RemoteError(answered['error'])
        return answered['result']
