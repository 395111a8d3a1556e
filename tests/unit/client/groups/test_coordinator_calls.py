"""Calls to a coordinator that throttles: they come back when it says, and heartbeats do not wait for that."""

from __future__ import annotations

from random import Random

from penstock.client.actions import StartCall
from penstock.client.core import ClientCore
from penstock.client.groups.coordinator_calls import CoordinatorCalls
from penstock.contract import methods
from penstock.contract.errors import ErrorCode, PenstockError, Throttled
from penstock.contract.v1 import groups_pb2 as pb

RETRY_AFTER_MS = 2_500


def test_while_the_coordinator_throttles_only_heartbeats_are_sent_and_it_is_not_looked_for_again() -> None:
    core, now = ClientCore(("b0",), Random(1)), 1_000.0
    calls = CoordinatorCalls(core, "readers", Random(1))
    failures: list[PenstockError] = []

    def sent() -> list[StartCall]:
        calls.step(now)
        core.step(now)
        actions, core.actions = core.actions, []
        return [action for action in actions if isinstance(action, StartCall)]

    def failed(error: PenstockError, failed_at: float) -> None:
        failures.append(error)
        calls.not_answered(error, failed_at)

    calls.ask("commit", pb.CommitOffsetsRequest(group="readers"), now, lambda *_: None, failed)
    (find,) = sent()
    coordinator = pb.FindCoordinatorResponse(broker_id=0, address="b0").SerializeToString()
    core.call_answered(find.token, coordinator, now)
    (commit,) = sent()
    assert commit.method == methods.COMMIT_OFFSETS
    core.call_failed(commit.token, ErrorCode.THROTTLED, "processor time is used", now, RETRY_AFTER_MS)
    (failure,) = failures
    assert isinstance(failure, Throttled) and failure.retry_after_ms == RETRY_AFTER_MS

    calls.ask("commit", pb.CommitOffsetsRequest(group="readers"), now, lambda *_: None, failed)
    assert sent() == [] and calls.next_step_at() == now + RETRY_AFTER_MS
    calls.ask("heartbeat", pb.GroupHeartbeatRequest(group="readers"), now, lambda *_: None, failed)
    assert [call.method for call in sent()] == [methods.GROUP_HEARTBEAT]
    now += RETRY_AFTER_MS
    assert [call.method for call in sent()] == [methods.COMMIT_OFFSETS]
