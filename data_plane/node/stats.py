"""Counters of one node, plain numbers that the shell publishes as metrics."""

from bisect import bisect_left
from dataclasses import dataclass, field

from data_plane.node.limit_refusals import LimitRefusals

_BOUNDS_MS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1_000.0, 5_000.0)


@dataclass(slots=True)
class Histogram:
    """Counts of durations by upper bound in ms (the last bucket has none), with their sum."""

    bounds_ms: tuple[float, ...] = _BOUNDS_MS
    counts: list[int] = field(default_factory=lambda: [0] * (len(_BOUNDS_MS) + 1))
    total_ms: float = 0.0

    def observe(self, milliseconds: float) -> None:
        self.counts[bisect_left(self.bounds_ms, milliseconds)] += 1
        self.total_ms += milliseconds


@dataclass(slots=True)
class NodeStats:
    """Everything counted since the start, and a few levels. Names are the metrics' names."""

    produced_batches: int = 0
    """Batches that this broker took as leader."""
    produced_bytes: int = 0
    """Bytes of the batches that this broker took as leader, as sent."""
    produced_messages: int = 0
    """Messages in the batches that this broker took as leader."""
    produce_refusals: int = 0
    """Batches that this broker refused, for any reason."""
    throttled_batches: int = 0
    """Batches delayed because of a tenant's produce rate, and then let in."""
    throttled_ms: int = 0
    """Total time that batches were delayed because of a tenant's produce rate."""
    fairness_waits: int = 0
    """Pieces of work of tenants that had used more than their share of the processor, and waited."""
    fairness_wait_ms: int = 0
    """Total time that work of tenants above their share of the processor waited."""
    lease_requests: int = 0
    """Requests of this broker for parts of tenants' limits; none while no tenant with a limit sends."""
    lease_failures: int = 0
    """Of the requests for parts of tenants' limits, those without an answer of the controller."""
    slow_downs: int = 0
    """Results that asked a producer to send nothing to a partition for a while, because its leader's queue was long."""
    key_reports: int = 0
    """Partitions of which a producer reported its frequent keys, and that were taken."""
    key_reports_refused: int = 0
    """Reports of a partition's frequent keys that were refused, for any reason."""
    key_reports_dropped: int = 0
    """Partitions whose reported frequent keys were dropped early, because as many partitions as may be are followed."""
    throttle_refusals: int = 0
    """Batches refused because of a tenant's produce rate."""
    consume_throttled_ms: int = 0
    """Total time that pushes to consumers were delayed because of a tenant's consume rate."""
    requests_throttled: int = 0
    """Calls and frames that waited because of a tenant's rate of requests, and then went on."""
    requests_throttled_ms: int = 0
    """Total time that calls and frames waited because of a tenant's rate of requests."""
    requests_refused: int = 0
    """Calls refused because of a tenant's rate of requests."""
    processor_throttled: int = 0
    """Calls, frames and pushes that waited because of a tenant's limit of processor time, and then went on or ended."""
    processor_throttled_ms: int = 0
    """Total time that calls, frames and pushes waited because of a tenant's limit of processor time."""
    processor_refused: int = 0
    """Calls refused because of a tenant's limit of processor time."""
    duplicates: int = 0
    """Batches that a producer sent again and the log already had: answered with the first offset."""
    pushed_bytes: int = 0
    """Bytes pushed to consumers."""
    pushed_bytes_follower: int = 0
    """Of the bytes pushed to consumers, those of partitions that another broker leads."""
    pushed_bytes_own_zone: int = 0
    """Bytes pushed to consumers that say they are in this broker's zone or on its host."""
    pushed_bytes_other_zone: int = 0
    """Bytes pushed to consumers that say they are in another zone."""
    replicated_bytes: int = 0
    """Bytes pushed to followers."""
    held_batches: int = 0
    """Batches taken over from leaders."""
    elections: int = 0
    """Leaderships that this broker took up."""
    leaderships_lost: int = 0
    """Leaderships that ended without a hand-over: another was elected, or the registration was lost."""
    outcomes_unknown: int = 0
    """Batches answered with an unknown outcome, because leadership was lost before they were committed."""
    leaders_handed_over: int = 0
    """Leadership transfers in good order, those that close a reassignment included."""
    catch_up_bytes: int = 0
    """Bytes pushed to followers outside the in-sync set that are far behind."""
    in_sync_shrinks: int = 0
    """Followers that a leader here took out of the in-sync set."""
    in_sync_expansions: int = 0
    """Followers that a leader here took into the in-sync set again."""
    truncations: int = 0
    """Logs that were truncated where they differed from their new leader's."""
    truncated_messages: int = 0
    """Offsets removed by truncations. Without a declared loss none was acknowledged with `acks=all`."""
    declared_losses: int = 0
    """Log generations that this broker began: elections that may have lost something, forced elections, repairs."""
    registrations: int = 0
    """Times that this broker registered itself: once, and after each time it was fenced."""
    fences: int = 0
    """Suspected brokers that this broker fenced as controller."""
    journal_rounds: int = 0
    """Groups of writes that went to the journal together, with one sync."""
    checkpoints: int = 0
    """Times that the journal's content was brought into segments."""
    no_room: int = 0
    """Tries of the journal, or of a checkpoint, that a full disk turned away."""
    deleted_segments: int = 0
    """Segments that retention has deleted."""
    scrubbed_bytes: int = 0
    """Bytes of closed segments that were read back and checked."""
    scrubbed_segments: int = 0
    """Closed segments that were read back and checked."""
    scrub_damage: int = 0
    """Segments that were not whole, or not the same as the other replicas'."""
    slow_syncs: int = 0
    """Syncs that took longer than a healthy disk may."""
    stepped_aside: int = 0
    """Partitions that this broker left because its disk was slow or full."""
    group_offsets_committed: int = 0
    """Offsets of consumer groups that were committed here."""
    group_offsets_committed_back: int = 0
    """Offsets committed below the one stored before (RL95): by a reset or a seek, otherwise worth a look."""
    group_logs_shortened: int = 0
    """Partitions of `__groups` whose log was rewritten shorter."""
    usage_records: int = 0
    """Usage records committed in `__usage`."""
    usage_readings: int = 0
    """Odometer readings that were made."""
    usage_retries: int = 0
    """Rounds in which no partition of `__usage` took a record."""
    calls_over_limits: int = 0
    """Calls refused because their tenant or their address had too many calls or connections open, or began connections
    too fast."""
    limit_refusals: LimitRefusals = field(default_factory=LimitRefusals)
    """Batches, calls and requests refused because of a limit, by tenant (empty = of an address, or not counted apart)
    and limit."""
    storage_reports: int = 0
    """Reports to the controller of what partitions keep that this broker leads."""
    storage_reports_unanswered: int = 0
    """Reports of storage that the controller did not answer in time; they are made again."""
    budget_requests: int = 0
    """Requests of this broker for parts of tenants' budgets, and reports of their use; none while none is used."""
    budget_requests_unanswered: int = 0
    """Of the requests about budgets, those without an answer of the controller; they are made again."""
    authentication_failures: int = 0
    """Callers whose key was wrong, revoked or unknown."""
    streams: int = 0
    """Streams of clients and brokers that are open now."""
    sync_ms: Histogram = field(default_factory=Histogram)
    """Time from handing a group of writes to the disk until the event loop goes on."""
    hand_over_ms: Histogram = field(default_factory=Histogram)
    """Time from the last batch taken until the metadata names the next leader, for partitions moved together."""
    ack_ms: Histogram = field(default_factory=Histogram)
    """Time from a produced frame's arrival to its results, without delays by a tenant's rate."""
