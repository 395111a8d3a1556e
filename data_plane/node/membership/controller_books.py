"""Books that a broker keeps while it is the controller: begun in its term of office, dropped with its seat."""

from collections.abc import Callable
from typing import Generic, TypeVar

from data_plane.node.membership.metadata_view import MetadataView
from penstock.contract.ids import BrokerId

Books = TypeVar("Books")


class ControllerBooks(Generic[Books]):
    """Books of one kind. Answers are made of them only while this broker holds the seat and its session was confirmed
    just now: another broker may have the seat otherwise.
    """

    def __init__(
        self,
        view: MetadataView,
        *,
        seated: Callable[[], bool],
        confident: Callable[[], bool],
        begin: Callable[[int], Books],
    ) -> None:
        """`begin` makes the books of a term, which the controller's epoch names."""
        self._view = view
        self._seated = seated
        self._confident = confident
        self._begin = begin
        self._books: Books | None = None
        self.epoch = 0
        """The controller's epoch in the term of the books that were begun last."""

    @property
    def kept(self) -> Books | None:
        """The books of this term. None: this broker is not the controller, or was asked nothing yet."""
        if not self._seated() or self.epoch != self._view.image.controller_epoch:
            return None
        return self._books

    @property
    def confirmed(self) -> Books | None:
        """`kept`, and None too while this broker may not be the controller any more."""
        return self.kept if self._confident() else None

    def open(self) -> Books | None:
        """The books to answer from, begun if this term has none. None: this broker answers nothing now."""
        if not self._seated():
            self.drop()
            return None
        if not self._confident():
            return None
        epoch = self._view.image.controller_epoch
        if self._books is None or self.epoch != epoch:
            self._books = self._begin(epoch)
            self.epoch = epoch
        return self._books

    def drop(self) -> None:
        """Begin others at the next question."""
        self._books = None

    def registered(self) -> dict[BrokerId, int]:
        """The epoch of each registered broker."""
        image = self._view.image
        return {broker: image.epoch_of(broker) for broker in image.brokers if image.epoch_of(broker)}
