"""The group coordinator: joining, moving, fencing, commits and timers, one rule at a time."""

from collections.abc import Callable

import pytest

from data_plane.groups import coordinator, expiry
from data_plane.groups.records import CommittedOffset, Record
from data_plane.groups.requests import Commit, Heartbeat
from penstock.contract import errors, limits
from tests.unit.groups.setup import GROUP, TENANT, Running, partition, topic_id


def test_the_first_member_gets_everything_in_the_first_epoch() -> None:
    group = Running()
    answer = group.beat("a", 0)
    assert (answer.epoch, len(answer.assigned)) == (1, 6)
    assert [topic.name for topic in answer.topics] == ["orders"]


def test_a_partition_goes_to_its_new_owner_only_when_the_old_one_no_longer_reports_it() -> None:
    group = Running()
    everything = group.beat("a", 0).assigned
    waiting = group.beat("b", 0)
    assert waiting.assigned == ()
    told = group.beat("a", 1, everything)
    assert (told.epoch, len(told.assigned)) == (1, 3), "it keeps its epoch while it has to give up"
    assert group.beat("b", waiting.epoch).assigned == (), "told is not given up"
    assert group.beat("a", 1, everything).assigned == told.assigned
    released = group.beat("a", 1, told.assigned)
    assert released.epoch == 2
    gained = group.beat("b", waiting.epoch).assigned
    assert set(gained) == set(everything) - set(told.assigned)


def test_whoever_must_move_is_asked_to_beat_sooner() -> None:
    group = Running()
    everything = group.beat("a", 0)
    assert group.beat("b", 0).heartbeat_ms < everything.heartbeat_ms


def test_a_fenced_member_frees_its_partitions_at_once() -> None:
    group = Running()
    everything = group.beat("a", 0).assigned
    group.beat("b", 0)
    group.beat("a", 1, everything)
    for _ in range(11):
        group.beat("b", 2)
        group.tick(1_000)
    assert [m.member_id for m in group.core.group(TENANT, GROUP).members] == ["b"]
    assert group.beat("b", 2).assigned == everything
    with pytest.raises(errors.UnknownMember, match="no member a"):
        group.beat("a", 1, everything)


def test_a_member_that_never_gives_up_is_fenced_after_its_rebalance_timeout() -> None:
    group = Running()
    everything = group.beat("a", 0, rebalance_timeout_ms=5_000).assigned
    group.beat("b", 0)
    group.beat("a", 1, everything)
    for _ in range(11):
        group.now_ms += 500
        group.beat("a", 1, everything)
        group.beat("b", 2)
        group.tick()
        if len(group.core.group(TENANT, GROUP).members) == 1:
            break
    assert [m.member_id for m in group.core.group(TENANT, GROUP).members] == ["b"]


def test_a_known_member_may_join_again_with_epoch_zero() -> None:
    group = Running()
    group.beat("a", 0)
    again = group.beat("a", 0)
    assert (again.epoch, len(again.assigned)) == (1, 6), "it dropped everything, and nobody else wants it"


def test_a_wrong_epoch_is_fenced() -> None:
    group = Running()
    group.beat("a", 0)
    for epoch in (2, 7):
        with pytest.raises(errors.FencedMemberEpoch, match=f"is in epoch 1, not {epoch}"):
            group.beat("a", epoch)


def test_the_epoch_before_is_accepted_when_the_answer_with_the_new_one_was_lost() -> None:
    group = Running()
    everything = group.beat("a", 0).assigned
    group.beat("b", 0)
    kept = group.beat("a", 1, everything).assigned
    lost = group.beat("a", 1, kept)
    assert lost.epoch == 2
    repeated = group.beat("a", 1, kept)
    assert (repeated.epoch, repeated.assigned) == (2, kept)
    with pytest.raises(errors.FencedMemberEpoch):
        group.beat("a", 1, everything)  # it owns what it gave up: another life


def test_a_leaver_frees_its_partitions_and_is_known_no_more() -> None:
    group = Running()
    group.beat("a", 0)
    group.beat("b", 0)
    group.beat("a", -1)
    assert len(group.beat("b", 2).assigned) == 6
    with pytest.raises(errors.UnknownMember):
        group.beat("a", -1)


