"""Where a consumer that names its zone reads: which replica is nearest, and a word when no broker is there."""

import logging

from penstock.client.cluster_view import ClusterView, PartitionView
from penstock.client.telling import warn

_log = logging.getLogger("penstock")


class NearestReplica:
    """`zone` is the name of a host or a zone; empty = leaders are read."""

    __slots__ = ("_warned", "_zone")

    def __init__(self, zone: str) -> None:
        self._zone = zone
        self._warned = False

    def of(self, view: ClusterView, number: int, partition: PartitionView) -> int:
        """The broker to read partition `number` from. Logs once if no broker is in that zone or on that host."""
        if self._zone and not self._warned and view.domains:
            self._warned = True
            if not any(self._zone in domains for domains in view.domains.values()):
                warn(
                    _log,
                    "penstock: no broker is in a zone or on a host named %r; consumers read from leaders",
                    self._zone,
                )
        return view.nearest(number, partition, self._zone)
