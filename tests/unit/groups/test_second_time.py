"""What happens in a group for the second time: joins of one instance, lives of one member, names that begin alike."""

import pytest

from data_plane.groups import coordinator, expiry
from data_plane.groups.group import Draft, Group
from data_plane.groups.records import (
    GroupKey,
    GroupRecord,
    Member,
    OffsetKey,
    group_record,
    member_record,
    offset_record,
)
from penstock.contract import errors, limits
from tests.unit.groups.setup import GROUP, TENANT, Running, partition

EMPTY = GroupRecord(epoch=0, assignor="range")


def members(group: Running) -> list[str]:
    return [member.member_id for member in group.core.group(TENANT, GROUP).members]


def test_an_instance_that_joins_a_second_time_is_one_member_and_still_fences_whom_it_replaced() -> None:
    group = Running()
    group.beat("a", 0, instance_id="one")
    first = group.beat("a2", 0, instance_id="one")
    again = group.beat("a2", 0, instance_id="one")
    assert members(group) == ["a2"]
    assert again.assigned == first.assigned and len(again.assigned) == 6
    with pytest.raises(errors.FencedInstanceId):
        group.beat("a", 0, instance_id="one")


def test_two_instances_each_replace_their_own_holder() -> None:
    group = Running()
    for member, instance in (("a", "one"), ("b", "two")):
        group.beat(member, 0, instance_id=instance)
    group.reconcile("a", "b")
    before = {m.instance_id: m.target for m in group.core.group(TENANT, GROUP).members}
    for member, instance in (("b2", "two"), ("a2", "one"), ("b3", "two")):
        group.beat(member, 0, instance_id=instance)
    assert {m.instance_id: m.target for m in group.core.group(TENANT, GROUP).members} == before
    assert sorted(members(group)) == ["a2", "b3"]
    for old, instance in (("a", "one"), ("b", "two"), ("b2", "two")):
        with pytest.raises(errors.FencedInstanceId):
            group.beat(old, 1, instance_id=instance)
    with pytest.raises(errors.UnknownMember):
        group.beat("b", 1, instance_id="one")


def test_members_without_an_instance_replace_nobody() -> None:
    group = Running()
    group.beat("a", 0)
    group.beat("b", 0)
    group.beat("b", 0)
    assert sorted(members(group)) == ["a", "b"]


def test_so_many_former_holders_are_remembered_and_one_more_forgets_the_first() -> None:
    group = Running()
    for number in range(coordinator.REPLACED_MAX + 2):
        group.beat(f"m{number}", 0, instance_id="one")
    for number in range(1, coordinator.REPLACED_MAX + 1):
        with pytest.raises(errors.FencedInstanceId):
            group.beat(f"m{number}", 1, instance_id="one")
    with pytest.raises(errors.UnknownMember):
        group.beat("m0", 1, instance_id="one")


def test_a_session_counts_from_the_last_beat_and_to_its_last_millisecond() -> None:
    group = Running()
    group.beat("a", 0, session_timeout_ms=900)
    group.tick(800)
    group.beat("a", 1)
    group.tick(900)
    assert members(group) == ["a"]
    group.tick(1)
    assert members(group) == []


def test_a_member_that_left_and_came_back_has_a_whole_session_again() -> None:
    group = Running()
    group.beat("a", 0, session_timeout_ms=900)
    group.tick(800)
    group.beat("a", -1)
    group.beat("a", 0, session_timeout_ms=900)
    group.tick(900)
    assert members(group) == ["a"]


def test_a_second_move_has_its_own_time_to_give_up() -> None:
    group = Running()
    everything = group.beat("a", 0, rebalance_timeout_ms=1_000).assigned
    group.beat("b", 0, rebalance_timeout_ms=1_000)
    group.beat("a", 1, everything)
    group.tick(900)
    group.reconcile("a", "b")
    held = group.core.group(TENANT, GROUP).members[0]
    group.beat("c", 0, rebalance_timeout_ms=1_000)
    group.beat("a", held.epoch, tuple(sorted(held.assigned)))
    group.tick(900)
    assert sorted(members(group)) == ["a", "b", "c"], "what it gave up before took none of this time"
    group.tick(101)
    assert "a" not in members(group)