def test_a_group_without_members_is_empty_and_keeps_its_offsets() -> None:
    group = Running()
    group.beat("a", 0)
    group.commit("a", 1, {partition("orders", 0): 7})
    group.beat("a", -1)
    view = group.core.group(TENANT, GROUP)
    assert view.state == "empty"
    assert group.offsets() == {partition("orders", 0): 7}


HOUR_MS = 3_600_000


def story_of_an_unused_group(group: Running) -> list[str]:
    """What is left at each step of a life that ends after the retention time of seven days."""
    left: list[str] = []

    def pass_by(hours: int) -> None:
        for _ in range(hours):
            for member in ("a",) if group.core.group(TENANT, GROUP).members else ():
                group.beat(member, 1)
            group.tick(HOUR_MS)
        names = [view.group for view in group.core.groups(TENANT)]
        left.append("group" if names else "nothing")

    group.beat("a", 0, session_timeout_ms=2 * HOUR_MS)
    group.commit("a", 1, {partition("orders", 0): 7})
    pass_by(24 * 8)  # a member that commits nothing
    group.beat("a", -1)
    pass_by(24 * 6)
    group.commit("", -1, {partition("orders", 0): 8})  # by hand
    pass_by(24 * 6)
    group.fail_over(later_ms=23 * HOUR_MS)
    pass_by(0)
    group.now_ms += HOUR_MS
    group.fail_over()  # of an age that only clocks tell
    group.tick(HOUR_MS / 2)
    pass_by(0)
    pass_by(1)
    return left


def test_a_group_is_forgotten_only_when_nobody_used_it_for_the_retention_time() -> None:
    group = Running()
    assert story_of_an_unused_group(group) == ["group"] * 5 + ["nothing"]
    assert group.offsets() == {}
    group.commit("", -1, {partition("orders", 0): 3})
    group.tick(HOUR_MS)
    assert group.offsets() == {partition("orders", 0): 3}


