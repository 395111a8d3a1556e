"""The controller's side of storage limits: the books of its term of office, and the stream on which leaders report."""

from collections.abc import Callable, Container, Iterator

from data_plane.node.membership.metadata_view import MetadataView
from data_plane.node.ports import Caller, Clock, Connection, require_broker
from data_plane.node.storage_limits.messages import answer_frame, read_report
from data_plane.storage_limits.books import StorageBooks
from data_plane.storage_limits.reports import Full, NearLimit, Report
from penstock.contract.ids import TenantId, TopicId, TopicPartition


class StorageOffice:
    """Answers only while this broker holds the seat and its session was confirmed just now."""

    def __init__(
        self,
        view: MetadataView,
        clock: Clock,
        *,
        learn_ms: float,
        seated: Callable[[], bool],
        confident: Callable[[], bool],
    ) -> None:
        self._view = view
        self._clock = clock
        self._learn_ms = learn_ms
        self._seated = seated
        self._confident = confident
        self._books: StorageBooks | None = None

    @property
    def near(self) -> int:
        """Tenants that use most of their limit, or all of it; 0 on a broker that is not the controller."""
        return 0 if self._books is None or not self._seated() else self._books.near

    @property
    def full(self) -> int:
        """Tenants that may produce no more; 0 on a broker that is not the controller."""
        return 0 if self._books is None or not self._seated() else len(self._books.full)

    @property
    def named(self) -> NearLimit | None:
        """Who is near its limit; None on a broker that is not the controller, or may not be it any more."""
        if self._books is None or not self._seated() or not self._confident():
            return None
        return self._books.named

    def asked(self, report: Report) -> list[Full] | None:
        """Who is full; None: this broker keeps no books for the sender now."""
        image, now_ms = self._view.image, self._clock.monotonic_ms()
        if not self._seated():
            self._books = None
            return None
        if not self._confident():
            return None
        books = self._books
        if books is None or books.epoch != image.controller_epoch:
            books = self._books = StorageBooks(
                image.controller_epoch,
                now_ms,
                learn_ms=self._learn_ms,
                limit=self._limit,
                tenant_of=self._tenant_of,
                counted=self._counted,
            )
        registered = {broker: image.epoch_of(broker) for broker in image.brokers if image.epoch_of(broker)}
        return books.full if books.reported(report, registered, image.topics, now_ms) else None

    async def serve(self, caller: Caller, connection: Connection) -> None:
        """One broker's stream. Ends with `ConnectionLost`, or `FrameError`."""
        while True:
            report, sequence = read_report(await connection.receive())
            require_broker(caller, report.broker)
            await connection.send(answer_frame(sequence, self.asked(report)))

    def _limit(self, tenant: TenantId) -> int:
        return self._view.image.quotas_of(tenant).storage_bytes_max

    def _tenant_of(self, topic_id: TopicId) -> TenantId | None:
        topic = self._view.image.topics.get(topic_id)
        return None if topic is None else topic.tenant

    def _counted(self, tenants: Container[TenantId]) -> Iterator[TopicPartition]:
        for topic in self._view.image.topics.values():
            if topic.tenant in tenants and topic.metered:
                for partition in range(topic.partitions):
                    yield TopicPartition(topic.topic_id, partition)
