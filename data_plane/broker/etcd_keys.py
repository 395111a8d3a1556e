"""How the metadata of one cell lies in etcd: keys below the cell's prefix, revisions counted from its origin.

    /penstock/<cell>/origin          {"base": revision, "id": random}: written once, when the cell is made
    /penstock/<cell>/keys<key>       the keys of `data_plane/metadata/model.py`, as /penstock/a/keys/live/000001

Several cells may share an etcd. A cell's revision is etcd's, counted from the one that wrote the origin, plus its base:
0 for a cell that begins empty, and for one that was imported the revision at which the other store was exported,
so that revisions (and the epochs made of them) go on rising over the move.
"""

import json
from dataclasses import dataclass
from typing import Self

from data_plane.etcd import kv_pb2 as kv

ROOT = "/penstock"


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where a cell's revisions begin."""

    made_at: int
    """etcd's revision of the origin key."""
    base: int
    origin_id: str
    """Random: two cells that were made at the same revision of two etcds are told apart."""

    def to_cell(self, revision: int) -> int:
        """The cell's revision for one of etcd's; those before the origin are its base."""
        return max(revision - self.made_at, 0) + self.base

    def to_etcd(self, revision: int) -> int:
        """etcd's revision for one of the cell's (0 = absent stays 0)."""
        return revision - self.base + self.made_at

    def mod_revision(self, revision: int) -> int:
        """What a key's mod_revision must be in etcd; -1, which no key has, for one that the cell never gave."""
        if revision == 0:
            return 0
        return self.to_etcd(revision) if revision > self.base else -1

    @staticmethod
    def encode(base: int, origin_id: str) -> bytes:
        return json.dumps({"base": base, "id": origin_id}).encode()

    @classmethod
    def decode(cls, item: kv.KeyValue) -> Self:
        values = json.loads(item.value)
        return cls(made_at=item.mod_revision, base=values["base"], origin_id=values["id"])


@dataclass(frozen=True, slots=True)
class CellKeys:
    """Names of one cell's keys."""

    cell: str

    @property
    def origin(self) -> bytes:
        return f"{ROOT}/{self.cell}/origin".encode()

    @property
    def prefix(self) -> bytes:
        return f"{ROOT}/{self.cell}/keys".encode()

    def to_etcd(self, key: str) -> bytes:
        return self.prefix + key.encode()

    def to_cell(self, key: bytes) -> str:
        return key[len(self.prefix) :].decode()
