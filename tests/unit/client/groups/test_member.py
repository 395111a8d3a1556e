"""A consumer in a group: what it hands out, commits, gives up, and what it does when it is fenced or left alone."""

import pytest

from penstock.client.consuming.fetch_position import FetchPosition
from penstock.client.consuming.fetch_stream import FetchStream
from penstock.client.groups.committed_offsets import fetch_request
from penstock.contract import errors
from penstock.contract.errors import ErrorCode, Throttled
from penstock.contract.frames import FrameKind, unpack_frame
from penstock.contract.v1 import log_pb2
from tests.unit.client.fake_cluster import Refused
from tests.unit.client.groups.members import Member, Service


def filled(messages: int = 40, partitions: int = 4) -> Service:
    service = Service(partitions)
    producer = service.runner.producer()
    for number in range(messages):
        service.runner.send(producer, "orders", b"%d" % number, partition=number % partitions)
    service.runner.run(100)
    return service


def test_alone_it_reads_everything_from_the_beginning() -> None:
    service = filled()
    member = Member(service)
    read = member.poll()
    while len(read) < 40:
        read += member.poll()
    assert member.events == [("assigned", [0, 1, 2, 3])]
    assert {m.partition for m in read} == {0, 1, 2, 3}
    assert service.calls[0] == "beat 0 owns -"


def test_only_what_the_previous_poll_returned_is_committed() -> None:
    service = filled(messages=20, partitions=1)
    member = Member(service)
    first = member.poll(count=5)
    assert [m.offset for m in first] == [0, 1, 2, 3, 4]
    service.run(5_000)
    assert service.committed() == {}, "the application may still be at work on them"
    member.poll(count=5)
    service.run(5_000)
    assert service.committed() == {0: 5}


def test_it_goes_on_where_the_group_has_committed() -> None:
    service = filled(messages=20, partitions=1)
    one = Member(service)
    one.poll(count=7)
    one.close()
    assert service.committed() == {0: 7}
    assert service.calls[-2:] == ["commit 0@7", "beat -1 owns -"]
    assert Member(service).poll(count=1)[0].offset == 7


def test_a_close_in_the_middle_of_processing_does_not_move_past_the_last_poll() -> None:
    service = filled(messages=20, partitions=1)
    member = Member(service)
    member.poll(count=7)
    member.poll(count=7)
    member.close(finished=False)
    assert service.committed() == {0: 7}


def test_what_must_be_given_up_is_no_longer_handed_out_then_committed_then_released() -> None:
    service = filled(messages=40)
    one, two = Member(service), Member(service)
    read = one.poll(count=3)
    two.poll(ms=20)
    service.run(3_000)
    assert one.owned == [0, 1]
    assert service.calls.count("beat 1 owns 0,1,2,3") >= 1, (
        "told, and not released before the application is done"
    )
    assert two.owned == []
    service.calls.clear()
    read += one.poll()
    assert one.events[-1] == ("revoked", [2, 3])
    service.run(50)
    release = next(n for n, told in enumerate(service.calls) if told == "beat 1 owns 0,1")
    commits = [told for told in service.calls[:release] if told.startswith("commit")]
    given_up = {m.partition: m.offset + 1 for m in read if m.partition in (2, 3)}
    assert all(f"{p}@{offset}" in " ".join(commits) for p, offset in given_up.items())
    assert all(m.partition in (0, 1) for m in one.poll())
    two.poll_until(lambda: two.owned == [2, 3], one)
    assert one.events == [("assigned", [0, 1, 2, 3]), ("revoked", [2, 3])]


