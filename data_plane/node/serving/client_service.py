"""What a node offers on the client listener: each method with its handler, in its tenant's turn."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from data_plane.node.admission.fairness import Fairness, fairly
from data_plane.node.admission.gate import Gate
from data_plane.node.groups.group_calls import GroupCalls, is_beat
from data_plane.node.integrity.commitments import Commitments
from data_plane.node.integrity.proof_reads import ProofReads
from data_plane.node.integrity.scrubber import Scrubber
from data_plane.node.ports import Caller, CallHandler, Connection, Service
from data_plane.node.serving.client_calls import ClientCalls
from data_plane.node.serving.client_streams import ClientStreams
from data_plane.node.serving.record_deletion import RecordDeletion
from penstock.contract import methods


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientParts:
    """Who handles what clients ask."""

    streams: ClientStreams
    calls: ClientCalls
    groups: GroupCalls
    proofs: ProofReads
    commitments: Commitments
    deletion: RecordDeletion
    scrubber: Scrubber


def client_service(parts: Callable[[], ClientParts], gate: Gate, fairness: Fairness) -> Service:
    """`parts` are asked for with each call: there are none before the log directory is recovered."""

    def by(handler: Callable[[ClientParts], CallHandler]) -> CallHandler:
        return lambda caller, request: handler(parts())(caller, request)

    async def produce(caller: Caller, connection: Connection) -> None:
        await parts().streams.produce(caller, connection)

    async def consume(caller: Caller, connection: Connection) -> None:
        await parts().streams.consume(caller, connection)

    async def watch_metadata(
        caller: Caller, request: bytes, push: Callable[[bytes], Awaitable[None]]
    ) -> None:
        await parts().calls.watch_metadata(caller, request, push)

    async def turn(method: str, caller: Caller, request: bytes) -> None:
        await fairness.turn_of_question(gate.admit(caller).tenant, beat=is_beat(method, request))

    calls = {
        methods.METADATA: by(lambda of: of.calls.metadata),
        methods.LIST_OFFSETS: by(lambda of: of.calls.list_offsets),
        methods.INIT_PRODUCER: by(lambda of: of.calls.init_producer),
        methods.READ_STAMPED: by(lambda of: of.proofs.read_stamped),
        methods.READ_SEALS: by(lambda of: of.proofs.read_seals),
        methods.READ_COMMITMENTS: by(lambda of: of.commitments.read),
        methods.DELETE_RECORDS: by(lambda of: of.deletion.delete_records),
        methods.DESCRIBE_DURABILITY: by(lambda of: of.scrubber.describe_durability),
        methods.FIND_COORDINATOR: by(lambda of: of.groups.find_coordinator),
        methods.GROUP_HEARTBEAT: by(lambda of: of.groups.heartbeat),
        methods.COMMIT_OFFSETS: by(lambda of: of.groups.commit_offsets),
        methods.FETCH_COMMITTED: by(lambda of: of.groups.fetch_committed),
        methods.LIST_GROUPS: by(lambda of: of.groups.list_groups),
        methods.DESCRIBE_GROUP: by(lambda of: of.groups.describe_group),
        methods.RESET_OFFSETS: by(lambda of: of.groups.reset_offsets),
        methods.DELETE_GROUP: by(lambda of: of.groups.delete_group),
    }
    return Service(
        streams={methods.PRODUCE: produce, methods.CONSUME: consume},
        calls=fairly(calls, gate, fairness, is_beat),
        watches={methods.WATCH_METADATA: watch_metadata},
        enter=gate.enter,
        turn=turn,
    )
