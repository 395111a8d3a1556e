"""What the brokers say of the cluster, as plain values."""

from dataclasses import dataclass, field

from penstock.rules import domains


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSeen:
    """One broker; `leaders` and `replicas` count partitions of all tenants."""

    id: int
    state: str
    """active, draining or fenced."""
    client_address: str
    internal_address: str
    zone: str
    leaders: int
    replicas: int
    cordoned: bool = False
    """An operator wants it empty."""
    version: str = ""
    """Of Penstock, as it registered. Empty: it is fenced, or of a release before feature levels."""
    level_min: int = 1
    level_max: int = 1
    """The feature levels that it supports."""
    host: str = ""
    """Empty: no other broker is on it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantUseSeen:
    """What a tenant uses of the limits that brokers know; None: some broker did not say it."""

    connections: int | None = None
    """At the broker that has most of them."""
    groups: int | None = None
    storage_bytes: int | None = None
    """Of one copy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyUseSeen:
    """What all active brokers say of keys. Keys by the id in their text."""

    ages_s: dict[str, float]
    """Seconds since the last use."""
    hashes: dict[str, str]
    """Of keys that were shown and are stored under an older pepper: the HMAC under the one asked for, hex."""
    peppers: dict[int, bytes]
    """Fingerprints by version, of those that every active broker has with the same content."""
    peppers_used: frozenset[int]
    """Versions that some key needs which is neither revoked nor expired."""
    feature_level: int = 1
    """In force."""
    silent: tuple[int, ...] = ()
    """Active brokers that did not answer: what they know is missing, and is asked the next time."""
    near_storage: "NearStorageSeen | None" = None
    """None: no controller answered, or one of a release that does not say it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageUseSeen:
    """What a tenant keeps of its `storage_bytes_max`, of one copy."""

    tenant: str
    used_bytes: int
    limit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetUseSeen:
    """What was counted of a budget in one period."""

    began_ms: int
    ends_ms: int
    used: int
    spent: bool = False
    """Something was refused, as too little was left for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NearStorageSeen:
    """Who keeps 75 % or more, as the controller says. `whole`: who is missing keeps less."""

    uses: tuple[StorageUseSeen, ...]
    whole: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionSeen:
    """One partition. `leader` -1 = none now."""

    tenant: str
    topic: str
    topic_id: str
    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    target: tuple[int, ...] = ()
    """Not empty: it is moving to these brokers."""
    last_known: tuple[int, ...] = ()
    """Brokers that may store the newest acknowledged records, while no broker can lead."""
    log_generation: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class LossSeen:
    """The loss by which a log generation of a partition began."""

    tenant: str
    topic: str
    topic_id: str
    partition: int
    kind: str
    log_generation: int
    leader: int
    leader_epoch: int
    offset: int
    """Where the generation begins: what the old one held from here on is lost."""
    known_end_offset: int
    """The furthest end offset that a replica reported."""
    asked_by: str
    """Empty: the brokers' controller."""
    declared_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantSeen:
    tenant: str
    generation: int
    produce_bytes_per_s: int
    partitions_max: int
    suspended: bool
    connections_max: int = 0
    groups_max: int = 0
    requests_per_s: int = 0
    connection_attempts_per_s: int = 0
    rate_burst_ms: int = 0
    rate_floor_percent: int = 0
    storage_bytes_max: int = 0
    kept_bytes_max: int = 0
    broker_processor_ms_per_s: int = 0
    access_list_generation: int = 0
    consume_bytes_per_s: int = 0
    access_list_digest: str = ""
    """Of the written form of its access list; empty: the brokers have none."""
    principal_limits_digest: str = ""
    budgets_digest: str = ""
    """Of the limits of its service accounts; empty: the brokers have none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSeen:
    tenant: str
    name: str
    topic_id: str
    partitions: int
    settings_json: str
    generation: int
    together: domains.Crowd | None = None
    """The most copies that a partition has in one zone, and on one host; None = not known."""
    binned: bool = False
    """It lies in the recycle bin: `name` is the one it had."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BindingSeen:
    topic_prefix: str
    operations: tuple[str, ...]
    resource: str = ""
    literal: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class KeySeen:
    key_id: str
    tenant: str
    revoked: bool
    expires_at_ms: int
    generation: int
    bindings: tuple[BindingSeen, ...]
    owner: str = ""
    principal: int = 0
    """By which usage records name it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelSeen:
    """A feature level that the broker that answered knows."""

    level: int
    release: str
    """The first release whose brokers support it."""
    brings: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterView:
    """The cluster at one metadata revision, as one broker sees it. What was not asked for is empty."""

    cluster_id: str
    controller: int
    revision: int
    brokers: tuple[BrokerSeen, ...]
    partitions: tuple[PartitionSeen, ...] = ()
    losses: tuple[LossSeen, ...] = ()
    tenants: tuple[TenantSeen, ...] = ()
    topics: tuple[TopicSeen, ...] = ()
    keys: tuple[KeySeen, ...] = ()
    feature_level: int = 1
    """In force."""
    levels: tuple[LevelSeen, ...] = ()
    objects_revision: int = 0
    """Of the last change that was not of what budgets count; 0: a broker of a release before."""

    @property
    def changed_at(self) -> int:
        """The revision that says whether a comparison could find something else."""
        return self.objects_revision or self.revision

    @property
    def warnings(self) -> dict[int, tuple[str, ...]]:
        """What an operator should correct or know about zones and hosts, by broker."""
        return domains.warnings(self.brokers)


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveProgress:
    """One replica that is added, as the partition's leader sees it; -1 = it has not asked for anything yet."""

    broker: int
    in_sync: bool
    offsets_left: int
    bytes_left: int
    """Estimated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DurabilitySeen:
    """What was read back from the disks of one partition: whole from `log_start_offset` to `verified_end_offset`
    (exclusive) and the same on `replicas` replicas, none of it checked before `verified_ms` (None = nothing yet).
    `error` not empty: its leader does not say now, and the rest means nothing."""

    partition: int
    log_start_offset: int
    verified_end_offset: int
    high_watermark: int
    replicas: int
    verified_ms: int | None
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HotKeySeen:
    """A frequent key of a partition: data of the tenant."""

    key: bytes = field(repr=False)
    """Its first 256 bytes at most."""
    size: int
    """Of the whole key, in bytes."""
    messages: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HotKeysSeen:
    """Frequent keys of a partition, and the messages that its leader took in about the last minute."""

    partition: int
    messages: int
    keys: tuple[HotKeySeen, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveSeen:
    """A partition on its way to other brokers."""

    tenant: str
    topic: str
    topic_id: str
    partition: int
    leader: int
    replicas: tuple[int, ...]
    target: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]
    in_sync: tuple[int, ...]
    progress: tuple[MoveProgress, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionLoadSeen:
    """What one broker says of one partition. Rates are means over about 20 s, in bytes and batches a second."""

    topic_id: str
    partition: int
    leads: bool
    log_bytes: int
    bytes_in_per_s: int
    bytes_out_per_s: int
    batches_per_s: float
    slow_downs_per_s: float = 0.0
    """Results that asked a producer to slow down; brokers of a release before do not say it."""
    hot_key_percent: int = 0
    """The largest part of its messages that one key has, as producers report; 0 = none is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerLoadSeen:
    """What one broker takes, gives and stores. Sums are over all of its partitions, named or not."""

    broker: int
    bytes_in_per_s: int
    bytes_out_per_s: int
    connections: int
    leaders: int
    replicas: int
    log_bytes: int
    led_log_bytes: int
    disk_used_bytes: int
    disk_total_bytes: int
    partitions: tuple[PartitionLoadSeen, ...]
