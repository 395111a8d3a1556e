"""The deliverer of each kind of object. Apps register theirs when Django is ready."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from penstock.contract.errors import PenstockError
from penstock.contract.invariant import invariant


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivered:
    """The brokers have this generation (never lower than the one asked for), since this metadata revision."""

    generation: int
    revision: int = 0


class Deliverer(Protocol):
    """Tells the brokers of one kind of object."""

    def deliver(self, object_id: str, generation: int) -> Delivered:
        """Tell the brokers the newest desired state of the object. No transaction is open.

        Raises `PenstockError` when they refuse or cannot be reached; it is asked again later. Repeating it must
        be harmless: its process may die at any point.
        """
        ...

    def delivered(self, object_id: str, done: Delivered) -> None:
        """Note it on the object, in the transaction that records the outcome of the outbox row."""
        ...

    def failed(self, object_id: str, reason: str, message: str) -> None:
        """Note it on the object as a condition, in the transaction that records the outcome of the outbox row."""
        ...


class BatchDeliverer(Deliverer, Protocol):
    """Tells the brokers of many objects of one kind together."""

    def deliver_all(self, object_ids: Sequence[str]) -> Mapping[str, Delivered | PenstockError]:
        """What became of each; those for which the time did not last are left out, but never all of them. As
        `deliver`: no transaction is open, and repeating it must be harmless.

        Raises `PenstockError` when the brokers cannot be reached; each object may have got there or not.
        """
        ...

    def all_delivered(self, done: Mapping[str, Delivered]) -> None:
        """As `delivered`, for each of them."""
        ...


_deliverers: dict[str, Deliverer] = {}
_batch_deliverers: dict[str, BatchDeliverer] = {}


def register(kind: str, deliverer: Deliverer) -> None:
    """`deliverer` serves objects of `kind` from now on."""
    _deliverers[kind] = deliverer


def deliverer(kind: str) -> Deliverer:
    """The deliverer of `kind`, which must be registered."""
    invariant(kind in _deliverers, f"objects of kind {kind} have a deliverer")
    return _deliverers[kind]


def register_batch(kind: str, deliverer: BatchDeliverer) -> None:
    """`deliverer` serves objects of `kind` from now on, also many together."""
    register(kind, deliverer)
    _batch_deliverers[kind] = deliverer


def batch_deliverer(kind: str) -> BatchDeliverer:
    """The deliverer of `kind`, which must take many together."""
    invariant(kind in _batch_deliverers, f"objects of kind {kind} can be delivered together")
    return _batch_deliverers[kind]


def is_batch(kind: str) -> bool:
    """Whether objects of `kind` may be delivered together."""
    return kind in _batch_deliverers
