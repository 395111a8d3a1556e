"""What the metadata store holds: one frozen value a key, its JSON form and its key.

    /cluster                         ClusterRecord
    /live/<broker>                   LiveRecord, bound to the broker's session; its mod_revision is the
                                     broker epoch
    /brokers/<broker>                BrokerRecord
    /features, /versions/<broker>    the feature level in force, and what each broker supports (features.py)
    /cordons/<broker>                CordonRecord: its partitions are to be moved off, it gets nothing new
    /controller                      ControllerRecord, bound to a session; its mod_revision is the controller
                                     epoch; these and the cluster's are in broker_records.py
    /tenants/<tenant>                TenantRecord
    /names/<tenant>/<topic name>     topic id; none leads to a topic in the recycle bin
    /topics/<topic id>               TopicRecord
    /partitions/<topic id>/<block>    up to PARTITIONS_PER_BLOCK PartitionRecords
    /tombstones/<topic id>           Tombstone of a deleted topic: its replicas may be removed (RL53)
    /finals/<topic id>/<partition>   FinalRecord: where a deleted topic's partition ended, for the cut that closes it
    /begun_cuts/<tenant>             BegunCut: the one cut that may be under way
    /cuts/<tenant>                   CutRecord: the tenant's newest period end
    /kept_cuts/<tenant>/<end>        CutRecord: every one; no image holds them, brokers read them when asked
    /cut_ends/<tenant>/<end>/<chunk>
                                     up to ENDS_PER_CHUNK ends of such a cut (kept_ends.py); read likewise
    /losses/<topic id>/<partition>/<log generation>
                                     LossRecord (losses.py): the loss by which that generation began; kept permanently
    /use/<tenant>                    UseRecord: changed with every topic made or grown under a partition limit
    /group_seats/<tenant>            GroupSeatsRecord (group_seats.py): shares of a tenant's limit of consumer groups
    /budget_use/<tenant>             BudgetUseRecord (budget_use.py): what was counted of its budgets
    /keys/<key id>                   KeyRecord
    /access_lists/<tenant>           AccessListRecord (access_lists.py)
    /refused_keys/<key id>           generation at which a key was revoked before it was ever put
    /next/principal, /next/producer_id   counters taken by compare-and-set

Broker epochs, controller epochs and fencing all compare the mod_revision of the key that gives the authority.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Self

from data_plane.metadata.json_record import JsonRecord
from penstock.contract.ids import NO_BROKER, SYSTEM_TENANT, BrokerId, TenantId, TopicId
from penstock.contract.topic_settings import UNLIMITED, TopicSettings
from penstock.rules.access import ACCOUNT_KIND, Scope
from penstock.rules.budgets import Budget
from penstock.rules.names import AUDIT_TOPIC
from penstock.rules.principal_limits import EVERY_ACCOUNT, PrincipalLimits, limits_digest

PARTITIONS_PER_BLOCK = 100

NEXT_PRINCIPAL_KEY = "/next/principal"
NEXT_PRODUCER_ID_KEY = "/next/producer_id"


def tenant_key(tenant: str) -> str:
    return f"/tenants/{tenant}"


def name_key(tenant: str, name: str) -> str:
    return f"/names/{tenant}/{name}"


def topic_key(topic_id: bytes) -> str:
    return f"/topics/{topic_id.hex()}"


def block_key(topic_id: bytes, partition: int) -> str:
    return f"/partitions/{topic_id.hex()}/{partition // PARTITIONS_PER_BLOCK:06d}"


def tombstone_key(topic_id: bytes) -> str:
    return f"/tombstones/{topic_id.hex()}"


def final_key(topic_id: bytes, partition: int) -> str:
    return f"/finals/{topic_id.hex()}/{partition:06d}"


def cut_key(tenant: str) -> str:
    return f"/cuts/{tenant}"


def begun_cut_key(tenant: str) -> str:
    return f"/begun_cuts/{tenant}"


def cut_ends_prefix(tenant: str, end_ms: int) -> str:
    return f"/cut_ends/{tenant}/{end_ms:015d}/"


def cut_ends_key(tenant: str, end_ms: int, chunk: int) -> str:
    return f"{cut_ends_prefix(tenant, end_ms)}{chunk:06d}"


def kept_cuts_prefix(tenant: str) -> str:
    return f"/kept_cuts/{tenant}/"


def kept_cut_key(tenant: str, end_ms: int) -> str:
    return f"{kept_cuts_prefix(tenant)}{end_ms:015d}"


def loss_key(topic_id: bytes, partition: int, log_generation: int) -> str:
    return f"/losses/{topic_id.hex()}/{partition:06d}/{log_generation:06d}"


def use_key(tenant: str) -> str:
    return f"/use/{tenant}"


def credential_key(key_id: str) -> str:
    return f"/keys/{key_id}"


def refused_key(key_id: str) -> str:
    return f"/refused_keys/{key_id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantQuotas:
    """What brokers enforce for one tenant. 0 = no limit."""

    produce_bytes_per_s: int = 0
    """Bytes of batches as sent, over all brokers."""
    partitions_max: int = 0
    """Partitions of all the tenant's topics."""
    consume_bytes_per_s: int = 0
    """Bytes of batches as pushed to consumers, over all brokers. From feature level LEASES on."""
    connections_max: int = 0
    """Connections with streams or calls of the tenant at one broker. From feature level LEASES on."""
    groups_max: int = 0
    """Consumer groups of the tenant, over all brokers. From feature level LEASES on."""
    requests_per_s: int = 0
    """Calls, and frames of streams that ask for something, over all brokers. From feature level LEASES on."""
    connection_attempts_per_s: int = 0
    """Connections of the tenant that begin at one broker. From feature level LEASES on."""
    rate_burst_ms: int = 0
    """For how long what was not used of a rate may be made up; 0 = BURST_MS. From feature level LEASES on."""
    rate_floor_percent: int = 0
    """The part of a rate that all brokers together may use without a lease; 0 = one in FLOOR. From feature level
    LEASES on."""
    storage_bytes_max: int = 0
    """Bytes that all the tenant's topics keep, of one copy. From feature level LEASES on."""
    kept_bytes_max: int = 0
    """The same while a ceiling of cost has stopped growth; 0 = none has. From feature level LEASES on."""
    broker_processor_ms_per_s: int = 0
    """Processor time that the tenant's work takes of one broker. From feature level LEASES on."""

    @property
    def storage_allowed(self) -> int:
        """The lower of both limits of storage."""
        return min(
            self.storage_bytes_max or self.kept_bytes_max, self.kept_bytes_max or self.storage_bytes_max
        )


