# SPDX-License-Identifier: Apache-2.0

"""What is held in placement for slots, as far as this manager knows."""

from collections.abc import Mapping, Set
import itertools

from nova_ext_resources.objects import host_view
from nova_ext_resources.reservation.manager import cloud_services


class Holds:
    """Takes and releases holds, and remembers which there are.

    Another manager may have changed them since.
    """

    def __init__(self, cloud: cloud_services.Cloud) -> None:
        self._cloud = cloud
        #: In the order in which placement was asked about them.
        self._known: dict[str, Mapping[host_view.Place, int]] = {}
        #: Those that it is asked about again.
        self._doubted: set[str] = set()

    @property
    def known(self) -> Set[str]:
        """The consumers that hold something."""
        return self._known.keys()

    def has(
        self, consumer: str, places: Mapping[host_view.Place, int]
    ) -> bool:
        """Return whether a consumer holds just that, without a doubt."""
        is_doubted = consumer in self._doubted
        return not is_doubted and self._known.get(consumer) == places

    def take(
        self,
        consumer: str,
        project: str,
        places: Mapping[host_view.Place, int],
    ) -> None:
        """Have a consumer hold places; as of :meth:`~.Cloud.take_hold`."""
        self._forget(consumer)
        self._cloud.take_hold(consumer, project, places)
        self._known[consumer] = places

    def release(self, consumer: str) -> None:
        """Have a consumer hold nothing."""
        self._cloud.release_hold(consumer)
        self._forget(consumer)

    def doubt(self, number: int) -> None:
        """Doubt those that placement was asked about the longest ago."""
        self._doubted.update(itertools.islice(self._known, number))

    def forget(self) -> None:
        """Know nothing, so that placement is asked about each of them."""
        self._known, self._doubted = {}, set()

    def _forget(self, consumer: str) -> None:
        self._known.pop(consumer, None)
        self._doubted.discard(consumer)
