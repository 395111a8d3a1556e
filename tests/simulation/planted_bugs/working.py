"""Wrong decisions of the node."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from data_plane.broker.disk import RealDisk
from data_plane.disk.port import SyncDirectory
from data_plane.log.outcomes import Slice
from data_plane.log.partition_log import PartitionLog
from data_plane.log.reading import ColdRead
from data_plane.node.log_directory.directory import CLEAN_FILE
from data_plane.node.ports import ConnectionLost
from data_plane.node.replicas.replica import Replica
from data_plane.replication.leader import LeaderState
from penstock.contract import errors
from penstock.contract.errors import ErrorCode
from penstock.contract.v1 import log_pb2 as pb
from tests.simulation import plans
from tests.simulation.bug import PlantedBug
from tests.simulation.checks import Check
from tests.simulation.finders import CrashStates, Seeds
from tests.simulation.planted_bugs.replacements import nothing
from tests.unit.disk import test_disk_contract, test_real_disk
from tests.unit.log import test_bounds
from tests.unit.node import test_tasks
from tests.unit.node.log_directory import test_directory
from tests.unit.node.serving import test_producer_ids


def _as_it_was(right: Any) -> Callable[..., LeaderState]:
    """What was true before an await is believed after it."""
    before: dict[Replica, LeaderState] = {}

    def leadership(replica: Replica, claimed_epoch: int) -> LeaderState:
        if replica.leading is not None:
            before[replica] = replica.leading
        if replica not in before:
            raise errors.NotLeader(f"{replica.name}: it does not lead it")
        return before[replica]

    return leadership


def _to_the_end(right: Any) -> Callable[..., object]:
    async def _read(stream: Any, opened: Any, max_bytes: int) -> Slice | None:
        log: PartitionLog = opened.replica.log
        if opened.offset >= log.log_end_offset:
            return None
        found = log.read(opened.offset, log.log_end_offset, max_bytes)
        if isinstance(found, ColdRead):
            data = await stream._disk.read(found.file, found.position, found.length)
            return log.slice_of(found, data)
        return found

    return _read


def _surely_refused(right: Any) -> Callable[..., None]:
    """What was appended is called refused."""

    def _drop_leadership(replica: Replica) -> None:
        if replica.leading is not None:
            for answer, outcome in replica._answers._pending.take_all():
                outcome.error = ErrorCode.NOT_LEADER
                answer(outcome)
        right(replica)

    return _drop_leadership


def _kept(right: Any) -> Callable[..., Any]:
    """The clean marker stays until the next clean stop."""

    def open_directory(disk: Any, config: Any, rng: Any) -> Any:
        clean = disk.exists(CLEAN_FILE)
        opened = right(disk, config, rng)
        if clean:
            disk.open(CLEAN_FILE, create=True)
            disk.sync_now([SyncDirectory("")])
        return opened

    return open_directory


def _whoever_it_is(right: Any) -> Callable[..., Any]:
    """A directory is everybody's."""

    def open_directory(disk: Any, config: Any, rng: Any) -> Any:
        return right(disk, replace(config, cluster_id="here", broker_id=1), rng)

    return open_directory


def _whatever_came_first(right: Any) -> Callable[..., Any]:
    async def together(*parts: Any) -> None:
        try:
            await right(*parts)
        except Exception as failure:
            raise ConnectionLost("the conversation ended") from failure

    return together


def _always_the_next_epoch(right: Any) -> Callable[..., Any]:
    async def init_producer(calls: Any, caller: Any, request: bytes) -> bytes:
        wanted = pb.InitProducerRequest.FromString(request)
        if wanted.producer_id < 0:
            answer: bytes = await right(calls, caller, request)
            return answer
        response = pb.InitProducerResponse(
            producer_id=wanted.producer_id, producer_epoch=wanted.producer_epoch + 1
        )
        return response.SerializeToString()

    return init_producer