LATER_QUOTAS = (
    "consume_bytes_per_s",
    "connections_max",
    "groups_max",
    "requests_per_s",
    "connection_attempts_per_s",
    "rate_burst_ms",
    "rate_floor_percent",
    "storage_bytes_max",
    "kept_bytes_max",
    "broker_processor_ms_per_s",
)
"""What brokers of Penstock 0.1 cannot read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantRecord(JsonRecord):
    """Desired state of a tenant, as far as brokers need it."""

    tenant: TenantId
    generation: int = 0
    """Version of the desired state that this reflects (0 = never received one); a lower one is ignored."""
    quotas: TenantQuotas = TenantQuotas()
    suspended: bool = False
    """Its keys are refused."""
    principals: Mapping[str, PrincipalLimits] = field(default_factory=dict)
    """Limits of service accounts by `KeyRecord.owner`, and of each other one under EVERY_ACCOUNT. From feature level
    LEASES on."""
    budgets: tuple[Budget, ...] = ()
    """From feature level LEASES on."""
    _kept_digest: list[str] = field(default_factory=list, init=False, repr=False, compare=False)
    """Once it was asked for."""

    @property
    def principals_digest(self) -> str:
        """Of `principals`, hex. Made once a record: some ms at the limit."""
        if not self._kept_digest:
            self._kept_digest.append(limits_digest(self.principals))
        return self._kept_digest[0]

    def limits_of(self, owner: str) -> PrincipalLimits | None:
        """The limits of that owner of keys beside the tenant's; None: there are none."""
        if not self.principals or not owner.startswith(ACCOUNT_KIND):
            return None
        return self.principals.get(owner) or self.principals.get(EVERY_ACCOUNT)

    def encode(self) -> bytes:
        """Without limits of later releases that are not set: brokers before them can read that."""
        values = asdict(self)
        del values["_kept_digest"]
        if not self.principals:
            del values["principals"]
        if not self.budgets:
            del values["budgets"]
        for name in LATER_QUOTAS:
            if not values["quotas"][name]:
                del values["quotas"][name]
        return json.dumps(values, separators=(",", ":"), sort_keys=True).encode()

    @classmethod
    def decode(cls, value: bytes) -> Self:
        values: dict[str, Any] = json.loads(value)
        values["quotas"] = TenantQuotas(**values.get("quotas", {}))
        values["principals"] = {
            principal: PrincipalLimits(**limits) for principal, limits in values.get("principals", {}).items()
        }
        values["budgets"] = tuple(Budget(**budget) for budget in values.get("budgets", ()))
        return cls(**values)