@pytest.mark.parametrize("interval_ms", [1_000, 3_600_000], ids=["timer", "hook"])
def test_nothing_is_committed_of_what_the_applications_hook_could_not_keep(interval_ms: int) -> None:
    """Neither behind the hook nor before it, while it is due: another member reads it again."""
    service = filled(messages=40)
    one, two = Member(service, auto_commit_interval_ms=interval_ms), Member(service)
    assert one.poll()
    two.poll(ms=20)
    service.run(3_000)

    def fail(places: list[tuple[str, int]]) -> None:
        service.run(2_000)
        raise OSError("the database is away")

    one.on_revoked = fail
    with pytest.raises(OSError, match="away"):
        one.poll()
    assert one.events[-1] == ("revoked", [2, 3])
    service.run(2_000)
    assert set(service.committed()) <= {0, 1}
    one.on_revoked = None
    one.poll_until(lambda: two.owned == [2, 3], two)
    again = two.poll()
    assert {message.partition: message.offset for message in reversed(again)} == {2: 0, 3: 0}


def test_what_the_application_hears_at_a_close_includes_what_it_was_to_give_up() -> None:
    """Its hook is called for all that is committed then."""
    service = filled(messages=40)
    one, two = Member(service), Member(service)
    one.poll()
    two.poll(ms=20)
    service.run(3_000)
    assert one.owned == [0, 1] and one.core.has_news
    assert one.core.given_up_at_close() == [("orders", number) for number in range(4)]
    service.run(10)
    one.poll()
    assert one.core.given_up_at_close() == [("orders", 0), ("orders", 1)], "it has heard of the others"


@pytest.mark.parametrize("nested", [False, True], ids=["hooks", "a poll within a hook"])
def test_a_member_whose_hooks_run_is_not_silent(nested: bool) -> None:
    service = filled(messages=20, partitions=1)
    member = Member(service, max_poll_interval_ms=2_000)
    member.poll(count=5)
    member.core.hooks_begin()
    if nested:
        member.poll(count=5)
    service.run(10_000)
    assert member.owned == [0]
    member.core.poll_ends(service.runner.now)
    service.run(3_000)
    assert member.owned == []


def test_a_close_whose_hook_failed_commits_nothing() -> None:
    service = filled(messages=20, partitions=1)
    member = Member(service, auto_commit_interval_ms=3_600_000)
    member.poll(count=7)
    member.poll(count=7)
    member.close(kept=False)
    assert service.committed() == {} and service.calls[-1].startswith("beat -1")


def test_a_loop_that_takes_message_after_message_stays_a_member_and_commits_what_it_is_done_with() -> None:
    service = filled(messages=20, partitions=1)
    member = Member(service, max_poll_interval_ms=2_000, auto_commit_interval_ms=1_000)
    polled = member.poll(count=8)
    for message in polled:
        service.run(1_500)
        following = {("orders", 0): message.offset + 1} if message is not polled[-1] else {}
        member.core.progressed(service.runner.now, following)
    service.run(1_500)
    assert member.owned == [0] and member.events == [("assigned", [0])]
    assert service.committed() == {0: 8}
    commits = [call for call in service.calls if call.startswith("commit")]
    assert commits[:3] == ["commit 0@1", "commit 0@2", "commit 0@3"]
    service.run(2_000)
    assert member.owned == [], "it stands still"


def test_a_member_that_was_put_out_says_so(caplog: pytest.LogCaptureFixture) -> None:
    service = filled(messages=20, partitions=1)
    member = Member(service, max_poll_interval_ms=5_000)
    member.poll(count=5)
    assert not member.core.has_news
    service.run(7_000)
    (said,) = [record.getMessage() for record in caplog.records if record.name == "penstock"]
    assert "group readers: nothing was polled for 5.0 s" in said and "max_poll_interval_ms" in said
    assert member.core.has_news, "what was lost"


def test_without_automatic_commits_nothing_is_committed_of_what_is_given_up() -> None:
    service = filled(messages=40)
    one, two = Member(service, auto_commit=False), Member(service, auto_commit=False)
    assert one.poll()
    two.poll(ms=20)
    one.poll_until(lambda: len(two.owned) == 2, two)
    assert not [call for call in service.calls if call.startswith("commit")] and service.committed() == {}


