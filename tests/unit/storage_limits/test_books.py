"""The controller's books of storage: who is full, what a new controller takes over, and what is never counted twice."""

from dataclasses import dataclass, field

from data_plane.storage_limits.books import LOOK_MS, StorageBooks
from data_plane.storage_limits.reports import NAMED_MAX, Full, Kept, Report, has_cleared
from penstock.contract.ids import BrokerId, TenantId, TopicId, TopicPartition

ACME, OTHER = TenantId("acme"), TenantId("other")
ORDERS, CLICKS, FOREIGN = TopicId(b"o" * 16), TopicId(b"c" * 16), TopicId(b"f" * 16)
LEARN_MS = 5_000


@dataclass
class World:
    """A cluster of two brokers as the controller's image has it, and its books."""

    limits: dict[TenantId, int] = field(default_factory=lambda: {ACME: 1_000})
    topics: dict[TopicId, TenantId] = field(
        default_factory=lambda: {ORDERS: ACME, CLICKS: ACME, FOREIGN: OTHER}
    )
    registered: dict[BrokerId, int] = field(default_factory=lambda: {BrokerId(1): 1, BrokerId(2): 2})
    now_ms: float = 0.0

    def __post_init__(self) -> None:
        self.books = self.of_epoch(7)

    def of_epoch(self, epoch: int) -> StorageBooks:
        return StorageBooks(
            epoch,
            self.now_ms,
            learn_ms=LEARN_MS,
            limit=lambda tenant: self.limits.get(tenant, 0),
            tenant_of=self.topics.get,
            counted=lambda tenants: [
                TopicPartition(topic_id, 0) for topic_id, tenant in self.topics.items() if tenant in tenants
            ],
        )

    def report(
        self, broker: int, *kept: Kept, whole: bool = True, full: tuple[TenantId, ...] = (), epoch: int = 0
    ) -> bool:
        report = Report(
            broker=BrokerId(broker),
            registration=broker,
            epoch=epoch or self.books.epoch,
            sequence=0,
            kept=kept,
            whole=whole,
            full=full,
        )
        return self.books.reported(report, self.registered, self.topics, self.now_ms)

    @property
    def full(self) -> list[Full]:
        return self.books.full


def kept(topic_id: TopicId, size_bytes: int, *, partition: int = 0, epoch: int = 1) -> Kept:
    return Kept(TopicPartition(topic_id, partition), epoch, size_bytes)


def test_what_partitions_of_all_brokers_keep_together_passes_the_limit() -> None:
    world = World()
    assert world.report(1, kept(ORDERS, 600), kept(FOREIGN, 9_000))
    assert world.full == []
    assert world.report(2, kept(CLICKS, 400))
    assert world.full == [], "the limit itself may be used"
    world.report(2, kept(CLICKS, 401))
    assert world.full == [Full(ACME, 1_001)]


def test_a_full_tenant_is_let_in_when_a_twentieth_of_its_limit_is_free() -> None:
    world = World()
    world.report(1, kept(ORDERS, 1_001))
    world.report(2, kept(CLICKS, 0))
    for size_bytes, full in ((1_000, True), (951, True), (950, False), (1_000, False), (1_001, True)):
        world.report(1, kept(ORDERS, size_bytes))
        assert bool(world.full) is full, size_bytes
    assert has_cleared(950, 1_000) and not has_cleared(951, 1_000) and has_cleared(10**9, 0)


def test_a_partition_that_moves_is_counted_once_in_whatever_order_reports_come() -> None:
    world = World()
    world.report(1, kept(ORDERS, 600, epoch=1))
    world.report(2, kept(ORDERS, 610, epoch=2))
    assert world.books.used_bytes(ACME) == 610
    world.report(1, kept(ORDERS, 600, epoch=1))
    assert world.books.used_bytes(ACME) == 610, "the leader before says nothing any more"


def test_a_partition_whose_leader_is_gone_counts_as_it_was_reported_last() -> None:
    world = World()
    world.report(1, kept(ORDERS, 1_001))
    world.report(2)
    del world.registered[BrokerId(1)]
    world.now_ms += LOOK_MS
    world.report(2)
    assert world.full == [Full(ACME, 1_001)]


def test_a_deleted_topic_and_a_changed_limit_are_seen_at_the_next_look() -> None:
    world = World()
    world.report(1, kept(ORDERS, 800), kept(CLICKS, 300))
    world.report(2)
    del world.topics[CLICKS]
    world.now_ms += LOOK_MS
    world.report(2)
    assert world.full == [] and world.books.used_bytes(ACME) == 800
    world.limits[ACME] = 700
    world.now_ms += LOOK_MS
    world.report(2)
    assert world.full == [Full(ACME, 800)]
    del world.limits[ACME]
    world.report(2)
    assert world.full == [], "a limit that is lifted refuses nothing"


