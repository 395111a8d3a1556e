"""The controller's side of storage limits: the books of its term of office, and the stream on which leaders report."""

from collections.abc import Callable, Container, Iterator

from data_plane.node.membership.controller_books import ControllerBooks
from data_plane.node.membership.controller_questions import answer_questions
from data_plane.node.membership.metadata_view import MetadataView
from data_plane.node.ports import Caller, Clock, Connection
from data_plane.node.storage_limits.messages import STORAGE_REPORTS
from data_plane.storage_limits.books import StorageBooks
from data_plane.storage_limits.reports import Full, NearLimit, Report
from penstock.contract.ids import TenantId, TopicId, TopicPartition


class StorageOffice:
    """Says from the controller's books which tenants are full."""

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
        self._books = ControllerBooks(view, seated=seated, confident=confident, begin=self._begin)

    @property
    def near(self) -> int:
        """Tenants that use most of their limit, or all of it; 0 on a broker that is not the controller."""
        books = self._books.kept
        return 0 if books is None else books.near

    @property
    def full(self) -> int:
        """Tenants that may produce no more; 0 on a broker that is not the controller."""
        books = self._books.kept
        return 0 if books is None else len(books.full)

    @property
    def named(self) -> NearLimit | None:
        """Who is near its limit; None on a broker that is not the controller, or may not be it any more."""
        books = self._books.confirmed
        return None if books is None else books.named

    async def asked(self, report: Report) -> list[Full] | None:
        """Who is full; None: this broker keeps no books for the sender now."""
        books = self._books.open()
        if books is None:
            return None
        topics, now_ms = self._view.image.topics, self._clock.monotonic_ms()
        return books.full if books.reported(report, self._books.registered(), topics, now_ms) else None

    async def serve(self, caller: Caller, connection: Connection) -> None:
        """One broker's stream, as `answer_questions`."""
        await answer_questions(STORAGE_REPORTS, self.asked, caller, connection)

    def _begin(self, epoch: int) -> StorageBooks:
        return StorageBooks(
            epoch,
            self._clock.monotonic_ms(),
            learn_ms=self._learn_ms,
            limit=self._limit,
            tenant_of=self._tenant_of,
            counted=self._counted,
        )

    def _limit(self, tenant: TenantId) -> int:
        return self._view.image.quotas_of(tenant).storage_allowed

    def _tenant_of(self, topic_id: TopicId) -> TenantId | None:
        topic = self._view.image.topics.get(topic_id)
        return None if topic is None else topic.tenant

    def _counted(self, tenants: Container[TenantId]) -> Iterator[TopicPartition]:
        for topic in self._view.image.topics.values():
            if topic.tenant in tenants and topic.metered:
                for partition in range(topic.partitions):
                    yield TopicPartition(topic.topic_id, partition)
