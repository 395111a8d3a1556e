"""What the metadata store holds of the cluster and its brokers, with the keys; `model.py` lists all keys."""

import json
from dataclasses import asdict, dataclass
from typing import Self

from data_plane.metadata.json_record import JsonRecord
from penstock.contract.ids import BrokerId

CLUSTER_KEY = "/cluster"
CONTROLLER_KEY = "/controller"
_NEEDS = " (needs Penstock "


def live_key(broker: int) -> str:
    return f"/live/{broker:06d}"


def broker_key(broker: int) -> str:
    return f"/brokers/{broker:06d}"


def cordon_key(broker: int) -> str:
    return f"/cordons/{broker:06d}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterRecord:
    """Which cluster this is.

    Brokers of Penstock 0.1 know of no feature levels, but do not start where the cluster's id is not theirs. Above
    level 1 the stored id therefore has a remark behind it, which they show; later versions take it off.
    """

    cluster_id: str
    needs: str = ""
    """The release that a broker has to be of at least; empty at level 1."""

    def encode(self) -> bytes:
        remark = f"{_NEEDS}{self.needs} or later)" if self.needs else ""
        return json.dumps({"cluster_id": self.cluster_id + remark}, separators=(",", ":")).encode()

    @classmethod
    def decode(cls, value: bytes) -> Self:
        stored: str = json.loads(value)["cluster_id"]
        cluster_id, found, remark = stored.rpartition(_NEEDS)
        if not found:
            return cls(cluster_id=stored)
        return cls(cluster_id=cluster_id, needs=remark.removesuffix(" or later)"))


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveRecord(JsonRecord):
    """A registration (RL2). Registering again with the same incarnation is a retry, not a new one."""

    incarnation: str
    directory_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRecord(JsonRecord):
    """What is known of a broker whether or not it lives."""

    broker_id: BrokerId
    directory_id: str
    """Random id of its log directory: an emptied disk is another directory (RL54)."""
    client_address: str
    internal_address: str
    zone: str
    draining: bool = False
    """Shutting down (RL50): not joinable, not electable."""
    peer_address: str = ""
    """Where other brokers reach it; empty when a version wrote this that had no such listener."""
    host: str = ""
    """Name of its machine; empty = it is alone on one."""

    def encode(self) -> bytes:
        """Without a host that is not named: versions before it was known can read that."""
        values = asdict(self)
        if not self.host:
            del values["host"]
        return json.dumps(values, separators=(",", ":"), sort_keys=True).encode()


@dataclass(frozen=True, slots=True, kw_only=True)
class CordonRecord(JsonRecord):
    """An operator takes a broker out of use: it keeps only what no other broker can take, and gets nothing new."""

    broker_id: BrokerId
    cordoned: bool
    generation: int = 0
    """Version of the desired state that this reflects (0 = never received one); a lower one is ignored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerRecord(JsonRecord):
    broker_id: BrokerId
    incarnation: str
