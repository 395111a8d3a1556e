"""The controller's side of leases: the books of its term of office, and the stream on which brokers ask."""

from collections.abc import Callable

from data_plane.leases.coordinator import LeaseCoordinator
from data_plane.leases.terms import LimitKey, Request, Terms
from data_plane.node.leasing.messages import answer_frame, read_request
from data_plane.node.leasing.pacing import Pacing
from data_plane.node.membership.metadata_view import MetadataView
from data_plane.node.ports import Caller, Clock, Connection, require_broker


class LeaseOffice:
    """Grants only while this broker holds the seat and its session was confirmed just now."""

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
        self._view = view
        self._clock = clock
        self._terms = terms
        self._pacing = pacing
        self._seated = seated
        self._confident = confident
        self._books: LeaseCoordinator | None = None

    @property
    def limits_leased(self) -> int:
        """Limits of which some broker holds or wants something; 0 on a broker that is not the controller."""
        return 0 if self._books is None or not self._seated() else self._books.limits_leased

    def asked(self, request: Request) -> dict[LimitKey, int] | None:
        """The amounts granted; None: this broker grants nothing now."""
        image, now_ms = self._view.image, self._clock.monotonic_ms()
        if not self._seated():
            self._books = None
            return None
        if not self._confident():
            return None
        if self._books is None or self._books.epoch != image.controller_epoch:
            self._books = LeaseCoordinator(
                self._terms,
                image.controller_epoch,
                now_ms,
                limit=self._pacing.limit,
                safe_share=self._pacing.safe_share,
            )
        registered = {broker: image.epoch_of(broker) for broker in image.brokers if image.epoch_of(broker)}
        return self._books.asked(request, registered, now_ms)

    async def serve(self, caller: Caller, connection: Connection) -> None:
        """One broker's stream. Ends with `ConnectionLost`, or `FrameError`."""
        while True:
            request = read_request(await connection.receive())
            require_broker(caller, request.holder)
            await connection.send(answer_frame(request, self.asked(request)))