@dataclass(frozen=True, slots=True, kw_only=True)
class UseRecord(JsonRecord):
    """What a tenant uses of its partition limit. Its revision orders the changes that raise the use."""

    partitions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Tombstone(JsonRecord):
    """What stays of a deleted topic."""

    name: str
    tenant: str = ""
    """Empty in tombstones written before it was kept."""
    partitions: int = 0
    generation: int = 0
    """Of the deletion; a change of the topic that carries a lower one is ignored."""
    metered: bool = False
    """Each partition owes a FinalRecord, and the topic a cut that counts them."""
    closed_by: str = ""
    """That cut. From then on no FinalRecord of the topic changes, and no later cut knows it."""

    @classmethod
    def decode(cls, value: bytes) -> Self:
        if not value.startswith(b"{"):
            return cls(name=value.decode())
        return cls(**json.loads(value))


@dataclass(frozen=True, slots=True, kw_only=True)
class FinalRecord(JsonRecord):
    """What the odometer of a deleted topic's partition said last. Of several replicas the furthest reading stays."""

    log_generation: int
    end_offset: int
    accepted_ms: int
    """Acceptance of the last batch, -1 = none."""
    totals: tuple[int, ...]
    """Of `penstock.records.usage.Totals`, in the order of its fields."""

    @property
    def position(self) -> tuple[int, int]:
        """Later in the log's life is higher."""
        return (self.log_generation, self.end_offset)

    @classmethod
    def decode(cls, value: bytes) -> Self:
        values: dict[str, Any] = json.loads(value)
        values["totals"] = tuple(values["totals"])
        return cls(**values)


