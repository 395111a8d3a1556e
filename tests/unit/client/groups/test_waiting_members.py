"""A member of a group and its clock: for what it waits, how long, what it then says, and when its commits are due."""

from __future__ import annotations

import pytest

from penstock.client.groups.member import TROUBLE_MS
from penstock.client.timing import NEVER
from penstock.contract import errors
from penstock.contract.errors import ErrorCode
from penstock.contract.v1 import log_pb2
from tests.unit.client.groups.members import Member
from tests.unit.client.groups.test_member import filled


def test_a_topic_that_the_coordinator_has_not_heard_of_yet_is_waited_for() -> None:
    service = filled(messages=8)
    member = Member(service)
    service.refuses["Heartbeat"] = ErrorCode.NOT_FOUND
    for _ in range(20):
        assert member.poll(ms=100) == []
    tried = [name for _, name in service.runner.calls]
    assert 2 <= tried.count("Heartbeat") <= 20, "again and again, and not all the time"
    assert tried.count("Metadata") >= 2, "other brokers may know more"
    service.refuses.clear()
    member.poll_until(lambda: member.owned == [0, 1, 2, 3])


def test_committed_offsets_that_cannot_be_told_yet_are_asked_for_again_before_anything_is_read() -> None:
    service = filled(messages=8)
    member = Member(service)
    service.refuses["FetchCommitted"] = ErrorCode.COORDINATOR_NOT_READY
    for _ in range(20):
        assert member.poll(ms=100) == []
    assert member.events == [] and member.owned == []
    tried = [name for _, name in service.runner.calls].count("FetchCommitted")
    assert 2 <= tried <= 40
    service.refuses.clear()
    member.poll_until(lambda: member.owned == [0, 1, 2, 3])


def test_a_member_that_is_fenced_when_it_asks_where_to_go_on_hears_at_once_what_it_is() -> None:
    service = filled(messages=8)
    member = Member(service)
    service.refuses["FetchCommitted"] = ErrorCode.FENCED_MEMBER_EPOCH
    for _ in range(10):
        member.poll(ms=100)
    names = [name for _, name in service.runner.calls]
    assert names.count("FetchCommitted") >= 3
    assert service.calls[:2] == ["beat 0 owns -", "beat 1 owns -"], "the coordinator says what it is"
    assert names.count("Heartbeat") >= names.count("FetchCommitted"), "one comes at once after each refusal"
    service.refuses.clear()
    member.poll_until(lambda: member.owned == [0, 1, 2, 3])
    assert member.events == [("assigned", [0, 1, 2, 3])]


def test_what_keeps_a_member_out_is_said_after_half_a_minute_and_never_while_it_owns_something() -> None:
    service = filled(messages=8)
    member = Member(service)
    service.refuses["Heartbeat"] = ErrorCode.COORDINATOR_NOT_READY
    member.poll(ms=10)
    service.run(TROUBLE_MS - 100)
    member.core.raise_if_unreachable(service.runner.now)
    service.run(200)
    with pytest.raises(errors.CoordinatorNotReady):
        member.core.raise_if_unreachable(service.runner.now)
    service.refuses.clear()
    member.poll_until(lambda: member.owned == [0, 1, 2, 3])
    member.core.raise_if_unreachable(service.runner.now)
    service.refuses["Heartbeat"] = ErrorCode.COORDINATOR_NOT_READY
    service.run(2 * TROUBLE_MS)
    member.core.raise_if_unreachable(service.runner.now)


def test_a_member_that_is_given_up_by_its_consumer_at_a_revocation_commits_only_by_its_own_rule() -> None:
    for auto_commit in (True, False):
        service = filled(messages=40)
        first, second = (
            Member(service, auto_commit=auto_commit, auto_commit_interval_ms=600_000) for _ in range(2)
        )
        assert first.poll(count=40)
        second.poll(ms=20)
        first.poll_until(lambda first=first: len(first.owned) == 2, second)  # type: ignore[misc]
        committed = service.committed()
        assert bool(committed) is auto_commit
        assert set(committed) <= {2, 3}, "what is kept waits for its time"


def test_offsets_are_committed_by_themselves_after_each_interval_and_not_before() -> None:
    service = filled(messages=40, partitions=1)
    member = Member(service, auto_commit_interval_ms=5_000)
    member.poll(count=3, ms=10)
    began = service.runner.now
    member.poll(count=3, ms=10)
    service.run(4_800 - (service.runner.now - began))
    assert service.committed() == {}
    service.run(400)
    assert service.committed() == {0: 3}
    member.poll(count=3, ms=10)
    service.run(4_000)
    assert service.committed() == {0: 3}
    service.run(1_200)
    assert service.committed() == {0: 6}


def test_a_member_may_stay_silent_for_as_long_as_its_poll_interval_and_no_longer() -> None:
    service = filled(messages=8)
    member = Member(service, max_poll_interval_ms=20_000)
    member.poll_until(lambda: member.owned == [0, 1, 2, 3])
    service.run(19_900)
    assert member.owned == [0, 1, 2, 3] and member.core.epoch > 0
    service.run(200)
    assert member.owned == [] and service.calls[-1].startswith("beat -1")
    quiet = len(service.calls)
    service.run(20_000)
    assert len(service.calls) == quiet, "until it polls again"
    member.poll_until(lambda: member.owned == [0, 1, 2, 3])
    assert [kind for kind, _ in member.events] == ["assigned", "lost", "assigned"]


def test_a_partition_that_the_metadata_do_not_show_yet_is_adopted_once_they_do() -> None:
    service = filled(messages=8)
    member = Member(service)
    member.poll_until(lambda: member.owned == [0, 1, 2, 3])
    cluster = service.runner.cluster
    shown = cluster.metadata

    def short(names: list[str]) -> bytes:
        answer = log_pb2.MetadataResponse.FromString(shown(names))
        for topic in answer.topics:
            del topic.partitions[4:]
        return answer.SerializeToString()

    cluster.metadata = short  # type: ignore[method-assign]
    cluster.grow("orders", 6)
    for _ in range(20):
        member.poll(ms=500)
        service.run(500)
    assert member.owned == [0, 1, 2, 3]
    cluster.metadata = shown  # type: ignore[method-assign]
    cluster.changed()
    member.poll_until(lambda: member.owned == [0, 1, 2, 3, 4, 5])
    assert member.events == [("assigned", [0, 1, 2, 3]), ("assigned", [4, 5])]


def test_a_member_names_the_next_moment_at_which_the_clock_alone_has_work_for_it() -> None:
    service = filled(messages=8)
    member = Member(service, auto_commit_interval_ms=700, max_poll_interval_ms=50_000)
    assert member.core.next_step_at() == NEVER, "it has not begun"
    member.poll_until(lambda: member.owned == [0, 1, 2, 3])
    for _ in range(20):
        ahead_ms = member.core.next_step_at() - service.runner.now
        assert -1 <= ahead_ms <= 700, "to commit, whatever else is later"
        service.run(350)
    silent = Member(filled(messages=8), auto_commit=False, max_poll_interval_ms=400)
    silent.poll_until(lambda: silent.owned == [0, 1, 2, 3])
    assert silent.core.next_step_at() <= silent.service.runner.now + 400, "to leave, when it does not poll"
    silent.close()
    assert silent.core.next_step_at() == NEVER