def test_groups_whose_names_begin_alike_keep_their_own() -> None:
    group = Running()
    for name, offset in (("read", 1), (GROUP, 2), (f"{GROUP}2", 3)):
        group.commit("", -1, {partition("orders", 0): offset}, group=name)
    group.commit_all(group.core.delete(TENANT, "read").records)
    assert [view.group for view in group.core.groups(TENANT)] == [GROUP, f"{GROUP}2"]
    assert group.offsets() == {partition("orders", 0): 2}
    group.fail_over()
    assert [view.group for view in group.core.groups(TENANT)] == [GROUP, f"{GROUP}2"]


def test_commits_that_go_back_are_counted_each_time_and_none_that_stay() -> None:
    group = Running()
    for offset in (5, 5, 4, 6, 2):
        group.commit("", -1, {partition("orders", 0): offset})
    assert (group.core.commits, group.core.commits_back) == (5, 2)


def test_a_record_that_forgets_what_is_not_known_makes_no_group() -> None:
    group = Running()
    group.commit_all((offset_record(TENANT, GROUP, partition("orders", 0), None),))
    group.commit_all((member_record(TENANT, GROUP, "a", None), group_record(TENANT, GROUP, None)))
    assert group.core.groups(TENANT) == []


def test_a_tenants_groups_are_bounded_and_another_tenants_do_not_count() -> None:
    most = limits.GROUPS_PER_TENANT_MAX
    group = Running()
    for number in range(most):
        group.commit_all((group_record("tn_b", f"group-{number}", EMPTY),))
    for number in range(most - 2):
        group.commit_all((group_record(TENANT, f"group-{number}", EMPTY),))
    for name in ("one", "two"):
        group.beat("a", 0, group=name)
    for _ in range(2):
        with pytest.raises(
            errors.LimitExceeded,
            match=f"groups: the tenant has {most} at this coordinator, at most {most} allowed",
        ):
            group.beat("a", 0, group="three")
        with pytest.raises(
            errors.LimitExceeded,
            match=f"groups: the tenant has {most} at this coordinator, at most {most} allowed",
        ):
            group.commit("", -1, {partition("orders", 0): 1}, group="three")
    group.beat("b", 0, group="two")
    assert [view.group for view in group.core.groups(TENANT)][-2:] == ["one", "two"]
    assert len(group.core.groups(TENANT)) == most


def test_a_second_member_joins_in_its_own_epoch_and_not_in_one_before_it() -> None:
    group = Running()
    group.beat("a", 0)
    assert group.beat("b", 0).epoch == 2
    with pytest.raises(errors.FencedMemberEpoch):
        group.beat("b", 1)


def test_one_change_raises_the_epoch_once() -> None:
    draft = Draft(Group(TENANT, GROUP))
    draft.put(Member(member_id="a", topics=(), session_timeout_ms=1, rebalance_timeout_ms=1))
    draft.compute_target()
    assert draft.record.epoch == 1
    draft.compute_target()
    assert draft.record.epoch == 1


def test_what_is_kept_can_be_read_while_groups_come_and_go() -> None:
    group = Running()
    for name in ("one", "two"):
        group.commit("", -1, {partition("orders", 0): 1}, group=name)
    keys = group.core.keys()
    first = next(keys)
    group.commit_all(group.core.delete(TENANT, "two").records)
    rest = list(keys)
    assert {key.group for key in (first, *rest)} == {"one"}
    assert [type(key) for key in (first, *rest)] == [GroupKey, OffsetKey]
    assert all(group.core.kept(key) is not None for key in rest)


def test_a_static_member_that_comes_back_with_other_topics_gets_those() -> None:
    group = Running(orders=2, invoices=2)
    before = group.beat("a", 0, instance_id="one")
    again = group.beat("a2", 0, instance_id="one", topics=("invoices",))
    assert again.epoch == before.epoch + 1
    assert again.assigned == (partition("invoices", 0), partition("invoices", 1))


@pytest.mark.parametrize(
    ("unused_ms", "known_ms", "forgotten"),
    [(100, 100, True), (99, 100, False), (100, 99, False), (101, 101, True)],
)
def test_a_group_is_forgotten_to_the_millisecond(unused_ms: int, known_ms: int, forgotten: bool) -> None:
    told = expiry.is_unused(members=0, unused_ms=unused_ms, known_ms=known_ms, retention_ms=100)
    assert told is forgotten
    assert not expiry.is_unused(members=1, unused_ms=unused_ms, known_ms=known_ms, retention_ms=100)
