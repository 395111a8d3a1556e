"""The MetaStore port: a linearizable store of keys with compare-and-set, sessions and ordered watches.

Authority is fenced by revisions: each write compares the `mod_revision` of the key that gives the
authority. An absent key has `mod_revision` 0, so a lost session fails every compare. No decision rests on a
clock (RL8).
"""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Protocol


class StoreUnavailable(Exception):
    """The store could not be asked; nothing was applied."""


class OutcomeUnknown(Exception):
    """A transaction was sent and its answer lost: applied or not. Read again before deciding."""


class Compacted(Exception):
    """The events asked for are gone: drop the state, list again, watch from there."""


class StoreWentBack(Exception):
    """The store is not the one that this process knew, or an older state of it: nothing it says may be acted on
    (RL55)."""


class SessionLost(Exception):
    """The session has expired or was revoked; its keys are gone."""


CHANGES_PER_TXN_MAX = 120
"""Of one transaction, and as many compares: etcd takes 128 of each unless it is configured otherwise."""


@dataclass(frozen=True, slots=True)
class Compare:
    """True when the key's mod_revision equals `mod_revision` (0 = the key does not exist)."""

    key: str
    mod_revision: int


@dataclass(frozen=True, slots=True)
class Put:
    key: str
    value: bytes
    session_id: int = 0
    """Not 0: the key is deleted when that session ends. Fails with `SessionLost` if it has ended."""


@dataclass(frozen=True, slots=True)
class Delete:
    key: str


Change = Put | Delete


@dataclass(frozen=True, slots=True)
class KeyValue:
    key: str
    value: bytes
    mod_revision: int
    session_id: int = 0


@dataclass(frozen=True, slots=True)
class TxnResult:
    """`revision` is the store's after the transaction; one that changed keys gave them all that revision."""

    succeeded: bool
    revision: int


@dataclass(frozen=True, slots=True)
class RangeResult:
    revision: int
    items: tuple[KeyValue, ...]
    """Sorted by key."""


@dataclass(frozen=True, slots=True)
class Event:
    """A key now has this value, or (None) is gone."""

    key: str
    value: bytes | None
    mod_revision: int


@dataclass(frozen=True, slots=True)
class WatchBatch:
    """All events of one revision under the prefix, to be applied together."""

    revision: int
    events: tuple[Event, ...]


class Session(Protocol):
    """Keys put with its id live as long as it does."""

    @property
    def session_id(self) -> int: ...

    async def keep_alive(self) -> None:
        """Extend by the time to live. Raises `SessionLost`, `StoreUnavailable`."""

    async def end(self) -> None:
        """End now; its keys are deleted in one revision."""


class MetaStore(Protocol):
    """Every call may raise `StoreUnavailable` or `StoreWentBack`; `txn` may raise `OutcomeUnknown`."""

    async def txn(self, compares: Sequence[Compare], changes: Sequence[Change]) -> TxnResult:
        """Apply all changes in one revision if all compares hold, else nothing.

        A key stands in at most one change; at most CHANGES_PER_TXN_MAX compares and as many changes.
        """

    async def range(self, prefix: str) -> RangeResult:
        """All keys that begin with `prefix`, linearizable."""

    def watch(self, prefix: str, after_revision: int) -> AsyncIterator[WatchBatch]:
        """Every later revision that touched the prefix, in order, without gaps.

        Raises `Compacted`, `StoreUnavailable`, `StoreWentBack`.
        """

    async def session(self, ttl_ms: int) -> Session: ...

    async def close(self) -> None: ...