def test_the_application_may_commit_while_it_is_told_what_it_loses() -> None:
    service = filled(messages=40)
    one, two = Member(service, auto_commit=False), Member(service, auto_commit=False)
    taken = one.poll()

    def commit(places: list[tuple[str, int]]) -> None:
        request = one.core.commit(None, service.runner.now + 1_000)
        service.run(10)
        assert (request.done, request.error) == (True, None)

    one.on_revoked = commit
    two.poll(ms=20)
    one.poll_until(lambda: len(two.owned) == 2, two)
    assert service.committed() == {m.partition: m.offset + 1 for m in taken}


def test_a_commit_of_ones_own_names_what_is_owned_and_read() -> None:
    service = filled(messages=20, partitions=1)
    member = Member(service, auto_commit=False)
    member.poll(count=4)
    request = member.core.commit({("orders", 0): 3}, service.runner.now + 5_000)
    service.run(10)
    assert (request.done, request.error) == (True, None)
    assert service.committed() == {0: 3}
    with pytest.raises(errors.InvalidRequest, match="orders-7 is not assigned"):
        member.core.commit({("orders", 7): 3}, 0)
    with pytest.raises(errors.InvalidRequest, match="orders-0 offset 999; 0 to 20 can be committed"):
        member.core.commit({("orders", 0): 999}, 0)


def test_a_fenced_member_drops_everything_and_joins_anew() -> None:
    service = filled(messages=40)
    member = Member(service)
    member.poll(count=2)
    service.remove(member)
    service.run(1_500)
    assert member.core.epoch > 0, "it is a member again without a poll"
    assert "beat 0 owns -" in service.calls[2:]
    with pytest.raises(errors.UnknownMember, match="lost its partitions"):
        member.core.commit(None, service.runner.now)
    again = member.poll(ms=1_000)
    assert member.events == [("assigned", [0, 1, 2, 3]), ("lost", [0, 1, 2, 3]), ("assigned", [0, 1, 2, 3])]
    assert service.committed() == {}, "what the lost poll returned was never moved past"
    assert min(m.offset for m in again) == 0


def test_a_coordinator_that_falls_is_hidden() -> None:
    service = filled(messages=40, partitions=1)
    for topic in service.runner.cluster.topics.values():
        topic.partitions[0].leader = 2
    service.runner.cluster.changed()
    member = Member(service)
    member.poll(count=5)
    member.poll(count=5)
    service.fail_over(to=1)
    service.run(8_000)
    assert service.committed() == {0: 5}
    member.poll(count=5)
    service.run(3_000)
    assert service.committed() == {0: 10}
    assert member.events == [("assigned", [0])]


def test_a_lost_answer_is_asked_for_again_and_nothing_moves() -> None:
    service = filled(messages=40)
    one, two = Member(service), Member(service)
    one.poll()
    two.poll(ms=20)
    for _ in range(30):
        service.forget_answers = 1
        one.poll(ms=100)
        two.poll(ms=100)
    service.forget_answers = 0
    one.poll_until(lambda: len(one.owned) == len(two.owned) == 2, two)
    assert all(kind != "lost" for kind, _ in one.events + two.events)


def test_who_does_not_poll_for_too_long_leaves_and_comes_back_with_the_next_poll() -> None:
    service = filled(messages=20, partitions=1)
    member = Member(service, max_poll_interval_ms=5_000)
    member.poll(count=5)
    service.run(4_000)
    assert member.owned == [0]
    service.run(2_000)
    assert service.calls[-1].startswith("beat -1")
    assert member.owned == []
    service.run(5_000)
    assert service.calls[-1].startswith("beat -1"), "it stays away"
    member.poll_until(lambda: member.owned == [0])
    assert member.events == [("assigned", [0]), ("lost", [0]), ("assigned", [0])]


def test_a_static_member_does_not_leave_and_a_newer_holder_ends_it() -> None:
    service = filled(messages=20, partitions=1)
    one = Member(service, instance_id="desk")
    one.poll(count=5)
    two = Member(service, instance_id="desk")
    two.poll_until(lambda: two.owned == [0])
    service.run(2_000)
    for _ in range(2):
        with pytest.raises(errors.FencedInstanceId, match="a newer member holds instance id 'desk'"):
            for _ in range(3):
                one.poll()
    two.close()
    assert not service.calls[-1].startswith("beat -1")


