"""A broker's registration over its life: one at a time, kept, lost, and made again, whatever the store answers."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from data_plane.controller.features import at_level
from data_plane.metadata import broker_records
from data_plane.metadata.features import HIGHEST, HOSTS, VersionRecord, version_key
from data_plane.metadata.port import Change, Compare, Delete, OutcomeUnknown, Put, StoreUnavailable, TxnResult
from data_plane.node.config import Timings
from penstock.contract.ids import NO_BROKER
from tests.unit.controller.setup import ORDERS
from tests.unit.node.control.members import PATIENT, SOON_S, Members, led_by
from tests.unit.node.storage import CONFIG

QUICK = Timings(session_ttl_ms=3_000, suspicion_ms=600_000)
TTL_S = QUICK.session_ttl_ms / 1_000
LIVE = broker_records.live_key(1)
FENCED, EXPIRED = "the registration was fenced", "the session expired"


def known(members: Members, number: int = 1) -> broker_records.BrokerRecord:
    (item,) = members.store.snapshot(broker_records.broker_key(number)).items
    return broker_records.BrokerRecord.decode(item.value)


def registrations(members: Members) -> int:
    """How often broker 1 was registered."""
    return sum(
        event.key == LIVE and event.value is not None
        for batch in members.store.history
        for event in batch.events
    )


def late(members: Members) -> None:
    """From now on the watches show nothing for ten seconds and more."""
    faults = members.store.faults
    faults.watch_delayed_chance, faults.watch_delay_ms, faults.latency_ms = 1.0, 1e6, (0.1, 0.2)


# -- beginning ----------------------------------------------------------------------------------------------


def test_a_registration_says_who_the_broker_is_and_where_and_ends_with_its_session() -> None:
    async def story(members: Members) -> None:
        member, config = members[1], members[1].config
        assert known(members) == broker_records.BrokerRecord(
            broker_id=config.broker_id, directory_id="directory-1", client_address="h1:1", internal_address="h1:2",
            peer_address="h1:3", zone=config.zone, host="h1",
        )  # fmt: skip
        (live,) = members.store.snapshot(LIVE).items
        assert live.mod_revision == member.registration.epoch > 0
        record = broker_records.LiveRecord.decode(live.value)
        assert (record.incarnation, record.directory_id) == (member.registration.incarnation, "directory-1")
        (version,) = members.store.snapshot(version_key(1)).items
        said = VersionRecord.decode(version.value)
        assert (said.incarnation, said.level_max) == (record.incarnation, config.supported.highest)
        assert live.session_id == version.session_id == member.registration.session_id != 0
        assert members.store.session_ids == (live.session_id,)

    Members(1).run(story)


def test_what_an_earlier_life_left_registered_is_fenced_first() -> None:
    async def story(members: Members) -> None:
        left = broker_records.LiveRecord(incarnation="before", directory_id="directory-1")
        session_id = members.store.open_session(600_000)
        members.store.apply_txn((), (Put(LIVE, left.encode(), session_id),))
        members.start(1)
        await members.until(members[1].registration.in_force)
        values = [e.value for batch in members.store.history for e in batch.events if e.key == LIVE]
        assert len(values) == 3 and values[0] == left.encode() and values[1] is None
        assert registrations(members) == 2

    Members(1).run(story, start=[])


class Shaky:
    """A store whose transactions that register fail as `failures` says, applied or not; it counts who asks."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.failures: list[Exception] = []
        self.applies = False
        self.asked = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def session(self, ttl_ms: int) -> Any:
        self.asked += 1
        return await self._store.session(ttl_ms)

    async def txn(self, compares: Sequence[Compare], changes: Sequence[Change]) -> TxnResult:
        registers = any(isinstance(change, Put) and change.key == LIVE for change in changes)
        if not registers or not self.failures:
            return await self._store.txn(compares, changes)  # type: ignore[no-any-return]
        if self.applies:
            await self._store.txn(compares, changes)
        raise self.failures.pop()


@pytest.mark.parametrize("applies", [True, False])
def test_a_registration_whose_outcome_was_unknown_is_made_one_time(applies: bool) -> None:
    async def story(members: Members) -> None:
        store: Any = members[1].store
        store.failures, store.applies = [OutcomeUnknown("lost")], applies
        members.start(1)
        await members.until(members[1].registration.in_force)
        await asyncio.sleep(5)
        assert registrations(members) == 1 and members[1].lost == []
        assert members.store.snapshot(LIVE).items[0].mod_revision == members[1].registration.epoch

    Members(1, wrapped=Shaky).run(story, start=[])


