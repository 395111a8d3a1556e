"""Configuration of one node: frozen, given by the shell."""

from dataclasses import dataclass, field

from data_plane.authz.peppers import ReadPeppers
from data_plane.groups.expiry import GROUP_RETENTION_MS
from data_plane.metadata.features import CURRENT, Supported
from penstock.contract import limits
from penstock.contract.ids import BrokerId


@dataclass(frozen=True, slots=True, kw_only=True)
class Timings:
    """Waits and periods in ms. Each only starts a decision, which compare-and-set then makes (RL8)."""

    session_ttl_ms: int = 6_000
    """The backstop when direct suspicion cannot act; kept alive every third of it."""
    heartbeat_ms: int = 300
    suspicion_ms: int = 1_200
    """Between the brokers that would take over from a suspected controller, lowest id first."""
    replica_lag_ms_max: int = 10_000
    """A follower that was not caught up for this long leaves the in-sync set (RL37)."""
    watermark_beat_ms: int = 200
    in_sync_check_ms: int = 500
    retention_check_ms: int = 10_000
    reconnect_ms: int = 50
    reconnect_ms_max: int = 1_000
    call_ms: int = 3_000
    catch_up_wait_ms: int = 2_000
    """How long a call waits for metadata it names but this broker has not seen."""
    drain_ms: int = 10_000
    """How long a broker that stops waits for others to lead what it leads."""
    group_retention_ms: int = GROUP_RETENTION_MS
    """A consumer group that was not used for so long is forgotten, with its committed offsets."""
    hand_over_ms: int = 500
    """A partition that is handed over stands still no longer than this."""
    metering_tick_ms: int = 1_000
    """Between looks at what is to be read."""
    reading_ms: int = 8_000
    """Between readings of a partition that goes on changing. With a tick it is less than the 10 s in which usage is to
    be seen."""
    reading_idle_ms: int = 3_600_000
    """Between readings of one that does not."""
    scrub_delay_ms: int = 3_600_000
    """A segment is read back for the first time when it has been closed for so long."""
    scrub_period_ms: int = 7 * 86_400_000
    """And again after so long; twice that has passed at most when it was (RL132)."""
    scrub_compare_ms: int = 3_600_000
    """Between comparisons of what the replicas of a partition found."""
    slow_sync_ms: int = 5_000
    """A sync that takes longer is a fault of the disk: the broker leaves what others can do without it (RL133)."""
    clock_off_ms_max: int = 2_000
    """A wall clock that is further off the middle of the cluster's is reported, and deletes nothing by time."""
    revisit_ms: int = 1_000
    """Between looks of the controller when nothing changed, for what a lost event would have shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeConfig:
    """What one broker needs to know. Addresses are host:port as others reach them (advertised)."""

    broker_id: BrokerId
    cluster_id: str
    client_address: str
    internal_address: str
    peer_address: str
    zone: str
    """Failure domain of its host, which others may share."""
    peppers: dict[int, bytes] = field(repr=False)
    """Pepper by version, for API keys."""
    read_peppers: ReadPeppers | None = field(default=None, repr=False)
    """Says which others there are now."""
    host: str = ""
    """Name of its machine; empty = no other broker is on it."""
    timings: Timings = Timings()
    supported: Supported = CURRENT
    """This broker's version and the feature levels that it supports."""
    journal_bytes: int = 64 * limits.MIB
    """Size of one journal file; a checkpoint is due when one is full."""
    tail_bytes: int = 64 * limits.MIB
    """Recent batches kept in memory for followers and consumers, all partitions together."""
    replica_window_bytes: int = 8 * limits.MIB
    """Pushed to a follower and not yet acknowledged by it, per follower."""
    catch_up_bytes_per_s: int = 64 * limits.MIB
    """To followers that are far behind and not in sync, all together; 0 = as fast as can be."""
    replica_open_max: int = 1_000
    """Partitions opened by one frame: some 60 KB of its head, 10 ms of a turn of the event loop."""
    push_bytes_max: int = 2 * limits.MIB
    """One frame to a follower or consumer stops growing here."""
    unsynced_bytes_max: int = 64 * limits.MIB
    """Appended and not yet durable; above it produce frames wait."""
    written_logs_max: int = 0
    """Logs written to since the last checkpoint: each holds two or three files open until one has synced them. Above it
    a checkpoint is due, and what was not written to meanwhile closes its files. 0 = an eighth of the descriptors that
    the process may have."""
    disk_soft_free_bytes: int = 1_024 * limits.MIB
    """With less free, but never while 10 % of the disk are, produce is refused and everything else goes on (RL128)."""
    disk_hard_free_bytes: int = 256 * limits.MIB
    """With less free, but never while 3 % of the disk are, nothing is written but what frees space."""
    scrub_bytes_per_s: int = 8 * limits.MIB
    """Read back at least at this rate; faster only where the period demands it."""
    ballast_bytes: int = 64 * limits.MIB
    """A file that recovery on a full disk removes first."""
    stray_keep_ms: int = 14 * 86_400_000
    """Directories that the metadata does not know are kept so long (RL53)."""
    damaged_keep_ms: int = 14 * 86_400_000
    """Segment files set aside with their damage are kept so long, or until disk space is short (RL122)."""
    metering: bool = True
    """Usage is read and delivered usage counted; without it nothing waits to be metered before it is deleted."""
