"""Declared losses as the metadata store holds them: what began each log generation of a partition but the first."""

import json
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Self

from data_plane.metadata.json_record import JsonRecord
from penstock.contract.ids import BrokerId


class LossKind(StrEnum):
    """How a loss came to be declared. Stored by value."""

    LONGEST = "longest log of the last known replicas"
    """By the controller, once all of them were back (RL47): possibly nothing was lost."""
    FORCED = "forced election"
    """By an operator who named the replica (RL48)."""
    REPAIR = "repair of the only copy"
    """By an operator: what its damage holds is given up (RL122)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LossRecord(JsonRecord):
    """A declared loss: what began a log generation of one partition. Written once, with the record that it explains."""

    tenant: str
    topic: str
    """Name when it was declared."""
    kind: LossKind
    log_generation: int
    """That begins with it."""
    leader: BrokerId
    """Whose log goes on."""
    leader_epoch: int
    offset: int
    """Where the new generation begins: what the old one held from here on is lost."""
    known_end_offset: int
    """The furthest end that any broker reported. Equal to `offset`: no known record was lost."""
    last_known: tuple[BrokerId, ...]
    """Those that may have held what was acknowledged last."""
    ends: tuple[tuple[BrokerId, int, int], ...]
    """Who was asked: (broker, epoch of its last batch, log end offset)."""
    asked_by: str
    """The operator who demanded it; empty for the controller."""
    declared_ms: int
    """Wall clock of who declared it, ms UTC, for people."""

    @classmethod
    def decode(cls, value: bytes) -> Self:
        values: dict[str, Any] = json.loads(value)
        values["kind"] = LossKind(values["kind"])
        values["last_known"] = tuple(values["last_known"])
        values["ends"] = tuple((broker, epoch, end) for broker, epoch, end in values["ends"])
        return cls(**values)
