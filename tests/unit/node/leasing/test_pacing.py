"""Shares of a tenant's produce rate: by what brokers lead below the feature level of leases, by demand from it on."""

import pytest

from data_plane.leases.holder import LeaseHolder
from data_plane.leases.terms import LimitKey, Request, Terms, Wish
from data_plane.metadata import model
from data_plane.metadata.features import FEATURES_KEY, LEASES, FeaturesRecord
from data_plane.node.leasing.messages import read_request, request_frame
from data_plane.node.leasing.pacing import (
    CONSUME_RATE,
    FLOOR,
    FORGET_MS,
    IDLE_MS,
    PRODUCE_RATE,
    REQUEST_RATE,
    REQUEST_UNITS,
    SHARE_CHECK_MS,
    Pacing,
)
from data_plane.throttling.pacing import part_led
from penstock.contract.ids import BrokerId, TenantId, TopicId
from penstock.rules.budgets import Budget
from penstock.rules.principal_limits import EVERY_ACCOUNT, PrincipalLimits
from tests.unit.controller.setup import ACME, ORDERS, Store, record

KEY = LimitKey(ACME, PRODUCE_RATE)
CONSUMED = LimitKey(ACME, CONSUME_RATE)


def holder_of(broker: int = 1) -> LeaseHolder:
    return LeaseHolder(BrokerId(broker), Terms())


def paced(store: Store, rate: int, consume_rate: int = 0) -> None:
    quotas = model.TenantQuotas(produce_bytes_per_s=rate, consume_bytes_per_s=consume_rate)
    tenant = model.TenantRecord(tenant=ACME, quotas=quotas)
    store.put(model.tenant_key(ACME), tenant.encode())


def test_brokers_share_the_rate_by_the_partitions_they_lead() -> None:
    store = Store()
    store.topic(record(), record(partition=1), record(partition=2, leader=2), record(partition=3, leader=-1))
    paced(store, 3_000)
    shares = [
        Pacing(store.image, BrokerId(broker), holder_of(broker), lambda key: 0).of(KEY, 0.0)
        for broker in (1, 2)
    ]
    assert [pace.bytes_per_s for pace in shares if pace] == [2_000, 1_000]
    assert [pace.limit_per_s for pace in shares if pace] == [3_000, 3_000], (
        "refusals say the tenant's number too"
    )


def test_the_share_follows_the_leaders_and_the_rate_and_ends_with_the_limit() -> None:
    store = Store()
    store.topic(record(), record(partition=1, leader=2))
    paced(store, 2_000)
    pacing = Pacing(store.image, BrokerId(1), holder_of(), lambda key: 0)
    pace = pacing.of(KEY, 0.0)
    assert pace is not None and pace.bytes_per_s == 1_000
    store.put(model.block_key(ORDERS, 0), model.encode_block({0: record(), 1: record(partition=1)}))
    assert pacing.of(KEY, 1.0) is pace and pace.bytes_per_s == 1_000, "looked at now and then"
    assert pacing.of(KEY, SHARE_CHECK_MS + 1.0) is pace and pace.bytes_per_s == 2_000
    paced(store, 500)
    assert pacing.of(KEY, SHARE_CHECK_MS + 2.0) is pace and pace.bytes_per_s == 500, (
        "a new rate counts at once"
    )
    paced(store, 0)
    assert pacing.of(KEY, SHARE_CHECK_MS + 3.0) is None
    assert pacing.of(LimitKey(TenantId("nobody"), PRODUCE_RATE), 0.0) is None


def test_a_tenant_without_leaders_still_has_a_pace() -> None:
    store = Store()
    store.topic(record(leader=-1), topic_id=TopicId(b"t" * 16))
    paced(store, 10)
    pace = Pacing(store.image, BrokerId(1), holder_of(), lambda key: 0).of(KEY, 0.0)
    assert pace is not None and pace.bytes_per_s == 10