def _as_if_nothing_had_failed(right: Any) -> Callable[..., Any]:
    def take(disk: RealDisk, steps: Any) -> Any:
        disk._failure = ""
        return right(disk, steps)

    return take


def a_failed_sync_ends_all_syncs() -> None:
    with TemporaryDirectory() as folder:
        disk = RealDisk(Path(folder))
        try:
            test_real_disk.test_after_a_failed_sync_nothing_is_ever_said_to_be_durable_again(
                disk, Path(folder)
            )
        finally:
            disk.close()


def one_process_holds_the_directory() -> None:
    with TemporaryDirectory() as folder:
        world = test_disk_contract.LocalWorld(Path(folder))
        test_disk_contract.TestRealDisk().test_one_process_at_a_time_holds_the_directory(world)


BUGS = (
    PlantedBug(
        name="no epoch check after an await",
        rule="RL11",
        target="data_plane.node.replicas.replica:Replica.leadership",
        wrong=_as_it_was,
        finders=(Seeds(plan=plans.deposed_alive, first=1, by=("I1", "I3", "I4", "I10", "I11")),),
    ),
    PlantedBug(
        name="what was appended is called refused",
        rule="RL17",
        target="data_plane.node.replicas.replica:Replica._drop_leadership",
        wrong=_surely_refused,
        finders=(Seeds(plan=plans.unnumbered, first=2, by=("I2",)),),
    ),
    PlantedBug(
        name="consumers read beyond the watermark",
        rule="RL20",
        target="data_plane.node.serving.consume_stream:ConsumeStream._read",
        wrong=_to_the_end,
        finders=(Seeds(plan=plans.left_with_a_tail, first=0, by=("I1", "I3", "I6")),),
    ),
    PlantedBug(
        name="the clean marker stays",
        rule="RL46",
        target="data_plane.node.log_directory.directory:open_directory",
        wrong=_kept,
        finders=(
            Check(test=test_directory.test_what_was_stopped_cleanly_is_known_to_be_so_only_once),
            CrashStates(
                explore=test_directory.test_the_clean_marker_is_gone_for_good_before_anything_is_written
            ),
        ),
    ),
    PlantedBug(
        name="any log directory will do",
        rule="RL54",
        target="data_plane.node.log_directory.directory:open_directory",
        wrong=_whoever_it_is,
        finders=(Check(test=test_directory.test_a_directory_of_another_cluster_or_broker_is_refused),),
    ),
    PlantedBug(
        name="our own fault looks like a lost connection",
        rule="RL140",
        target="data_plane.node.tasks:together",
        wrong=_whatever_came_first,
        finders=(Check(test=test_tasks.test_an_unexpected_error_is_told_before_an_expected_one),),
    ),
    PlantedBug(
        name="a used-up producer id goes on",
        rule="RL67",
        target="data_plane.node.serving.client_calls:ClientCalls.init_producer",
        wrong=_always_the_next_epoch,
        finders=(
            Check(
                test=test_producer_ids.test_a_producer_goes_on_in_the_next_epoch_and_a_used_up_id_is_replaced
            ),
        ),
    ),
    PlantedBug(
        name="a log is appended to while it is truncated",
        rule="RL134",
        target="data_plane.log.appending:Appender._require_appendable",
        wrong=nothing,
        finders=(Check(test=test_bounds.test_nothing_is_appended_between_request_and_cut),),
    ),
    PlantedBug(
        name="synced again after a sync failed",
        rule="RL126",
        target="data_plane.broker.disk:RealDisk._take",
        wrong=_as_if_nothing_had_failed,
        finders=(Check(test=a_failed_sync_ends_all_syncs),),
    ),
    PlantedBug(
        name="two brokers in one log directory",
        rule="RL119",
        target="data_plane.broker.disk:RealDisk.lock",
        wrong=nothing,
        finders=(Check(test=one_process_holds_the_directory),),
    ),
)