def test_a_store_that_stays_away_is_asked_more_and_more_rarely() -> None:
    async def story(members: Members) -> None:
        store: Any = members[1].store
        store.failures = [StoreUnavailable("away")] * 1_000
        members.start(1)
        await asyncio.sleep(1)
        first = 1_000 - len(store.failures)
        assert 4 <= first <= 8
        await asyncio.sleep(20)
        assert 20 <= 1_000 - len(store.failures) - first <= 45
        assert store.asked == 1, "with the session that it has"
        store.failures.clear()
        assert (
            await members.until(members[1].registration.in_force) <= PATIENT.reconnect_ms_max / 1_000 + SOON_S
        )

    Members(1, wrapped=Shaky).run(story, start=[])


def test_a_session_that_ends_before_it_registers_anything_is_replaced() -> None:
    async def story(members: Members) -> None:
        store: Any = members[1].store
        store.failures = [StoreUnavailable("away")] * 1_000
        members.start(1)
        await asyncio.sleep(1)
        (session_id,) = members.store.session_ids
        members.store.expire(session_id)
        store.failures.clear()
        await members.until(members[1].registration.in_force)
        assert members[1].registration.session_id in members.store.session_ids and store.asked == 2

    Members(1, wrapped=Shaky).run(story, start=[])


# -- keeping ------------------------------------------------------------------------------------------------


def test_a_registration_is_kept_for_as_long_as_the_store_answers() -> None:
    async def story(members: Members) -> None:
        for _ in range(100):
            await asyncio.sleep(TTL_S / 10)
            assert members[1].registration.confident() and members[1].registration.silence_ms() <= TTL_S * 400
        assert registrations(members) == 1

    Members(1, timings=QUICK).run(story)


def test_a_store_that_is_away_for_less_than_a_session_costs_no_registration() -> None:
    async def story(members: Members) -> None:
        members.store.cut("h1")
        await asyncio.sleep(TTL_S / 3)
        members.store.faults.timeout_ms = 10.0
        members.store.heal("h1")
        await asyncio.sleep(3 * TTL_S)
        assert registrations(members) == 1 and members[1].registration.confident()

    Members(1, timings=QUICK).run(story)


@pytest.mark.parametrize(
    ("shown", "expired", "reason"),
    [(True, False, FENCED), (True, True, FENCED), (False, False, FENCED), (False, True, EXPIRED)],
    ids=["fenced", "expired", "fenced, shown late", "expired, shown late"],
)
def test_a_registration_that_was_lost_is_noticed_by_the_metadata_or_by_the_session_and_made_again(
    shown: bool, expired: bool, reason: str
) -> None:
    async def story(members: Members) -> None:
        registration = members[1].registration
        epoch, incarnation, session_id = registration.epoch, registration.incarnation, registration.session_id
        if not shown:
            late(members)
        if expired:
            members.store.expire(session_id)
        else:
            members.fence(1)
        took_s = await members.until(lambda: members[1].lost == [reason])
        assert took_s < (SOON_S if shown else TTL_S / 3 + SOON_S)
        if not shown:
            assert registration.epoch == 0 and not registration.in_force() and not registration.confident()
            assert registration.fence() == Compare(LIVE, -1), "a compare that never holds"
            return
        await members.until(registration.in_force)
        assert registration.epoch > epoch and registration.incarnation != incarnation
        assert registration.session_id != session_id and registrations(members) == 2
        assert registration.fence() == Compare(LIVE, registration.epoch)

    Members(1, timings=QUICK).run(story)


def test_what_the_broker_led_is_left_before_it_is_registered_again() -> None:
    async def story(members: Members) -> None:
        members.put_topic(led_by(1, (1,), replicas=(1,), replica_generations=(1,)))
        await asyncio.sleep(SOON_S)
        members.fence(1)
        await members.until(lambda: bool(members[1].lost))
        await members.until(members[1].registration.in_force)
        after = members.store.history[members[1].registration.epoch - 2]
        assert any(event.key.startswith("/partitions/") for event in after.events), "just before"
        await members.until(lambda: members.partition().leader == 1, 2)
        assert members.partition().leader_epoch == 7 and members.partition().in_sync == (1,)

    Members(1).run(story)


