# SPDX-License-Identifier: Apache-2.0

"""Which guests run on a host, asked of its hypervisor.

Each question has a thread of its own: a hypervisor that hangs delays a start
or an audit by a few seconds. Once that is known, nobody asks it anew before it
has answered.
"""

from collections.abc import Callable, Mapping
import threading

from oslo_log import log as logging

from nova_ext_resources.facts import guest
from nova_ext_resources import log_on_change
from nova_ext_resources import plugins

LOG = logging.getLogger(__name__)

#: Seconds to wait for an answer.
PATIENCE = 5.0

Guests = Mapping[str, guest.Guest]


class GuestList:
    """Asks each time, as an answer is old when a guest starts or ends.

    :param ask: returns server -> its guest, of all that have processes on
        this host now; may raise anything
    :param patience: seconds to wait for an answer
    """

    def __init__(
        self,
        ask: Callable[[], Guests],
        *,
        host: str,
        patience: float = PATIENCE,
    ) -> None:
        self._ask = ask
        self._host = host
        self._patience = patience
        self._asking: threading.Thread | None = None
        self._logged = log_on_change.LogOnChange()

    def read(self) -> Guests | None:
        """Return the guests that run now; None when that is unknown."""
        if self._asking is not None and self._asking.is_alive():
            return None
        answers: list[Guests] = []
        thread = threading.Thread(
            target=self._ask_once,
            args=(answers,),
            name='ext-resources-guests',
            daemon=True,
        )
        try:
            thread.start()
        # The process may start no further thread for a moment.
        except RuntimeError as err:
            self._note(plugins.describe(err))
            return None
        thread.join(self._patience)
        if thread.is_alive():
            self._asking = thread
            self._note(f'no answer within {self._patience:g} s')
        return answers[0] if answers else None

    def _ask_once(self, answers: list[Guests]) -> None:
        try:
            answers.append(self._ask())
        # Of the hypervisor, which may be away for a while.
        except Exception as err:
            self._note(plugins.describe(err))
        else:
            self._note('')

    def _note(self, failure: str) -> None:
        if self._logged.note(failure):
            LOG.warning(
                'Host %(host)s: the hypervisor does not report which guests '
                'run. Until the hypervisor does, guests are found only by '
                '"-uuid" in the command lines of processes. If no process is '
                'found, the server is not started; if the server runs '
                'already, its threads stay in their groups: %(err)s',
                {'host': self._host, 'err': failure},
            )
