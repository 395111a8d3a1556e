"""How the metadata of one namespace lies in etcd: keys below the namespace's prefix, revisions counted from its origin.

    /penstock/<namespace>/origin          {"base": revision, "id": random}: written once, when the namespace is made
    /penstock/<namespace>/keys<key>       the keys of `data_plane/metadata/model.py`, as /penstock/a/keys/live/000001

Several namespaces may share an etcd. A namespace's revision is etcd's, counted from the one that wrote the origin, plus
its base. The base is 0 for a namespace that begins empty. For an imported one it is the revision of the export, so that
revisions (and the epochs made of them) go on rising over the move.
"""

import json
from dataclasses import dataclass
from typing import Self

from data_plane.etcd import kv_pb2 as kv

ROOT = "/penstock"


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where a namespace's revisions begin."""

    made_at: int
    """etcd's revision of the origin key."""
    base: int
    origin_id: str
    """Random: it distinguishes two namespaces that were made at the same revision of two etcds."""

    def to_namespace(self, revision: int) -> int:
        """The namespace's revision for one of etcd's; those before the origin are its base."""
        return max(revision - self.made_at, 0) + self.base

    def to_etcd(self, revision: int) -> int:
        """etcd's revision for one of the namespace's (0 = absent stays 0)."""
        return revision - self.base + self.made_at

    def mod_revision(self, revision: int) -> int:
        """What a key's mod_revision must be in etcd; -1, which no key has, for one that the namespace never gave."""
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
class NamespaceKeys:
    """Names of one namespace's keys."""

    namespace: str

    @property
    def origin(self) -> bytes:
        return f"{ROOT}/{self.namespace}/origin".encode()

    @property
    def prefix(self) -> bytes:
        return f"{ROOT}/{self.namespace}/keys".encode()

    def to_etcd(self, key: str) -> bytes:
        return self.prefix + key.encode()

    def to_namespace(self, key: bytes) -> str:
        return key[len(self.prefix) :].decode()