def test_a_new_controller_goes_on_refusing_whom_brokers_refuse_until_it_knows_all() -> None:
    world = World()
    world.books = world.of_epoch(8)
    world.report(1, kept(ORDERS, 100), full=(ACME,))
    assert world.full == [Full(ACME, 100)], "the other broker may have the rest"
    world.report(2, kept(CLICKS, 870))
    assert world.full == [Full(ACME, 970)], "not yet below where it clears"
    world.report(2, kept(CLICKS, 850))
    assert world.full == []
    world.report(1, full=(ACME,))
    assert world.full == [], "what a broker still refuses counts no more once the books are complete"


def test_a_new_controller_waits_no_longer_than_its_time_for_a_silent_broker() -> None:
    world = World()
    world.books = world.of_epoch(8)
    world.report(1, kept(ORDERS, 100), full=(ACME,))
    world.now_ms += LEARN_MS - 1
    world.report(1)
    assert world.full
    world.now_ms += 1
    world.report(1)
    assert world.full == []


def test_a_full_tenants_partition_without_a_leader_is_waited_for_as_long_as_a_silent_broker() -> None:
    world = World()
    world.books = world.of_epoch(8)
    world.report(1, kept(ORDERS, 100), full=(ACME,))
    world.report(2)
    assert world.full == [Full(ACME, 100)], "clicks has no leader that would say what it keeps"
    world.report(2, kept(CLICKS, 0))
    assert world.full == [], "an empty one is known as well"
    world.books = world.of_epoch(9)
    world.report(1, kept(ORDERS, 100), full=(ACME,))
    world.now_ms += LEARN_MS
    world.report(2)
    assert world.full == []


def test_a_tenant_whose_topics_are_all_deleted_has_no_account_and_is_near_nothing() -> None:
    world = World()
    world.report(1, kept(ORDERS, 1_001), kept(FOREIGN, 1))
    world.report(2)
    del world.topics[ORDERS], world.topics[CLICKS]
    world.now_ms += LOOK_MS
    world.report(2)
    assert world.full == [] and world.books.near == 0
    assert list(world.books._accounts) == [OTHER]


def test_half_a_report_does_not_complete_the_books() -> None:
    world = World()
    world.report(2)
    world.report(1, kept(ORDERS, 100), whole=False, full=(ACME,))
    assert world.full == [Full(ACME, 100)]


def test_reports_for_another_controller_or_of_a_broker_that_is_not_registered_so_count_for_nothing() -> None:
    world = World()
    assert not world.report(1, kept(ORDERS, 5_000), epoch=6)
    world.registered[BrokerId(1)] = 5
    assert not world.report(1, kept(ORDERS, 5_000))
    assert world.books.used_bytes(ACME) == 0


def test_partitions_of_no_topic_are_of_no_tenant() -> None:
    world = World()
    assert world.report(1, kept(TopicId(b"x" * 16), 5_000))
    assert world.full == [] and world.books.near == 0


def test_a_tenant_is_near_its_limit_from_eighty_percent_on() -> None:
    world = World()
    for size_bytes, near in ((799, 0), (800, 1), (1_001, 1), (799, 0)):
        world.report(1, kept(ORDERS, size_bytes))
        assert world.books.near == near, size_bytes


def test_tenants_near_their_limit_are_named_the_fullest_first() -> None:
    world = World(limits={ACME: 1_000, OTHER: 100})
    world.report(1, kept(ORDERS, 749), kept(FOREIGN, 79))
    assert not world.books.named.whole, "the other broker has not reported"
    world.report(2)
    found = world.books.named
    assert [(use.tenant, use.used_bytes, use.limit) for use in found.uses] == [(OTHER, 79, 100)]
    assert (found.whole, world.books.near) == (True, 0)
    world.report(1, kept(ORDERS, 800))
    assert [use.tenant for use in world.books.named.uses] == [ACME, OTHER]
    assert world.books.near == 1
    world.limits[ACME] = 0
    assert [use.tenant for use in world.books.named.uses] == [OTHER]


def test_no_more_tenants_are_named_than_one_answer_takes() -> None:
    many = [(TopicId(n.to_bytes(16)), TenantId(f"t{n}")) for n in range(NAMED_MAX + 1)]
    world = World(limits={tenant: 100 for _, tenant in many}, topics=dict(many))
    world.report(1, *(kept(topic, 80) for topic, _ in many[1:]))
    world.report(2)
    assert (len(world.books.named.uses), world.books.named.whole) == (NAMED_MAX, True)
    world.report(2, kept(many[0][0], 100))
    found = world.books.named
    assert (len(found.uses), found.uses[0].tenant, found.whole) == (NAMED_MAX, many[0][1], False)