@pytest.mark.parametrize("reset", ["latest", "error"])
def test_a_partition_that_is_new_to_the_group_is_read_from_its_beginning(reset: str) -> None:
    service = filled(messages=8, partitions=2)
    first = Member(service)
    first.poll(count=8)
    first.close()
    topic = service.runner.cluster.topics["orders"]
    written, *_ = topic.partitions[0].log
    topic.partitions.append(type(topic.partitions[0])(leader=0, log=[written], next_offset=4))
    service.runner.cluster.changed()
    member = Member(service, auto_offset_reset=reset)
    read = []
    for _ in range(200):
        read += member.poll(ms=20)
    assert member.owned == [0, 1, 2]
    assert [(m.partition, m.offset) for m in read] == [(2, 0), (2, 1), (2, 2), (2, 3)], (
        "it was written before the group knew of its partition"
    )


def test_a_group_that_has_committed_nothing_yet_begins_where_its_rule_says() -> None:
    service = filled(messages=8, partitions=2)
    member = Member(service, auto_offset_reset="latest")
    read = []
    for _ in range(50):
        read += member.poll(ms=20)
    assert (member.owned, read) == ([0, 1], [])


def test_a_group_that_refuses_for_good_says_so_at_each_poll() -> None:
    service = filled()
    Member(service, assignor="range").poll()
    other = Member(service, assignor="sticky")
    for _ in range(2):
        with pytest.raises(errors.InvalidRequest, match="assigns by range"):
            other.poll()


def test_consumed_bytes_are_told_before_a_partition_is_closed() -> None:
    stream = FetchStream(1, group="readers")
    stream.opened(7, 0.0)
    position = FetchPosition("orders", bytes(16), 0, 5)
    stream.want_open(position)
    kind, head, _ = unpack_frame(stream.next_frame() or b"")
    assert (kind, log_pb2.ConsumeOpenHead.FromString(bytes(head)).group) == (
        FrameKind.CONSUME_OPEN,
        "readers",
    )
    position.credit_owed = 1_234
    stream.want_close(position)
    frames = [unpack_frame(stream.next_frame() or b"") for _ in range(2)]
    assert [kind for kind, _, _ in frames] == [FrameKind.CONSUME_CREDIT, FrameKind.CONSUME_CLOSE]
    (credit,) = log_pb2.ConsumeCreditHead.FromString(bytes(frames[0][1])).credits
    assert (credit.handle, credit.generation, credit.credit_bytes) == (5, position.generation, 1_234)
    assert stream.next_frame() is None


def test_a_position_is_committed_with_its_epoch_and_an_offset_of_ones_own_with_none() -> None:
    service = filled(messages=20, partitions=1)
    member = Member(service, auto_commit=False)
    member.poll(count=4)
    member.poll(count=1)
    member.core.commit(None, service.runner.now + 5_000)
    service.run(10)
    assert (service.committed(), service.epochs) == ({0: 5}, {0: 1})
    member.core.commit({("orders", 0): 3}, service.runner.now + 5_000)
    service.run(10)
    assert (service.committed(), service.epochs) == ({0: 3}, {0: -1})


def test_committed_offsets_are_asked_for_once_for_each_gain() -> None:
    service = filled(messages=40)
    one, two = Member(service), Member(service)
    one.poll_until(lambda: len(one.owned) == 4)
    assert service.fetched == 1
    service.run(20_000)
    one.poll()
    assert service.fetched == 1
    one.poll_until(lambda: len(two.owned) == 2 and len(one.owned) == 2, two)
    assert service.fetched == 2
    two.close()
    one.poll_until(lambda: len(one.owned) == 4)
    assert service.fetched == 3
    one.poll_until(lambda: len(service.committed()) == 4)
    assert all(not member.core._adding for member in (one, two))


