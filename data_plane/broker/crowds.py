"""What a broker says of connections that are too many: its readiness, its conditions and its metrics."""

from collections.abc import Iterator

from prometheus_client.core import GaugeMetricFamily, Metric

from daemon.hang_ups import HangUps, hang_up_metric
from data_plane.broker.strangers import Strangers

STRANGERS = "penstock_connections_of_strangers"
STRANGERS_SAID = "Connections from which no call was admitted yet, by listener."


class Crowds:
    """The listeners of one broker."""

    def __init__(self) -> None:
        self.peer = HangUps("peer")
        self.http = HangUps("http")
        self.strangers: dict[int, Strangers] = {}
        """Of the gRPC listeners, by port."""
        self.others: list[HangUps] = []
        """Of what else listens."""

    def full(self) -> str:
        """Says which listener refuses newcomers; empty when none does."""
        return "; ".join(full for strangers in self.strangers.values() if (full := strangers.full))

    def warnings(self) -> dict[str, str]:
        """Says of each listener that it hung up on connections for want of places. The HTTP listener says it itself."""
        return {
            f"{hang_ups.listener}_connections": crowded
            for hang_ups in self._all()
            if hang_ups is not self.http and (crowded := hang_ups.crowded())
        }

    def metrics(self) -> Iterator[Metric]:
        """Strangers and hang-ups, by listener."""
        yield hang_up_metric(self._all())
        level = GaugeMetricFamily(STRANGERS, STRANGERS_SAID, labels=("listener",))
        for strangers in self.strangers.values():
            level.add_metric((strangers.hang_ups.listener,), strangers.count)
        yield level

    def _all(self) -> Iterator[HangUps]:
        yield from (self.peer, self.http, *self.others)
        for strangers in self.strangers.values():
            yield strangers.hang_ups
