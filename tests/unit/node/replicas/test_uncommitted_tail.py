"""A replica whose log goes on beyond what is committed: which end counts where."""

from types import SimpleNamespace
from typing import Any

import pytest

from data_plane.contract import replication_pb2
from data_plane.node.control.declared_losses import DeclaredLosses
from data_plane.node.control.placement_calls import _progress
from data_plane.node.replicas.catch_up import CatchUp
from data_plane.node.replicas.reading_rights import require_position, right_to_read
from data_plane.node.replicas.retention import _release_files
from data_plane.node.stats import NodeStats
from penstock.contract import errors
from tests.unit.log.miniature import TOPIC
from tests.unit.node.replicas.test_catch_up import RATE, HandMovedClock
from tests.unit.node.replicas.test_follower_stream import FOLLOWER, held_by
from tests.unit.node.replicas.uncommitted import COMMITTED, WRITTEN, led_beyond_commit
from tests.unit.node.serving.test_follower_reads import COMMITTED as KNOWN_COMMITTED
from tests.unit.node.serving.test_follower_reads import END, EPOCH, following

pytestmark = pytest.mark.pure  # stand-ins for what mypyc gives a type


def test_a_log_without_damage_is_whole_up_to_its_written_end() -> None:
    assert led_beyond_commit().sound_end_offset == WRITTEN


def test_a_follower_begins_its_log_within_what_it_knows_to_be_committed() -> None:
    replica, _ = following()
    assert replica.log_start_within(END) == KNOWN_COMMITTED
    assert replica.log_start_within(KNOWN_COMMITTED - 2) == KNOWN_COMMITTED - 2


def test_a_reader_may_wait_where_a_record_is_written_and_not_beyond() -> None:
    replica = led_beyond_commit()
    for offset in (COMMITTED, COMMITTED + 1, WRITTEN):
        replica.check_position(offset, -1)
    with pytest.raises(errors.OffsetOutOfRange, match=f"beyond the log's end {COMMITTED}$"):
        replica.check_position(WRITTEN + 1, -1)


def test_a_reader_may_wait_at_a_follower_where_a_record_is_written() -> None:
    replica, _ = following()
    right = right_to_read(replica, EPOCH, from_follower=True)
    for offset in (KNOWN_COMMITTED, KNOWN_COMMITTED + 1, END):
        require_position(replica, right, offset, -1)


def test_a_follower_lacks_what_is_written_whether_it_is_committed_or_not() -> None:
    replica = led_beyond_commit()
    held_by(FOLLOWER, replica, 10)
    leading, size = replica.leading, replica.log.size_bytes
    assert leading is not None
    lacks = size * 3 // 4
    catch_up = CatchUp(RATE, HandMovedClock(), NodeStats())
    assert catch_up.concerns(replica, leading, FOLLOWER, lacks - 1)
    assert not catch_up.concerns(replica, leading, FOLLOWER, lacks)
    progress = _progress(replica, leading, FOLLOWER)
    assert (progress.offsets_left, progress.bytes_left) == (30, lacks)


@pytest.mark.pure  # the log is a stand-in
@pytest.mark.parametrize(("durable", "committed", "closed"), [(8, 4, True), (4, 4, False)])
def test_files_are_closed_of_what_is_durable_though_it_is_not_committed(
    durable: int, committed: int, closed: bool
) -> None:
    released: list[bool] = []
    log = SimpleNamespace(
        log_end_offset=8, durable_end_offset=durable, high_watermark=committed,
        release_files=lambda: released.append(True),
    )  # fmt: skip
    replica: Any = SimpleNamespace(log=log, busy=False)
    _release_files(replica)
    assert bool(released) == closed


def test_a_broker_tells_where_a_log_is_written_to_when_a_leader_is_looked_for() -> None:
    replica, _ = following()
    replica.accepted(None)
    replica.rest()

    class Registered:
        epoch = 7

    losses = DeclaredLosses(
        None, None, Registered(), None, None, None, NodeStats(),  # type: ignore[arg-type]
        find=lambda where: replica, seated=lambda: False, announce=lambda where, loss: None,
    )  # fmt: skip
    wanted = replication_pb2.ReplicaEndsRequest()
    wanted.partitions.add(topic_id=TOPIC, partition=0)
    (end,) = losses._ends(wanted).ends
    assert (end.log_end_offset, end.sound_end_offset) == (END, END)
