"""The brokers where none run: asked as ever, but not again and again until the time is up."""

from collections.abc import Callable, Sequence

from google.protobuf.message import Message

from daemon.tls import OwnIdentity
from data_plane.contract.admin_client import AdminClient
from data_plane.contract.broker_calls import CALL_S, AnswerT, BrokerCalls

HASTE_S = 0.05
"""Less than the pause before another attempt."""


class _HastyCalls(BrokerCalls):
    def ask(
        self,
        method: str,
        request: Message,
        answer_type: type[AnswerT],
        timeout_s: float,
        call_s: float = CALL_S,
    ) -> AnswerT:
        return super().ask(method, request, answer_type, min(timeout_s, HASTE_S), call_s)

    def change(
        self,
        method: str,
        request: Message,
        answer_type: type[AnswerT],
        timeout_s: float,
        *,
        repeatable: bool,
        call_s: float = CALL_S,
    ) -> AnswerT:
        haste_s = min(timeout_s, HASTE_S)
        return super().change(method, request, answer_type, haste_s, repeatable=repeatable, call_s=call_s)


class HastyClient(AdminClient):
    """For the brokers of the tests' configuration, at whose address nothing listens."""

    def __init__(
        self,
        addresses: Sequence[str],
        identity: OwnIdentity,
        remembered: Callable[[], Sequence[str]] = lambda: (),
    ) -> None:
        super().__init__(addresses, identity, remembered)
        self._calls = _HastyCalls(addresses, identity, remembered)