def test_a_rate_that_is_set_a_second_time_begins_with_nothing_owed() -> None:
    store = Store()
    store.topic(record())
    paced(store, 1_000)
    pacing = Pacing(store.image, BrokerId(1), holder_of(), lambda key: 0)
    first = pacing.of(KEY, 0.0)
    assert first is not None
    first.enter(100_000, 0.0, may_refuse=False)
    paced(store, 0)
    assert pacing.of(KEY, 1.0) is None
    paced(store, 1_000)
    again = pacing.of(KEY, 2.0)
    assert again is not None and again.enter(10, 2.0) == 0


def by_demand(rate: int) -> tuple[Store, LeaseHolder, Pacing]:
    """Broker 1 leads half of the tenant's partitions, in a cluster that leases limits; broker 9's term is 5."""
    store = Store()
    store.topic(record(), record(partition=1, leader=2))
    store.put(FEATURES_KEY, FeaturesRecord(level=LEASES).encode())
    paced(store, rate)
    holder = holder_of()
    holder.follow(5, 1)
    return store, holder, Pacing(store.image, BrokerId(1), holder, lambda key: 0)


def granted(holder: LeaseHolder, pacing: Pacing, amount: int, now_ms: float) -> None:
    request = holder.request(pacing.wants(now_ms), now_ms)
    assert request is not None and holder.answered(request, {KEY: amount}, now_ms)
    pacing.take_shares(now_ms)