@pytest.mark.parametrize("ignored", ["members", "unused_ms", "known_ms"])
@pytest.mark.pure  # it plants a broken rule, which a compiled module does not take
def test_each_condition_alone_keeps_a_group(ignored: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The story tells each broken rule from the right one."""
    enough = {"members": 0, "unused_ms": float("inf"), "known_ms": float("inf")}

    def broken(**seen: float) -> bool:
        return expiry.is_unused(**{**seen, ignored: enough[ignored]})  # type: ignore[arg-type]

    monkeypatch.setattr(coordinator, "is_unused", broken)
    with pytest.raises((AssertionError, errors.PenstockError)):
        assert story_of_an_unused_group(Running()) == ["group"] * 5 + ["nothing"]


# -- commits --------------------------------------------------------------------------------------------


def test_a_commit_counts_from_the_epoch_its_partition_was_assigned_in() -> None:
    group = Running()
    everything = group.beat("a", 0).assigned
    group.beat("b", 0)
    kept = group.beat("a", 1, everything).assigned
    given_up = sorted(set(everything) - set(kept))
    assert not group.commit("a", 1, {given_up[0]: 5}).refused, "a partition being given up is committed last"
    group.beat("a", 1, kept)
    assert not group.commit("a", 1, {kept[0]: 6}).refused, "the old epoch: the partition did not move since"
    zombie = group.commit("a", 1, {given_up[0]: 4, kept[0]: 7})
    assert list(zombie.refused) == [given_up[0]]
    assert isinstance(zombie.refused[given_up[0]], errors.FencedMemberEpoch)
    assert group.offsets() == {given_up[0]: 5, kept[0]: 7}
    gained = group.beat("b", 2).assigned
    assert list(group.commit("b", 1, {gained[0]: 9}).refused) == [gained[0]], "before it was assigned"
    assert not group.commit("b", 2, {gained[0]: 9}).refused


def test_strangers_and_epochs_to_come_commit_nothing() -> None:
    group = Running()
    group.beat("a", 0)
    with pytest.raises(errors.UnknownMember):
        group.commit("b", 1, {partition("orders", 0): 1})
    with pytest.raises(errors.FencedMemberEpoch):
        group.commit("a", 2, {partition("orders", 0): 1})
    assert group.offsets() == {}


def test_offsets_are_kept_by_hand_only_while_there_are_no_members() -> None:
    group = Running()
    group.commit("", -1, {partition("orders", 0): 3})
    assert group.offsets() == {partition("orders", 0): 3}
    group.beat("a", 0)
    with pytest.raises(errors.GroupNotEmpty):
        group.commit("", -1, {partition("orders", 0): 4})


def test_what_a_tenant_has_committed_is_bounded_over_all_its_groups() -> None:
    most = limits.COMMITTED_BYTES_PER_TENANT_MAX
    running = Running()
    places = [partition("orders", number) for number in range(6)]
    large = CommittedOffset(offset=1, metadata="-" * (most - 6 * 200))
    commit = Commit(tenant=TENANT, group="large", member_id="", epoch=-1, offsets={places[0]: large})
    running.commit_all(running.core.commit(commit).records)
    for number in range(2):
        running.commit("", -1, {places[number]: 1, places[number + 1]: 1}, group=f"g{number}")
    running.commit("", -1, {places[4]: 1}, group="g2")
    with pytest.raises(errors.LimitExceeded, match=f"of {most} bytes here, at most {most} allowed"):
        running.commit("", -1, {places[5]: 1}, group="g3")
    # What is there already may go on, and what is deleted makes room, also for the next coordinator.
    running.commit("", -1, {places[4]: 2}, group="g2")
    running.fail_over()
    with pytest.raises(errors.LimitExceeded):
        running.commit("", -1, {places[5]: 1}, group="g3")
    running.commit_all(running.core.delete(TENANT, "g0").records)
    running.commit("", -1, {places[5]: 1, places[4]: 1}, group="g3")
    with pytest.raises(errors.LimitExceeded):
        running.commit("", -1, {places[5]: 1}, group="g4")
    noted = Commit(
        tenant="tn_b",
        group="g",
        member_id="",
        epoch=-1,
        offsets={places[0]: CommittedOffset(offset=1, metadata="é" * (most // 2 - 99))},
    )
    with pytest.raises(errors.LimitExceeded, match="of 0 bytes"):
        running.core.commit(noted)


def test_a_commit_that_goes_back_is_legal_and_counted() -> None:
    group = Running()
    group.beat("a", 0)
    for offset in (5, 9, 2):
        group.commit("a", 1, {partition("orders", 0): offset})
    assert group.offsets() == {partition("orders", 0): 2}
    assert (group.core.commits, group.core.commits_back) == (3, 1)


def test_a_topic_that_was_deleted_and_made_again_inherits_no_offset() -> None:
    group = Running()
    group.beat("a", 0)
    group.commit("a", 1, {partition("orders", 0): 5})
    group.topics.gone.append(topic_id("orders"))
    del group.topics.counts["orders"]
    group.tick(2_000)
    assert group.offsets() == {}
    assert group.core.group(TENANT, GROUP).topics == ()


def test_a_topic_in_the_bin_is_assigned_to_no_one_and_what_was_committed_in_it_counts_when_it_is_back() -> (
    None
):
    group = Running(orders=1)
    group.beat("a", 0)
    group.commit("a", 1, {partition("orders", 0): 5})
    group.topics.in_bin.append(topic_id("orders"))
    del group.topics.counts["orders"]
    group.tick(2_000)
    assert group.core.group(TENANT, GROUP).topics == ()
    assert group.offsets() == {partition("orders", 0): 5}
    group.topics.in_bin.clear()
    group.topics.counts["orders"] = 1
    group.tick(2_000)
    assert [topic.name for topic in group.core.group(TENANT, GROUP).topics] == ["orders"]
    assert group.offsets() == {partition("orders", 0): 5}


def test_an_unused_group_is_kept_while_a_topic_of_its_offsets_is_in_the_bin_and_as_long_after_it() -> None:
    group = Running(orders=1)
    group.commit("", -1, {partition("orders", 0): 5})
    group.topics.in_bin.append(topic_id("orders"))
    group.tick(2 * expiry.GROUP_RETENTION_MS)
    assert group.offsets() == {partition("orders", 0): 5}
    group.topics.in_bin.clear()
    group.tick(expiry.GROUP_RETENTION_MS - 1)
    assert group.offsets() == {partition("orders", 0): 5}
    group.tick(1_000)
    assert group.core.groups(TENANT) == []


def test_a_reset_and_a_deletion_need_an_empty_group() -> None:
    group = Running()
    group.beat("a", 0)
    moved = Commit(tenant=TENANT, group=GROUP, member_id="", epoch=-1, offsets={})
    acts: tuple[Callable[[], object], ...] = (
        lambda: group.core.delete(TENANT, GROUP),
        lambda: group.core.reset(moved),
    )
    for act in acts:
        with pytest.raises(errors.GroupNotEmpty, match="1 members"):
            act()
    group.commit("a", 1, {partition("orders", 0): 5})
    group.beat("a", -1)
    group.commit_all(group.core.delete(TENANT, GROUP).records)
    assert group.core.groups(TENANT) == []
    with pytest.raises(errors.GroupNotFound, match="readers"):
        group.core.group(TENANT, GROUP)


# -- topics and assignors -------------------------------------------------------------------------------


def test_new_partitions_are_given_out() -> None:
    group = Running(orders=2)
    group.beat("a", 0)
    group.topics.counts["orders"] = 5
    answer = group.beat("a", 1, (partition("orders", 0), partition("orders", 1)))
    assert (answer.epoch, len(answer.assigned)) == (2, 5)


def test_a_broker_that_is_behind_takes_nothing_away() -> None:
    group = Running(orders=4)
    everything = group.beat("a", 0).assigned
    group.topics.counts["orders"] = 2
    assert group.beat("a", 1, everything).assigned == everything
    del group.topics.counts["orders"]
    assert group.beat("a", 1, everything).assigned == everything


def test_members_of_one_group_assign_by_one_rule() -> None:
    group = Running()
    group.beat("a", 0, assignor="range")
    with pytest.raises(errors.InvalidRequest, match="assigns by range, so its members cannot ask for sticky"):
        group.beat("b", 0, assignor="sticky")
    with pytest.raises(errors.InvalidRequest, match="'fair' is not one of range, sticky"):
        group.beat("c", 0, assignor="fair")
    assert group.beat("a", 0, assignor="sticky").epoch == 2, "alone it may choose anew"


def test_the_topics_of_all_members_of_a_group_are_bounded() -> None:
    most = limits.GROUP_SUBSCRIPTIONS_MAX
    group = Running(one=1, two=1)
    group.put_members(GROUP, 1, tuple(f"topic-{number}" for number in range(most - 3)))
    group.beat("a", 0, topics=("one", "two"))
    epoch = group.beat("b", 0, topics=("one",)).epoch
    told = f"its members subscribe to {most + 1} topics, each member's counted, at most {most} allowed"
    with pytest.raises(errors.LimitExceeded, match=told):
        group.beat("c", 0, topics=("one",))
    group.put_members(GROUP, 2, tuple(f"topic-{number}" for number in range(most)))
    assert group.beat("b", epoch).epoch == epoch, "who is in stays in"
    with pytest.raises(errors.LimitExceeded):
        group.beat("c", 0, topics=("one",))
    group.beat("b", -1)


def test_the_members_of_all_groups_of_a_tenant_are_bounded() -> None:
    most = limits.MEMBERS_PER_TENANT_MAX
    group = Running()
    group.put_members("many", most - 2)
    group.beat("a", 0)
    group.beat("b", 0, group="others")
    group.beat("a", 0)
    group.fail_over()
    with pytest.raises(errors.LimitExceeded, match=f"have {most} members here, at most {most} allowed"):
        group.beat("c", 0)
    group.beat("b", -1, group="others")
    group.beat("c", 0)


def test_a_member_more_than_allowed_is_refused() -> None:
    most = limits.GROUP_MEMBERS_MAX
    group = Running()
    group.put_members(GROUP, most - 2)
    group.beat("a", 0)
    group.beat("b", 0)
    with pytest.raises(errors.LimitExceeded, match=f"{most} members, at most {most}"):
        group.beat("c", 0)


# -- static members -------------------------------------------------------------------------------------


def test_a_static_member_that_comes_back_goes_on_without_a_new_group_epoch() -> None:
    group = Running()
    group.beat("a", 0, instance_id="one")
    group.beat("b", 0, instance_id="two")
    group.reconcile("a", "b")
    epoch = group.core.group(TENANT, GROUP).epoch
    before = {m.instance_id: m.target for m in group.core.group(TENANT, GROUP).members}
    back = group.beat("a2", 0, instance_id="one")
    assert back.assigned == before["one"]
    assert group.core.group(TENANT, GROUP).epoch == epoch


def test_the_newest_holder_of_an_instance_id_wins_and_the_older_one_is_fenced_for_ever() -> None:
    group = Running()
    group.beat("a", 0, instance_id="one")
    group.beat("a2", 0, instance_id="one")
    for _ in range(2):
        with pytest.raises(errors.FencedInstanceId, match="a newer member holds instance id 'one'"):
            group.beat("a", 1, instance_id="one")
        with pytest.raises(errors.FencedInstanceId):
            group.beat("a", 0, instance_id="one")
        group.fail_over()
    group.beat("a3", 0, instance_id="one")
    for old in ("a", "a2"):
        with pytest.raises(errors.FencedInstanceId):
            group.beat(old, 0, instance_id="one")


# -- fail-over and clocks -------------------------------------------------------------------------------


def test_a_new_coordinator_knows_what_the_old_one_committed() -> None:
    group = Running()
    group.beat("a", 0)
    group.beat("b", 0)
    group.reconcile("a", "b")
    group.commit("a", 2, {next(iter(group.core.group(TENANT, GROUP).members[0].assigned)): 5})
    before, offsets = group.core.group(TENANT, GROUP), group.offsets()
    group.fail_over()
    assert group.core.group(TENANT, GROUP) == before
    assert group.offsets() == offsets


def test_timers_start_in_full_after_a_fail_over() -> None:
    group = Running()
    group.beat("a", 0)
    group.now_ms += 9_900
    group.fail_over(later_ms=5_000)
    group.tick(900)
    for _ in range(9):
        group.tick(1_000)
    assert len(group.core.group(TENANT, GROUP).members) == 1
    group.tick(200)
    assert group.core.group(TENANT, GROUP).members == ()


def test_a_pause_of_the_coordinators_own_accuses_no_member() -> None:
    group = Running()
    group.beat("a", 0)
    group.tick(100)
    group.tick(60_000)
    assert len(group.core.group(TENANT, GROUP).members) == 1
    for _ in range(10):
        group.tick(1_000)
    assert group.core.group(TENANT, GROUP).members == ()


def test_a_refused_append_changes_nothing() -> None:
    group = Running()
    everything = group.beat("a", 0).assigned
    before = group.core.group(TENANT, GROUP)
    wanted = Heartbeat(
        tenant=TENANT,
        group=GROUP,
        member_id="b",
        epoch=0,
        topics=("orders",),
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
    )
    assert group.core.heartbeat(wanted, group.topics, group.now_ms).records
    assert group.core.group(TENANT, GROUP) == before
    assert group.beat("a", 1, everything).assigned == everything


def test_records_of_a_later_kind_are_skipped() -> None:
    group = Running()
    group.core.apply(Record(b'["share","tn_a","readers",1]', b"{}"), 0.0)
    assert group.core.groups(TENANT) == []


def test_a_groups_name_belongs_to_its_tenant() -> None:
    group = Running()
    group.beat("a", 0)
    assert group.core.groups("tn_b") == []
    assert group.core.offsets("tn_b", GROUP) == {}
    with pytest.raises(errors.GroupNotFound):
        group.core.group("tn_b", GROUP)