def test_a_partition_whose_position_is_not_known_yet_is_not_committed() -> None:
    service = filled(messages=8, partitions=2)
    for broker in service.runner.cluster.brokers:
        if broker != service.coordinator:
            service.runner.down[broker] = None  # it leads partition 1
    member = Member(service, auto_offset_reset="latest", auto_commit=False)
    member.poll_until(lambda: member.owned == [0, 1])
    request = member.core.commit(None, service.runner.now + 1_000)
    service.run(10)
    assert (request.done, request.error) == (True, None)
    assert service.committed() == {0: 4}


@pytest.mark.parametrize("instance_id", [None, "desk"])
def test_a_member_leaves_once_however_often_it_is_closed(instance_id: str | None) -> None:
    service = filled(messages=20, partitions=1)
    member = Member(service, instance_id=instance_id)
    member.poll(count=7)
    for _ in range(2):
        member.core.begin_close(service.runner.now, finished=True, kept=True)
    member.close()
    member.core.begin_close(service.runner.now, finished=True, kept=True)
    service.run(1_000)
    assert member.core.gone
    assert service.calls.count("beat -1 owns -") == (0 if instance_id else 1)
    assert service.calls.count("commit 0@7") == 1


def test_a_member_whose_consumer_waits_no_longer_neither_commits_nor_leaves() -> None:
    service = filled(messages=20, partitions=1)
    member = Member(service)
    member.poll(count=7)
    member.core.abandon()
    told = list(service.calls)
    member.core.begin_close(service.runner.now, finished=True, kept=True)
    service.run(5_000)
    assert member.core.gone and service.calls == told


# -- coordinators that refuse -------------------------------------------------------------------------------


def test_committed_offsets_are_those_of_what_is_owned_and_asked_for_until_they_are_known() -> None:
    service = filled(messages=40)
    member = Member(service, auto_commit=False)
    nothing = member.core.ask_committed(service.runner.now + 1_000)
    assert nothing.done and nothing.offsets == {}, "it owns nothing"
    member.poll()
    member.core.commit({("orders", 1): 3}, service.runner.now + 1_000)
    service.run(50)
    service.refuses["FetchCommitted"] = ErrorCode.NOT_COORDINATOR
    asked = member.core.ask_committed(service.runner.now + 60_000)
    before = len(service.runner.calls)
    service.run(5_000)
    assert not asked.done
    again = [method for _, method in service.runner.calls[before:]].count("FetchCommitted")
    assert 5 <= again <= 15, "the pauses grow"
    service.refuses.clear()
    service.run(2_000)
    assert (asked.done, asked.error, asked.offsets) == (True, None, {("orders", 1): 3})


@pytest.mark.parametrize(
    ("code", "within_ms"), [(ErrorCode.FORBIDDEN, 1_000), (ErrorCode.COORDINATOR_NOT_READY, 4_000)]
)
def test_committed_offsets_that_are_refused_or_not_told_in_time_are_an_error(
    code: ErrorCode, within_ms: int
) -> None:
    service = filled(messages=40)
    member = Member(service, auto_commit=False)
    member.poll()
    service.refuses["FetchCommitted"] = code
    asked = member.core.ask_committed(service.runner.now + 2_000)
    service.run(within_ms)
    assert asked.done and asked.error is not None and asked.error.code is code


@pytest.mark.parametrize(
    ("calls", "code", "searches_min", "searches_max"),
    [
        (("CommitOffsets", "FetchCommitted"), ErrorCode.THROTTLED, 0, 1 / 3),
        (("Heartbeat", "CommitOffsets", "FetchCommitted"), ErrorCode.THROTTLED, 1, 1 / 3),
        (("FetchCommitted",), ErrorCode.NOT_COORDINATOR, 1, 1),
    ],
)
def test_a_coordinator_is_looked_for_again_when_it_refuses_or_throttles_three_calls_in_a_row(
    calls: tuple[str, ...], code: ErrorCode, searches_min: int, searches_max: float
) -> None:
    service = filled(messages=40)
    member = Member(service, auto_commit=False)
    member.poll()
    right = service.runner.cluster.call

    def call(broker: int, method: str, request: bytes) -> bytes:
        if method.rsplit("/", 1)[1] in calls:
            raise Refused(code, "not now")
        return right(broker, method, request)

    service.runner.cluster.call = call  # type: ignore[method-assign]
    member.core.ask_committed(service.runner.now + 20_000)
    member.core.commit({("orders", 1): 3}, service.runner.now + 20_000)
    before = len(service.runner.calls)
    service.run(20_000)
    asked = [method for _, method in service.runner.calls[before:]]
    refused = sum(asked.count(call) for call in calls)
    assert refused > 10, "it is asked again"
    assert searches_min <= asked.count("FindCoordinator") <= searches_max * refused


