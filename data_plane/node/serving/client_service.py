"""The methods that a node offers on the client listener, each with its handler, in its tenant's turn."""

from dataclasses import dataclass

from data_plane.node.admission.fairness import Fairness, fairly
from data_plane.node.admission.gate import Gate
from data_plane.node.groups.group_calls import GroupCalls, is_beat
from data_plane.node.integrity.commitments import Commitments
from data_plane.node.integrity.proof_reads import ProofReads
from data_plane.node.integrity.scrubber import Scrubber
from data_plane.node.ports import Caller, CallHandler, Service
from data_plane.node.serving.client_calls import ClientCalls
from data_plane.node.serving.client_streams import ClientStreams
from data_plane.node.serving.key_reports import KeyReports
from data_plane.node.serving.record_deletion import RecordDeletion
from data_plane.node.serving.request_turns import RequestTurns
from penstock.contract import methods
from penstock.contract.limits import CALL_WAIT_MS_MAX


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
    key_reports: KeyReports


def client_service(parts: ClientParts, gate: Gate, fairness: Fairness, requests: RequestTurns) -> Service:
    """Each call waits for its turn at its tenant's rate of requests, and then for its tenant's turn."""

    async def turn(method: str, caller: Caller, request: bytes) -> None:
        principal, beat = gate.admit(caller), is_beat(method, request)
        counted = requests.of(principal.tenant, principal.key_id, principal.number)
        if beat:
            counted.beat()
        waited_ms = 0 if beat else await counted.call()
        left_ms = max(0, CALL_WAIT_MS_MAX - waited_ms)
        counted.delayed(await fairness.turn_of_call(principal.tenant, left_ms, beat=beat))

    calls: dict[str, CallHandler] = {
        methods.METADATA: parts.calls.metadata,
        methods.LIST_OFFSETS: parts.calls.list_offsets,
        methods.INIT_PRODUCER: parts.calls.init_producer,
        methods.REPORT_KEYS: parts.key_reports.report_keys,
        methods.READ_STAMPED: parts.proofs.read_stamped,
        methods.READ_SEALS: parts.proofs.read_seals,
        methods.READ_COMMITMENTS: parts.commitments.read,
        methods.DELETE_RECORDS: parts.deletion.delete_records,
        methods.DESCRIBE_DURABILITY: parts.scrubber.describe_durability,
        methods.FIND_COORDINATOR: parts.groups.find_coordinator,
        methods.GROUP_HEARTBEAT: parts.groups.heartbeat,
        methods.COMMIT_OFFSETS: parts.groups.commit_offsets,
        methods.FETCH_COMMITTED: parts.groups.fetch_committed,
        methods.LIST_GROUPS: parts.groups.list_groups,
        methods.DESCRIBE_GROUP: parts.groups.describe_group,
        methods.RESET_OFFSETS: parts.groups.reset_offsets,
        methods.DELETE_GROUP: parts.groups.delete_group,
    }
    return Service(
        streams={methods.PRODUCE: parts.streams.produce, methods.CONSUME: parts.streams.consume},
        calls=fairly(calls, gate, fairness, is_beat),
        watches={methods.WATCH_METADATA: parts.calls.watch_metadata},
        enter=gate.enter,
        turn=turn,
    )
