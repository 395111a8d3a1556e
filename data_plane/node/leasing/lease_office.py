"""The controller's side of leases: the books of its term of office, and the stream on which brokers ask."""

from collections.abc import Callable

from data_plane.leases.coordinator import LeaseCoordinator
from data_plane.leases.terms import LimitKey, Request, Terms
from data_plane.node.leasing.messages import LEASE_REQUESTS
from data_plane.node.leasing.pacing import Pacing
from data_plane.node.membership.controller_books import ControllerBooks
from data_plane.node.membership.controller_questions import answer_questions
from data_plane.node.membership.metadata_view import MetadataView
from data_plane.node.ports import Caller, Clock, Connection


class LeaseOffice:
    """Grants parts of limits from the controller's books."""

    def __init__(
        self,
        view: MetadataView,
        clock: Clock,
        terms: Terms,
        pacing: Pacing,
        *,
        seated: Callable[[], bool],
        confident: Callable[[], bool],
    ) -> None:
        self._clock = clock
        self._terms = terms
        self._pacing = pacing
        self._books = ControllerBooks(view, seated=seated, confident=confident, begin=self._begin)

    @property
    def limits_leased(self) -> int:
        """Limits of which some broker holds or wants something; 0 on a broker that is not the controller."""
        books = self._books.kept
        return 0 if books is None else books.limits_leased

    async def asked(self, request: Request) -> dict[LimitKey, int] | None:
        """The amounts granted; None: this broker grants nothing now."""
        books = self._books.open()
        if books is None:
            return None
        return books.asked(request, self._books.registered(), self._clock.monotonic_ms())

    async def serve(self, caller: Caller, connection: Connection) -> None:
        """One broker's stream, as `answer_questions`."""
        await answer_questions(LEASE_REQUESTS, self.asked, caller, connection)

    def _begin(self, epoch: int) -> LeaseCoordinator:
        return LeaseCoordinator(
            self._terms,
            epoch,
            self._clock.monotonic_ms(),
            limit=self._pacing.limit,
            safe_share=self._pacing.safe_share,
        )
