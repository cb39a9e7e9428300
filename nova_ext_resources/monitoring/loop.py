# SPDX-License-Identifier: Apache-2.0

"""The thread that monitors, and keeps the latest sweep."""

from collections.abc import Callable
import time

from oslo_log import log as logging

from nova_ext_resources import log_on_change
from nova_ext_resources.monitoring import sample
from nova_ext_resources import plugins
from nova_ext_resources import worker

LOG = logging.getLogger(__name__)


class SweepLoop(worker.Worker):
    """Sweeps again and again until stopped, whatever fails.

    Monitoring groups stay: a service that starts again soon uses them.

    :param sweep: see :meth:`.sweep.Sweeper.sweep`
    :ivar interval: seconds from the start of a sweep to that of the next
    :param host: name of this host, for the log
    :param on_sweep: called in the thread with each sweep
    :ivar latest: the sweep that ended last; None before the first
    """

    THREAD = 'ext-resources-monitoring'

    def __init__(
        self,
        sweep: Callable[[], sample.Sweep],
        *,
        interval: float,
        host: str,
        on_sweep: Callable[[sample.Sweep], None] = lambda _sweep: None,
    ) -> None:
        super().__init__()
        self._sweep = sweep
        self.interval = interval
        self._host = host
        self._on_sweep = on_sweep
        self.latest: sample.Sweep | None = None
        self._logged = log_on_change.LogOnChange()

    def run_once(self) -> None:
        """Sweep, and pass the result on; raises nothing."""
        swept = self._sweep_safely()
        self.latest = swept
        self._log(swept)
        try:
            self._on_sweep(swept)
        except Exception:
            LOG.exception(
                'Host %(host)s: measurements could not be passed on. Please '
                'report this bug',
                {'host': self._host},
            )

    def _sweep_safely(self) -> sample.Sweep:
        started_at = time.monotonic()
        try:
            return self._sweep()
        except Exception as err:
            # A bug, or an error of a privileged helper: the thread goes on,
            # and the sweep reports that nothing new was measured.
            LOG.debug(
                'Host %(host)s: a sweep failed',
                {'host': self._host},
                exc_info=True,
            )
            now = time.monotonic()
            return sample.Sweep(
                finished_at=now,
                duration=now - started_at,
                problem='a sweep over the servers of this host failed: '
                f'{plugins.describe(err)}',
            )

    def do_round(self) -> float:
        started_at = time.monotonic()
        self.run_once()
        spent = time.monotonic() - started_at
        # Pause however long the sweep took: servers need the CPU.
        return max(self.interval - spent, self.interval / 10)

    def _log(self, swept: sample.Sweep) -> None:
        """Log what is wrong once, and not with every sweep."""
        if not swept.problem and self._logged.clear('sweep'):
            LOG.info(
                'Host %(host)s: monitoring works again', {'host': self._host}
            )
        if self._logged.note(swept.problem, 'sweep'):
            LOG.warning(
                'Host %(host)s: not everything is monitored: %(problem)s',
                {'host': self._host, 'problem': swept.problem},
            )
        if self._logged.note(frozenset(swept.problems), 'servers'):
            uuid, problem = min(swept.problems.items())
            LOG.warning(
                'Host %(host)s: %(number)d servers are not monitored, or only '
                'in part, such as %(uuid)s: %(problem)s',
                {
                    'host': self._host,
                    'number': len(swept.problems),
                    'uuid': uuid,
                    'problem': problem,
                },
            )