@dataclass(frozen=True, slots=True, kw_only=True)
class CutRecord(JsonRecord):
    """The end of a tenant's period as the brokers keep it: written once, shown to the tenant's keys."""

    cut_id: str
    start_ms: int
    """Where the period begins: the end of the cut before; 0 = the tenant's first."""
    end_ms: int
    sha256: str
    """Of where every partition stood (penstock/records/cut.py), hex."""
    billing_sequence: int
    """Of the newest entry of the tenant's billing chain when the cut was asked for; 0 = not known."""
    billing_hash: str
    kept_ms: int = 0
    """When it was kept, by the clock of the broker that took the call, ms UTC."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BegunCut(JsonRecord):
    """A cut that was begun. Until it is kept no other of the tenant may be: its readings may be in `__usage`."""

    cut_id: str
    start_ms: int
    end_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRecord:
    topic_id: TopicId
    tenant: TenantId
    name: str
    partitions: int
    settings: TopicSettings
    generation: int = 0
    """Version of the desired state that this reflects (0 = never received one); a lower one is ignored."""
    accepted_floor_ms: int = 0
    """No batch is stamped earlier than this (ARCHITECTURE rule 5)."""
    binned: bool = False
    """It lies in the recycle bin: no name leads to it, to clients it does not exist, and all it holds is kept. From
    feature level BIN on."""

    @property
    def metered(self) -> bool:
        """Whether what it stores is billed: the service's own topics and a tenant's copy of its audit log are not."""
        return self.tenant != SYSTEM_TENANT and self.name != AUDIT_TOPIC

    @property
    def log_settings(self) -> TopicSettings:
        """What its logs go by. Retention rests in the bin."""
        if not self.binned:
            return self.settings
        return replace(self.settings, retention_ms=UNLIMITED, retention_bytes=UNLIMITED)

    def encode(self) -> bytes:
        values: dict[str, Any] = {
            "topic_id": self.topic_id.hex(),
            "tenant": self.tenant,
            "name": self.name,
            "partitions": self.partitions,
            "settings": self.settings.to_dict(),
            "generation": self.generation,
            "accepted_floor_ms": self.accepted_floor_ms,
        }
        if self.binned:  # versions before it was known can read the others
            values["binned"] = True
        return json.dumps(values, separators=(",", ":"), sort_keys=True).encode()

    @classmethod
    def decode(cls, value: bytes) -> Self:
        values: dict[str, Any] = json.loads(value)
        values["topic_id"] = TopicId(bytes.fromhex(values["topic_id"]))
        values["settings"] = TopicSettings.from_dict(values["settings"])
        return cls(**values)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRecord:
    """State of one partition. Broker tuples are in order of preference; every write raises
    `partition_epoch` (RL5).
    """

    partition: int
    replicas: tuple[BrokerId, ...]
    replica_generations: tuple[int, ...]
    """Beside `replicas`: a replica removed and added again is a new replica (RL39)."""
    leader: BrokerId = NO_BROKER
    leader_epoch: int = 0
    in_sync: tuple[BrokerId, ...] = ()
    eligible: tuple[BrokerId, ...] = ()
    """Eligible leader replicas outside the in-sync set (RL43)."""
    last_known: tuple[BrokerId, ...] = ()
    """Last known eligible replicas, lost by an unclean restart (RL44)."""
    partition_epoch: int = 1
    log_generation: int = 1
    """Raised by each declared loss."""
    generation_epoch: int = 0
    """The leader epoch that began this log generation: where it begins, what was lost was removed. 0 = the first."""
    target: tuple[BrokerId, ...] = ()
    """Not empty: a reassignment is under way, and these are to be all replicas, in order of preference (RL52)."""
    adding: tuple[BrokerId, ...] = ()
    """Replicas that this reassignment has added; the others held the partition before it."""
    log_start: int = 0
    """No leader's log begins before it (RL108). Not where the log begins now: that is written here only for those
    who may lead without having moved their own start there."""

    @property
    def removing(self) -> tuple[BrokerId, ...]:
        """Replicas that go when the reassignment is complete."""
        return tuple(b for b in self.replicas if b not in self.target) if self.target else ()

    @property
    def settled_replicas(self) -> tuple[BrokerId, ...]:
        """The replicas without what a reassignment has added: what a cancel goes back to."""
        return tuple(b for b in self.replicas if b not in self.adding)

    def generation_of(self, broker: BrokerId) -> int:
        """The generation of that broker's replica; it must be one."""
        return self.replica_generations[self.replicas.index(broker)]

    def to_json(self) -> list[Any]:
        return [
            self.partition,
            list(self.replicas),
            list(self.replica_generations),
            self.leader,
            self.leader_epoch,
            list(self.in_sync),
            list(self.eligible),
            list(self.last_known),
            self.partition_epoch,
            self.log_generation,
            *([self.generation_epoch] if self.generation_epoch or self.target or self.log_start else []),
            *([[list(self.target), list(self.adding)]] if self.target or self.log_start else []),
            *([self.log_start] if self.log_start else []),
        ]

    @classmethod
    def from_json(cls, row: list[Any]) -> Self:
        (
            partition,
            replicas,
            generations,
            leader,
            epoch,
            in_sync,
            eligible,
            last_known,
            partition_epoch,
            generation,
            *later,
        ) = row
        target, adding = later[1] if len(later) > 1 else ((), ())
        return cls(
            partition=partition,
            replicas=tuple(replicas),
            replica_generations=tuple(generations),
            leader=leader,
            leader_epoch=epoch,
            in_sync=tuple(in_sync),
            eligible=tuple(eligible),
            last_known=tuple(last_known),
            partition_epoch=partition_epoch,
            log_generation=generation,
            generation_epoch=later[0] if later else 0,
            target=tuple(target),
            adding=tuple(adding),
            log_start=later[2] if len(later) > 2 else 0,
        )

    def changed(self, **changes: Any) -> Self:
        """A successor with the next partition epoch."""
        return replace(self, partition_epoch=self.partition_epoch + 1, **changes)