@pytest.mark.parametrize("leaders", [(), (1,), (1, 1), (1, 2), (1, 2, 2), (1, 2, 2, -1)])
def test_safe_shares_are_by_what_is_led_and_together_the_whole_limit(leaders: tuple[int, ...]) -> None:
    store = Store()
    store.topic(*(record(partition=number, leader=leader) for number, leader in enumerate(leaders)))
    paced(store, 6_000)
    pacing = Pacing(store.image, BrokerId(1), holder_of(), lambda key: 0)
    shares = [pacing.safe_share(BrokerId(broker), KEY) for broker in (1, 2)]
    led = [leaders.count(1), leaders.count(2)]
    assert shares == ([6_000 * each // sum(led) for each in led] if leaders else [0, 0])


def test_without_a_lease_there_is_the_floor_and_with_one_its_amount() -> None:
    _, holder, pacing = by_demand(100_000)
    pace = pacing.of(KEY, 0.0)
    assert pace is not None and pace.bytes_per_s == 50_000 // FLOOR
    assert pacing.begun and pacing.is_active
    pace.enter(10_000, 0.0)
    assert pacing.wants(0.0) == {KEY: 100_000}, "more is delayed than the floor lets through"
    granted(holder, pacing, 90_000, 1.0)
    assert pace.bytes_per_s == 90_000
    later = pacing.of(KEY, 1.0 + holder.terms.lease_ms)
    assert later is pace and pace.bytes_per_s == 50_000 // FLOOR, "its time is over"


def test_what_is_used_is_wanted_with_a_little_above_it() -> None:
    _, holder, pacing = by_demand(100_000)
    pace = pacing.of(KEY, 0.0)
    assert pace is not None
    pace.enter(10_000, 0.0)
    granted(holder, pacing, 100_000, 0.0)
    wanted = {KEY: 0}
    for tick in range(1, 21):
        pace.enter(2_500, tick * 250.0)
        wanted = pacing.wants(tick * 250.0)
    assert 10_000 < wanted[KEY] <= 11_000


def test_what_was_refused_since_the_last_look_wants_all_of_the_rate_and_what_was_before_does_not() -> None:
    _, _, pacing = by_demand(100_000)
    pace = pacing.of(KEY, 0.0)
    assert pace is not None
    for tick, refused, wanted in (
        (1, 0, {}),
        (2, 3, {KEY: 100_000}),
        (3, 0, {}),
        (4, 1, {KEY: 100_000}),
        (5, 0, {}),
    ):
        pace.refused += refused
        assert pacing.wants(tick * 250.0) == wanted


def test_a_pace_that_is_not_used_gives_its_lease_up_and_is_looked_at_no_more() -> None:
    _, holder, pacing = by_demand(100_000)
    pace = pacing.of(KEY, 0.0)
    assert pace is not None
    pace.enter(10_000, 0.0)
    granted(holder, pacing, 100_000, 0.0)
    ticks = [250.0 * tick for tick in range(1, 60)]
    for now_ms in ticks:
        request = holder.request(pacing.wants(now_ms), now_ms)
        if request is not None:
            holder.answered(request, dict.fromkeys(request.wishes, 100_000), now_ms)
    assert not pacing.is_active and not holder.keys and not holder.owes
    assert ticks[-1] > IDLE_MS
    pacing.begun = False
    again = pacing.of(KEY, ticks[-1])
    assert again is pace and pacing.begun and pace.bytes_per_s == 50_000 // FLOOR


def test_what_hardly_uses_the_limit_asks_for_nothing() -> None:
    _, holder, pacing = by_demand(100_000)
    holder.answered(holder.request({}, 0.0), {}, 0.0)  # type: ignore[arg-type]
    pace = pacing.of(KEY, 0.0)
    assert pace is not None
    for tick in range(40):
        pace.enter(100, tick * 250.0)
        assert holder.request(pacing.wants(tick * 250.0), tick * 250.0) is None


def test_a_limit_that_is_lifted_lets_go_what_is_delayed() -> None:
    store, _, pacing = by_demand(1_000)
    pace = pacing.of(KEY, 0.0)
    assert pace is not None
    pace.enter(5_000, 0.0)
    place = pace.let_in
    assert pace.wait_ms(place, 0.0) > 10_000
    paced(store, 0)
    assert pacing.wants(1.0) == {}, "looked at though no batch comes"
    assert pace.wait_ms(place, 2.0) == 0
    assert pacing.of(KEY, 3.0) is None and not pacing.is_active


def consuming(consume_rate: int = 300_000) -> tuple[Store, LeaseHolder, Pacing]:
    store, holder, pacing = by_demand(100_000)
    paced(store, 100_000, consume_rate)
    return store, holder, pacing


def test_what_is_consumed_has_a_pace_of_its_own_and_a_floor_by_replicas() -> None:
    store, _, pacing = consuming()
    produced, consumed = pacing.of(KEY, 0.0), pacing.of(CONSUMED, 0.0)
    assert produced is not None and consumed is not None and produced is not consumed
    assert produced.bytes_per_s == 50_000 // FLOOR
    assert consumed.bytes_per_s == 100_000 // FLOOR, "broker 1 has one of three replicas of each partition"
    assert [pacing.safe_share(BrokerId(broker), CONSUMED) for broker in (1, 2, 3)] == [100_000] * 3
    paced(store, 0, 300_000)
    assert pacing.of(KEY, 1.0) is None and pacing.of(CONSUMED, 1.0) is consumed
    assert pacing.limit(LimitKey(ACME, "of a later version")) == 0


def test_streams_that_wait_for_most_of_the_time_want_all_of_the_rate() -> None:
    _, _, pacing = consuming()
    pace = pacing.of(CONSUMED, 0.0)
    assert pace is not None
    pacing.wants(0.0)
    pace.line.join(print, 0.0)
    assert pacing.wants(250.0) == {CONSUMED: 300_000}
    pace.line.leave(print, 260.0)
    assert pacing.wants(500.0) == {}, "no one waited any more, and nothing is used"


def test_a_lease_that_comes_wakes_the_stream_that_waits_and_so_does_the_end_of_the_limit() -> None:
    store, holder, pacing = consuming()
    pace, woken = pacing.of(CONSUMED, 0.0), list[int]()
    assert pace is not None
    pace.line.join(lambda: woken.append(1), 0.0)
    pace.enter(1_000_000, 0.0, may_refuse=False)
    request = holder.request(pacing.wants(0.0), 0.0)
    assert request is not None and holder.answered(request, {CONSUMED: 300_000}, 0.0)
    assert not woken
    pacing.take_shares(0.0)
    assert len(woken) == 1 and pace.bytes_per_s == 300_000
    paced(store, 100_000)
    assert pacing.of(CONSUMED, 1.0) is None and len(woken) == 2


REQUESTED = LimitKey(ACME, REQUEST_RATE)


def with_quotas(store: Store, **quotas: int) -> None:
    tenant = model.TenantRecord(tenant=ACME, quotas=model.TenantQuotas(**quotas))
    store.put(model.tenant_key(ACME), tenant.encode())


def test_requests_have_a_pace_of_their_own_in_thousandths_and_an_even_part_for_each_registered_broker() -> (
    None
):
    store, _, pacing = by_demand(100_000)
    with_quotas(store, requests_per_s=20)
    registered = [one for one in store.image.brokers if store.image.epoch_of(one)]
    pace = pacing.of(REQUESTED, 0.0)
    assert pace is not None and pacing.limit(REQUESTED) == 20 * REQUEST_UNITS
    assert pace.bytes_per_s == 20 * REQUEST_UNITS // max(1, len(registered)) // FLOOR, (
        "less than one a second"
    )
    assert pacing.of(KEY, 0.0) is None
    pace.enter(5 * REQUEST_UNITS, 0.0, may_refuse=False)
    assert pacing.wants(0.0) == {REQUESTED: 20 * REQUEST_UNITS}


def test_a_tenants_own_floor_counts_and_all_brokers_together_keep_to_it() -> None:
    store, _, pacing = by_demand(100_000)
    with_quotas(store, produce_bytes_per_s=100_000, rate_floor_percent=10)
    other = Pacing(store.image, BrokerId(2), holder_of(2), lambda key: 0)
    paces = [each.of(KEY, 0.0) for each in (pacing, other)]
    assert [pace.bytes_per_s for pace in paces if pace] == [5_000, 5_000]


def test_a_burst_is_stored_by_safe_parts_from_what_is_left_and_the_lease_is_given_up_when_it_is_full() -> (
    None
):
    store, holder, pacing = by_demand(100_000)
    with_quotas(store, produce_bytes_per_s=100_000, rate_burst_ms=20_000)
    pace = pacing.of(KEY, 0.0)
    assert pace is not None
    assert pace.enter(1_000_000, 0.0) == 0, "half of what is led: half of the burst, at once"
    granted(holder, pacing, 100_000, 0.0)
    now_ms, wanted = 0.0, list[int]()
    while pacing.is_active and now_ms < 60_000:
        now_ms += 250.0
        wants = pacing.wants(now_ms)
        request = holder.request(wants, now_ms)
        if wants:
            wanted.append(wants[KEY])
        if request is not None:
            holder.answered(request, dict.fromkeys(request.wishes, 90_000), now_ms)
        pacing.take_shares(now_ms)
    assert wanted[-1] == 1, "next to nothing is wanted: what others want goes first"
    assert not pacing.is_active and not holder.keys and 11_000 < now_ms < 15_000
    later_ms = now_ms + 1_000.0
    assert pacing.of(KEY, later_ms) is pace
    assert pace.enter(1_000_000, later_ms) == 0 and (pace.enter(1_000, later_ms) or 0) == 0
    assert pace.clears_in_ms(later_ms) > 0


def test_a_burst_that_is_set_later_is_known_within_a_second_of_use() -> None:
    store, _, pacing = by_demand(100_000)
    pace = pacing.of(KEY, 0.0)
    assert pace is not None
    with_quotas(store, produce_bytes_per_s=100_000, rate_burst_ms=4_000)
    assert pacing.of(KEY, SHARE_CHECK_MS + 1.0) is pace and pace.is_filling(SHARE_CHECK_MS + 1.0)


ROBOT = "service_account:sa_robot"


def test_a_principal_has_its_own_limit_never_above_its_tenants_and_others_have_that_of_each() -> None:
    store = Store()
    store.topic(record())
    tenant = model.TenantRecord(
        tenant=ACME,
        quotas=model.TenantQuotas(produce_bytes_per_s=1_000),
        principals={
            ROBOT: PrincipalLimits(produce_bytes_per_s=5_000, requests_per_s=2),
            EVERY_ACCOUNT: PrincipalLimits(produce_bytes_per_s=100),
        },
    )
    store.put(model.tenant_key(ACME), tenant.encode())
    assert store.image.tenants[ACME] == tenant
    owners = {"k1": ROBOT, "k2": "service_account:sa_other", "k3": "person:us_1", "k4": ""}
    for key_id, owner in owners.items():
        key = model.KeyRecord(
            key_id=key_id, tenant=ACME, name="k", principal=1, pepper_version=1, secret_hmac="", scram={}, owner=owner
        )  # fmt: skip
        store.put(model.credential_key(key_id), key.encode())
    pacing = Pacing(store.image, BrokerId(1), holder_of(), lambda key: 0)
    found = {key_id: pacing.own_limit(ACME, key_id, PRODUCE_RATE) for key_id in (*owners, "unknown")}
    assert {key_id: limit and pacing.limit(limit) for key_id, limit in found.items()} == {
        "k1": 1_000, "k2": 100, "k3": None, "k4": None, "unknown": None,
    }  # fmt: skip
    assert pacing.limit(LimitKey(ACME, REQUEST_RATE, ROBOT)) == 2 * REQUEST_UNITS
    assert pacing.limit(LimitKey(ACME, REQUEST_RATE, "service_account:sa_other")) == 0
    assert pacing.own_limit(TenantId("other"), "k1", PRODUCE_RATE) is None
    robots = pacing.of(LimitKey(ACME, PRODUCE_RATE, ROBOT), 0.0)
    tenants = pacing.of(KEY, 0.0)
    assert robots is not None and tenants is not None and robots is not tenants
    assert (robots.whose, tenants.whose) == ("principal sa_robot", "the tenant")
    paced(store, 1_000)
    assert pacing.own_limit(ACME, "k1", PRODUCE_RATE) is None
    assert pacing.of(LimitKey(ACME, PRODUCE_RATE, ROBOT), 1.0) is None, "its limit is lifted"
    assert robots.clears_in_ms(2.0) == 0


def test_a_budget_slows_the_principal_that_it_is_of_and_no_other() -> None:
    store = Store()
    spent: dict[str, int] = {}
    budget = Budget(
        budget_id="b1", name="b", period="month", amount=1, unit="bytes", policy="slow", slow_bytes_per_s=100,
        principal=ROBOT,
    )  # fmt: skip
    tenant = model.TenantRecord(
        tenant=ACME, quotas=model.TenantQuotas(produce_bytes_per_s=1_000), budgets=(budget,)
    )
    store.put(model.tenant_key(ACME), tenant.encode())
    for key_id, owner in {"k1": ROBOT, "k2": "service_account:sa_other", "k3": ""}.items():
        key = model.KeyRecord(
            key_id=key_id, tenant=ACME, name="k", principal=1, pepper_version=1, secret_hmac="", scram={}, owner=owner
        )  # fmt: skip
        store.put(model.credential_key(key_id), key.encode())
    pacing = Pacing(store.image, BrokerId(1), holder_of(), lambda key: spent.get(key.principal, 0))
    assert pacing.own_limit(ACME, "k2", PRODUCE_RATE) is None
    assert pacing.own_limit(ACME, "k3", PRODUCE_RATE) is None
    assert pacing.own_limit(ACME, "k1", CONSUME_RATE) is None
    robots = pacing.own_limit(ACME, "k1", PRODUCE_RATE)
    assert robots is not None and pacing.limit(robots) == 0 and pacing.of(robots, 0.0) is None
    spent[ROBOT] = 100
    assert (pacing.limit(robots), pacing.limit(KEY)) == (100, 1_000)
    pace = pacing.of(robots, 1.0)
    assert pace is not None and pace.whose == "principal sa_robot"
    spent[""] = 50
    assert (pacing.limit(robots), pacing.limit(KEY)) == (50, 50), "never above its tenant's"
    spent.clear()
    assert pacing.limit(robots) == 0 and pacing.of(robots, 2.0) is None, "another period"


def test_a_budget_slows_the_topic_that_it_is_of_by_the_partitions_of_that_topic_alone() -> None:
    store = Store()
    store.topic(record(), record(partition=1), record(partition=2, leader=2))
    known = {
        "policy": "slow",
        "slow_bytes_per_s": 300,
        "period": "month",
        "amount": 1,
        "unit": "bytes",
        "name": "b",
    }
    orders = Budget(**known, budget_id="b1", topic="orders")  # type: ignore[arg-type]
    robots = Budget(**known, budget_id="b2", topic="orders", principal=ROBOT, byte_out=1)  # type: ignore[arg-type]
    quotas = model.TenantQuotas(produce_bytes_per_s=10_000)
    tenant = model.TenantRecord(tenant=ACME, quotas=quotas, budgets=(orders, robots))
    store.put(model.tenant_key(ACME), tenant.encode())
    key = model.KeyRecord(
        key_id="k1", tenant=ACME, name="k", principal=1, pepper_version=1, secret_hmac="", scram={}, owner=ROBOT
    )  # fmt: skip
    store.put(model.credential_key("k1"), key.encode())
    spent = {"orders": 0}
    pacing = Pacing(store.image, BrokerId(1), holder_of(), lambda key: spent.get(key.topic, 0))
    of_orders = LimitKey(ACME, PRODUCE_RATE, "", "orders")
    of_robots = LimitKey(ACME, PRODUCE_RATE, ROBOT, "orders")
    assert pacing.topic_limits(ACME, "k1", PRODUCE_RATE, "orders") == [of_orders, of_robots]
    assert pacing.topic_limits(ACME, "k2", PRODUCE_RATE, "orders") == [of_orders]
    assert pacing.topic_limits(ACME, "k1", CONSUME_RATE, "orders") == [
        LimitKey(ACME, CONSUME_RATE, ROBOT, "orders")
    ], "reads are slowed by the budget that counts them"
    assert not pacing.topic_limits(ACME, "k1", PRODUCE_RATE, "clicks")
    assert pacing.own_limit(ACME, "k1", PRODUCE_RATE) is None, "of the topic alone, not of all that it sends"
    assert pacing.of(of_orders, 0.0) is None
    spent["orders"] = 300
    pace = pacing.of(of_robots, 1.0)
    assert pace is not None and (pace.whose, pace.bytes_per_s) == ("topic orders of principal sa_robot", 200)
    assert pacing.safe_share(BrokerId(2), of_orders) == 100, "it leads one of the three"
    assert pacing.limit(KEY) == 10_000, "nothing else is slower"
    assert pacing.safe_share(BrokerId(1), LimitKey(ACME, PRODUCE_RATE, "", "clicks")) == 0
    assert part_led(store.image, BrokerId(1), ACME, "orders") == (2, 3)
    assert part_led(store.image, BrokerId(1), ACME, "clicks") == (0, 0), (
        "another topic's partitions are not counted"
    )


def test_a_principals_and_a_topics_lease_are_not_their_tenants() -> None:
    wishes = {KEY: Wish(holds=1, wants=2), LimitKey(ACME, PRODUCE_RATE, ROBOT): Wish(holds=3, wants=4)}
    wishes[LimitKey(ACME, PRODUCE_RATE, "", "orders")] = Wish(holds=5, wants=6)
    asked = Request(holder=BrokerId(1), registration=2, epoch=3, sequence=4, answered=0, wishes=wishes)
    assert read_request(request_frame(asked)) == asked


def test_paces_of_tenants_that_are_gone_or_idle_for_long_are_forgotten_and_those_in_use_stay() -> None:
    store, _, pacing = by_demand(300_000)
    quotas = model.TenantQuotas(produce_bytes_per_s=1_000)
    many = [TenantId(f"tn_{number}") for number in range(50)]
    for tenant in many:
        store.put(model.tenant_key(tenant), model.TenantRecord(tenant=tenant, quotas=quotas).encode())
        assert pacing.of(LimitKey(tenant, PRODUCE_RATE), 0.0) is not None
    busy = pacing.of(LimitKey(many[0], PRODUCE_RATE), 0.0)
    assert busy is not None
    lifted = model.TenantRecord(tenant=many[1], quotas=model.TenantQuotas(produce_bytes_per_s=0))
    store.put(model.tenant_key(many[1]), lifted.encode())
    now_ms = 0.0
    while now_ms <= FORGET_MS + IDLE_MS:
        busy.enter(200, now_ms)
        pacing.wants(now_ms)
        now_ms += 250
    assert len(pacing) == 49, "nothing begins, so nothing is looked at"
    assert pacing.of(KEY, now_ms + 1) is not None
    assert len(pacing) == 2 and pacing.of(LimitKey(many[0], PRODUCE_RATE), now_ms) is busy
