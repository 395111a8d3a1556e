"""Where a replica's log begins as it comes to lead: what it tells of it, and what it does not (RL108)."""

from dataclasses import replace

import pytest

from data_plane.node.replicas.replica import Replica
from data_plane.replication.opening import NO_EPOCH, Position
from penstock.contract import errors
from penstock.contract.ids import NO_BROKER
from tests.unit.log.batches import made_batch
from tests.unit.log.miniature import Miniature

from .test_follower_stream import FOLLOWER, ME, OTHER, led

END = 80


def elected(*, own_start: int, recorded: int, known: int = END) -> tuple[Miniature, Replica]:
    """A log of END messages, of which it is known that `known` are committed, comes to lead: alone in sync, another
    replica is eligible."""
    broker = Miniature()
    replica = led(broker)
    demanding = replace(replica.topic.settings, replication=3, min_insync_replicas=2)
    replica.topic = replace(replica.topic, settings=demanding)
    for number in range(END // 2):
        broker.append(batch=made_batch(2, 400, fill=number))
    broker.commit(raise_watermark=False)
    assert replica.log.log_end_offset == END
    replica.log.set_high_watermark(known)
    if own_start:
        broker.move_log_start(own_start)
    assert replica.record is not None
    alone = replace(
        replica.record,
        in_sync=(ME,),
        eligible=(OTHER,),
        leader_epoch=2,
        partition_epoch=2,
        log_start=recorded,
    )
    replica.rest()
    replica.lead(alone)
    return broker, replica


def other_opens(replica: Replica, begins: int, handle: int = 1) -> None:
    assert replica.leading is not None
    replica.leading.follower_opened(
        OTHER, 5, 1,
        Position(log_end_offset=END, durable_end_offset=END, last_epoch=NO_EPOCH, log_start_offset=begins),
        0, handle=handle, leader_epoch=2, partition_epoch=replica.leading.record.partition_epoch, registered_epoch=5,
        epoch_lookup=lambda epoch: (epoch, END), stored_from=0,
    )  # fmt: skip


def test_a_new_leader_moves_its_start_to_where_the_record_says_before_it_tells_any() -> None:
    broker, replica = elected(own_start=0, recorded=60, known=10)
    assert replica.log.high_watermark == 60, "what the record says is deleted was committed"
    assert replica.log_start_due == 60
    assert not replica.log_start_known
    for offset in (0, 59):
        with pytest.raises(errors.LeaderNotReady):
            replica.check_position(offset, -1)
    replica.check_position(60, -1)
    broker.move_log_start(replica.log_start_within(0))
    assert replica.log_start_due is None
    assert replica.log_start_known and replica.log.log_start_offset == 60
    with pytest.raises(errors.OffsetOutOfRange):
        replica.check_position(59, -1)


def test_a_new_leader_tells_no_start_that_an_eligible_replica_does_not_hold_to() -> None:
    _, replica = elected(own_start=60, recorded=0)
    with pytest.raises(errors.LeaderNotReady):
        replica.require_log_start()
    with pytest.raises(errors.LeaderNotReady):
        replica.check_position(20, -1)
    replica.check_position(60, -1)
    other_opens(replica, begins=60)
    replica.require_log_start()
    with pytest.raises(errors.OffsetOutOfRange):
        replica.check_position(20, -1)


def test_a_start_that_is_wanted_is_not_told_before_the_own_log_begins_there() -> None:
    broker, replica = elected(own_start=0, recorded=0)
    other_opens(replica, begins=0)
    replica.want_log_start(60)
    assert replica.log_start_target == 60
    assert replica.log_start_due is None, "the other one has not moved"
    assert replica.log_start_known, "what was told still holds"
    other_opens(replica, begins=60, handle=2)
    assert replica.log_start_due == 60
    broker.move_log_start(60)
    assert replica.log_start_known and replica.log_start_due is None


def test_what_the_leader_before_wanted_does_not_move_a_leaders_log_start() -> None:
    _, replica = elected(own_start=20, recorded=0)
    other_opens(replica, begins=20)
    assert replica.log_start_within(60) == 20
    replica.rest()
    assert replica.log_start_within(60) == 60
    assert replica.log_start_within(END + 1) == END


def test_whoever_does_not_lead_tells_no_log_start() -> None:
    _, replica = elected(own_start=0, recorded=0)
    assert replica.record is not None
    replica.follow(replace(replica.record, leader=FOLLOWER, leader_epoch=3, partition_epoch=3))
    assert not replica.log_start_known
    replica.rest()
    assert replica.log_start_due is None
    assert replica.record.leader != NO_BROKER
