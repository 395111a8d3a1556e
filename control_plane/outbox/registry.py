"""The deliverer of each kind of object. Apps register theirs when Django is ready."""

from dataclasses import dataclass
from typing import Protocol

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


_deliverers: dict[str, Deliverer] = {}


def register(kind: str, deliverer: Deliverer) -> None:
    """`deliverer` serves objects of `kind` from now on."""
    _deliverers[kind] = deliverer


def deliverer(kind: str) -> Deliverer:
    """The deliverer of `kind`, which must be registered."""
    invariant(kind in _deliverers, f"objects of kind {kind} have a deliverer")
    return _deliverers[kind]