def test_a_member_whose_calls_are_throttled_stays_in_its_group_by_its_heartbeats() -> None:
    """Brokers take heartbeats of a tenant that is at its limits, and nothing else, searches neither."""
    service = filled(messages=40)
    member = Member(service, auto_commit=False)
    member.poll()
    epoch, right = member.core.epoch, service.runner.cluster.call

    def call(broker: int, method: str, request: bytes) -> bytes:
        if "Groups" in method and "Heartbeat" not in method:
            raise Refused(ErrorCode.THROTTLED, "used all")
        return right(broker, method, request)

    service.runner.cluster.call = call  # type: ignore[method-assign]
    for _ in range(30):
        member.core.ask_committed(service.runner.now + 1_000)
        member.core.commit({("orders", 1): 3}, service.runner.now + 1_000)
        member.poll()
        service.run(1_000)
    assert member.core.epoch == epoch and member.owned == [0, 1, 2, 3]


def test_an_answer_or_a_search_begins_the_count_of_throttled_calls_again() -> None:
    service = filled(messages=40)
    member = Member(service, auto_commit=False)
    member.poll()
    calls = member.core._calls
    throttled = Throttled("used all")

    def searches(times: int) -> int:
        before = len(service.runner.calls)
        for _ in range(times):
            calls.not_answered(throttled)
        calls.ask(
            "fetch", fetch_request("readers", {}), 0.0, lambda answer, now: None, lambda error, now: None
        )
        service.run(50)
        return [method for _, method in service.runner.calls[before:]].count("FindCoordinator")

    assert [searches(2), searches(2), searches(2)] == [0, 0, 0], "each was answered in the end"
    assert searches(3) == 1
    assert [searches(2), searches(3)] == [0, 1]


def test_a_group_that_moved_from_a_coordinator_that_throttles_is_found() -> None:
    service = filled(messages=40)
    member = Member(service, auto_commit=False)
    member.poll()
    throttling, service.coordinator = service.coordinator, 1
    right = service.runner.cluster.call

    def call(broker: int, method: str, request: bytes) -> bytes:
        if broker == throttling and "Groups" in method and "Find" not in method:
            raise Refused(ErrorCode.THROTTLED, "used all")
        return right(broker, method, request)

    service.runner.cluster.call = call  # type: ignore[method-assign]
    asked = member.core.ask_committed(service.runner.now + 10_000)
    service.run(9_000)
    assert asked.done and asked.error is None
    assert member.owned == [0, 1, 2, 3]


def test_a_coordinator_that_is_found_late_is_waited_for_and_said_when_it_takes_too_long() -> None:
    service = filled(messages=40)
    member = Member(service)
    service.refuses["FindCoordinator"] = ErrorCode.COORDINATOR_NOT_READY
    member.poll()
    service.run(20_000)
    member.core.raise_if_unreachable(service.runner.now)
    service.run(30_000)
    with pytest.raises(errors.CoordinatorNotReady):
        member.core.raise_if_unreachable(service.runner.now)
    service.refuses.clear()
    member.poll_until(lambda: len(member.owned) == 4)
    service.refuses["Heartbeat"] = ErrorCode.COORDINATOR_NOT_READY
    service.run(40_000)
    assert member.owned == [0, 1, 2, 3]
    member.core.raise_if_unreachable(service.runner.now)


@pytest.mark.parametrize("call", ["FindCoordinator", "Heartbeat", "FetchCommitted"])
def test_a_member_that_is_refused_for_good_says_so_with_its_next_poll(call: str) -> None:
    service = filled(messages=40)
    member = Member(service)
    service.refuses[call] = ErrorCode.FORBIDDEN
    with pytest.raises(errors.Forbidden):
        for _ in range(50):
            member.poll()
    assert member.owned == []