@pytest.mark.parametrize("first", [True, False], ids=["at its boot", "when it was registered before"])
def test_what_a_boot_has_lost_counts_until_the_first_registration(first: bool) -> None:
    async def story(members: Members) -> None:
        members.put_topic(led_by(1, (1,), replicas=(1,), replica_generations=(1,)))
        if not first:
            members.start(1)
            await members.until(members[1].registration.in_force)
        members[1].lost_topics = [ORDERS]
        if first:
            members.start(1)
        else:
            members.fence(1)
            await members.until(lambda: bool(members[1].lost))
        await members.until(members[1].registration.in_force)
        await asyncio.sleep(1)
        record = members.partition()
        assert (record.leader, record.last_known) == ((NO_BROKER, (1,)) if first else (1, ()))

    Members(1).run(story, start=[])


def test_a_host_is_named_once_the_feature_level_lets_others_read_it() -> None:
    async def story(members: Members) -> None:
        members.store.apply_txn((), at_level(CONFIG.cluster_id, HOSTS - 1))
        members.start(1)
        await members.until(members[1].registration.in_force)
        await asyncio.sleep(TTL_S)
        assert known(members).host == ""
        revision = members.store.revision
        members.store.apply_txn((), at_level(CONFIG.cluster_id, HIGHEST))
        assert await members.until(lambda: known(members).host == "h1") <= TTL_S / 3 + SOON_S
        await asyncio.sleep(TTL_S)
        assert members.store.revision == revision + 2, "one time"
        assert registrations(members) == 1 and members[1].lost == []

    supported = replace(CONFIG.supported, lowest=HOSTS - 1)
    assert supported.supports(HOSTS - 1)
    Members(1, timings=QUICK, supported=supported).run(story, start=[])


# -- leaving ------------------------------------------------------------------------------------------------


def test_a_broker_that_stops_says_so_and_keeps_its_registration_until_it_ends() -> None:
    async def story(members: Members) -> None:
        epoch, before = members[1].registration.epoch, known(members)
        members.store.cut("h1")
        announcing = asyncio.create_task(members[1].registration.announce_draining())
        await asyncio.sleep(0.5)
        members.store.heal("h1")
        async with asyncio.timeout(5):
            await announcing
        assert known(members) == replace(before, draining=True)
        assert members[1].view.image.brokers[before.broker_id].record.draining, "the image shows it"
        assert members[1].registration.epoch == epoch
        revision = members.store.revision
        await members[1].registration.announce_draining()
        assert members.store.revision == revision, "it is said"
        session_id = members[1].registration.session_id
        await members[1].registration.end()
        assert members[1].lost == ["the broker stops"] and members[1].registration.epoch == 0
        assert session_id not in members.store.session_ids and not members.alive(1)
        await members[1].registration.announce_draining()
        await asyncio.sleep(5)
        assert not members.alive(1) and registrations(members) == 1

    Members(1).run(story)


def test_a_broker_ends_even_when_the_store_is_away() -> None:
    async def story(members: Members) -> None:
        members.store.cut("h1")
        await members[1].registration.end()
        assert members[1].lost == ["the broker stops"]
        members.store.heal("h1")
        await members.until(lambda: not members.alive(1), 2 * TTL_S)
        await asyncio.sleep(TTL_S)
        assert registrations(members) == 1

    Members(1, timings=QUICK).run(story)


def test_a_broker_that_is_to_stop_while_it_registers_does_not_go_on() -> None:
    async def story(members: Members) -> None:
        store: Any = members[1].store
        store.failures = [StoreUnavailable("away")] * 1_000
        members.start(1)
        await asyncio.sleep(1)
        await members[1].registration.end()
        assert members[1].lost == [] and members.store.session_ids == ()
        store.failures.clear()
        await asyncio.sleep(5)
        assert registrations(members) == 0

    Members(1, wrapped=Shaky).run(story, start=[])


def test_a_registration_acts_once_its_own_revision_is_shown() -> None:
    async def story(members: Members) -> None:
        registration = members[1].registration
        shown = list[bool]()

        def watch(process: object) -> None:
            if registration.epoch and members[1].view.image.revision < registration.epoch:
                shown.append(registration.in_force())

        members.loop.on_step = watch
        members.store.faults.watch_delayed_chance, members.store.faults.watch_delay_ms = 1.0, 100.0
        members.store.apply_txn((), (Delete(LIVE),))
        await members.until(lambda: bool(members[1].lost))
        await members.until(registration.in_force)
        assert shown and not any(shown)

    Members(1).run(story)
