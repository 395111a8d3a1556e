"""Which history a metadata store holds, and whether a broker that has seen it before may act on it (RL55).

A store's history is a line of revisions with an id. A copy made by export and import is a new line, which remembers the
lines that it follows and the revision up to which it holds each of them. An operator's word makes a new line that
follows whatever any broker has seen.

    trusted --the store is behind what was seen, or on another line--> refused --an operator confirms--> trusted
"""

import hashlib
import json
from dataclasses import asdict, dataclass, replace
from typing import Any, Self

from data_plane.metadata.port import WatchBatch

LINEAGE_KEY = "/lineage"


@dataclass(frozen=True, slots=True, kw_only=True)
class LineageRecord:
    """The line that a store is on. A store that has none is on the line without a name."""

    lineage_id: str = ""
    follows: tuple[tuple[str, int], ...] = ()
    """(line, revision): what was done on that line up to there is in this store."""
    confirmed: bool = False
    """An operator said that brokers must act on it, whatever they have seen of other lines."""
    said: str = ""
    """Who confirmed, and why."""

    def encode(self) -> bytes:
        return json.dumps(asdict(self), separators=(",", ":"), sort_keys=True).encode()

    @classmethod
    def decode(cls, value: bytes) -> Self:
        values: dict[str, Any] = json.loads(value)
        values["follows"] = tuple((line, revision) for line, revision in values["follows"])
        return cls(**values)

    def copied(self, lineage_id: str, revision: int) -> Self:
        """The line of a copy made at `revision` of this one."""
        return replace(
            self, lineage_id=lineage_id, follows=(*self.follows, (self.lineage_id, revision)), said=""
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Witness:
    """What a broker remembers of the store, in its own log directory."""

    lineage_id: str = ""
    revision: int = 0
    """The greatest that it has seen."""
    registered: int = 0
    """The revision of its last registration: the store must remember it."""
    told: int = 0
    """The last revision whose events it received, 0 = none."""
    told_digest: str = ""
    """Of these events: a store that went back has others there, even if it has come as far again."""

    def encode(self) -> bytes:
        return json.dumps(asdict(self), separators=(",", ":"), sort_keys=True).encode()

    @classmethod
    def decode(cls, value: bytes) -> Self:
        return cls(**json.loads(value))


def digest_of(batch: WatchBatch) -> str:
    """The same for the same keys with the same values, in any order of the events."""
    digest = hashlib.sha256()
    for event in sorted(batch.events, key=lambda event: event.key):
        value = b"-" if event.value is None else b"+" + event.value
        for part in (event.key.encode(), value):
            digest.update(len(part).to_bytes(8, "big") + part)
    return digest.hexdigest()


def rewritten(witness: Witness, first: WatchBatch | None) -> str:
    """Why a store with these first events from `witness.told` on may not be acted on; empty when it may."""
    if first is not None and first.revision == witness.told and digest_of(first) == witness.told_digest:
        return ""
    return f"its revision {witness.told} is not the one that this broker has seen"


def refusal(witness: Witness, lineage: LineageRecord, *, revision: int, registration_known: int) -> str:
    """Why a store may not be acted on; empty when it may.

    `revision` is the store's newest, `registration_known` that of the broker's own record in it (0 = none, as of
    a broker that was taken out of the cluster). The record is written with every registration, so that an older one
    gives a store away which others have meanwhile written to.
    """
    if witness.revision == 0:
        return ""
    if lineage.lineage_id != witness.lineage_id:
        if lineage.confirmed:
            return ""
        known = dict(lineage.follows).get(witness.lineage_id)
        if known is None:
            return "it holds another history than the one that this broker has acted on"
        if known < witness.revision:
            return f"it was copied at revision {known}, and this broker has seen revision {witness.revision}"
        return ""
    if revision < witness.revision:
        return f"it is at revision {revision}, and this broker has seen revision {witness.revision}"
    if 0 < registration_known < witness.registered:
        return f"it does not know this broker's registration at revision {witness.registered}"
    return ""