def encode_block(records: dict[int, PartitionRecord]) -> bytes:
    """One block's value: its partitions in order."""
    return json.dumps(
        [records[number].to_json() for number in sorted(records)], separators=(",", ":")
    ).encode()


def decode_block(value: bytes) -> dict[int, PartitionRecord]:
    rows = (PartitionRecord.from_json(row) for row in json.loads(value))
    return {record.partition: record for record in rows}


@dataclass(frozen=True, slots=True, kw_only=True)
class Binding:
    """A scope of a key (`penstock.rules.access.Scope`): `operations` on the resources whose name begins with
    `topic_prefix`."""

    topic_prefix: str
    operations: tuple[str, ...] = ()
    """Names of operations; none = describe, produce, consume and delete."""
    resource: str = ""
    """Kind of resource; empty = topics and groups. Others from feature level ACCESS_LISTS on."""
    literal: bool = False
    """The one resource that is called `topic_prefix`. From feature level ACCESS_LISTS on."""

    @property
    def scope(self) -> Scope:
        return Scope(
            resource=self.resource, name=self.topic_prefix, literal=self.literal, operations=self.operations
        )

    @property
    def is_plain(self) -> bool:
        """Whether every release reads it."""
        return not self.resource and not self.literal


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRecord(JsonRecord):
    """A credential as brokers check it. The secret itself is stored nowhere."""

    key_id: str
    tenant: TenantId
    name: str
    principal: int
    pepper_version: int
    secret_hmac: str
    """Hex of HMAC-SHA-256(pepper, secret)."""
    scram: dict[str, Any]
    """`sha256` and `sha512`: salt, iterations, stored_key, server_key (hex)."""
    expires_at_ms: int = 0
    revoked: bool = False
    """Kept permanently."""
    generation: int = 0
    """Version of the desired state that this reflects (0 = never received one); a lower one is ignored."""
    bindings: tuple[Binding, ...] = ()
    """None: everything in the tenant; else only what one of them grants."""
    owner: str = ""
    """The principal that access lists name: `person:<id>`, `service_account:<id>` or `service`; empty = not known."""

    @property
    def scopes(self) -> tuple[Scope, ...]:
        return tuple(binding.scope for binding in self.bindings)

    def encode(self) -> bytes:
        """Without what is not set: versions before it was known can read that."""
        values = asdict(self)
        for row in values["bindings"]:
            if not row["resource"]:
                del row["resource"]
            if not row["literal"]:
                del row["literal"]
        if not self.owner:
            del values["owner"]
        return json.dumps(values, separators=(",", ":"), sort_keys=True).encode()

    @classmethod
    def decode(cls, value: bytes) -> Self:
        values: dict[str, Any] = json.loads(value)
        values["bindings"] = tuple(
            Binding(
                topic_prefix=row["topic_prefix"],
                operations=tuple(row["operations"]),
                resource=row.get("resource", ""),
                literal=row.get("literal", False),
            )
            for row in values.get("bindings", ())
        )
        return cls(**values)