def joined(service: Service, **settings: object) -> Member:
    member = Member(service, auto_commit=False, **settings)
    member.poll(count=4)
    member.poll(count=1)
    return member


def test_a_commit_that_is_refused_for_now_is_sent_again_until_its_deadline() -> None:
    service = filled(messages=20, partitions=1)
    member = joined(service)
    service.refuses["CommitOffsets"] = ErrorCode.COORDINATOR_NOT_READY
    late = member.core.commit({("orders", 0): 2}, service.runner.now + 3_000)
    behind = member.core.commit({("orders", 0): 4}, service.runner.now + 60_000)
    service.run(2_500)
    assert not late.done and not behind.done
    service.run(1_000)
    assert late.done and isinstance(late.error, errors.CoordinatorNotReady)
    assert not behind.done
    service.refuses.clear()
    service.run(2_000)
    assert (behind.done, behind.error, service.committed()) == (True, None, {0: 4})


@pytest.mark.parametrize(
    "code", [ErrorCode.UNKNOWN_MEMBER, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.FORBIDDEN]
)
def test_a_commit_that_is_refused_for_good_ends_and_one_of_no_member_asks_at_once_what_it_is(
    code: ErrorCode,
) -> None:
    service = filled(messages=20, partitions=1)
    member = joined(service)
    service.refuses["CommitOffsets"] = code
    service.calls.clear()
    commit = member.core.commit(None, service.runner.now + 3_000)
    service.run(10)
    assert commit.done and commit.error is not None and commit.error.code is code
    beats = [call for call in service.calls if call.startswith("beat")]
    assert len(beats) == (0 if code is ErrorCode.FORBIDDEN else 1)


def test_a_close_is_over_in_time_though_no_coordinator_answers() -> None:
    service = filled(messages=20, partitions=1)
    member = joined(service)
    service.refuses |= dict.fromkeys(("CommitOffsets", "Heartbeat"), ErrorCode.COORDINATOR_NOT_READY)
    commit = member.core.commit(None, service.runner.now + 60_000)
    began_ms = service.runner.now
    member.core.begin_close(began_ms, finished=True, kept=True)
    service.run(4_900)
    assert not member.core.gone
    service.run(200)
    assert member.core.gone
    member.core.abandon()
    assert commit.done and isinstance(commit.error, errors.Closed)


def test_a_consumer_that_never_polled_closes_without_a_word() -> None:
    service = filled(messages=20, partitions=1)
    member = Member(service)
    member.core.begin_close(service.runner.now, finished=True, kept=True)
    assert member.core.gone and service.calls == []


def test_a_position_that_went_back_or_on_by_one_message_is_committed_by_itself() -> None:
    service = filled(messages=20, partitions=1)
    member = Member(service)
    for count, kept in ((5, 5), (1, 6)):
        member.poll(count=count)
        member.core.poll_begins(service.runner.now)
        service.run(2_000)
        assert service.committed() == {0: kept}
    member.consumer.seek(member.consumer.position("orders", 0), offset=2)
    member.core.poll_begins(service.runner.now)
    service.run(2_000)
    assert service.committed() == {0: 2}


def test_what_was_consumed_before_the_partitions_were_lost_is_never_committed_after_it() -> None:
    service = filled(messages=20, partitions=1)
    member = Member(service)
    member.poll(count=5)
    member.poll(count=5)
    service.run(2_000)
    assert service.committed() == {0: 5}
    service.remove(member)
    other = Member(service)
    other.poll(count=1, ms=1_000)
    while ("lost", [0]) not in member.events:
        member.poll(count=0)
    assert other.owned == [0]
    other.poll(count=10)
    other.close()
    moved = service.committed()
    assert moved[0] not in (5, 10)
    service.run(5_000)
    assert member.owned == [0], "it is given the partition before the next poll"
    assert service.committed() == moved
