"""`penstock dev bill` waits for the invoice, whatever happens to the service meanwhile."""

from collections.abc import Callable
from typing import Any, cast

import pytest

from local import bill
from penstock.contract.errors import BrokerUnavailable, NotFound, PenstockError, TimedOut
from penstock.rest.client import RestClient


class Answers:
    """Gives one after the other, the last one for good."""

    def __init__(self, *answers: str | PenstockError) -> None:
        self.left = list(answers)

    def get(self, path: str) -> dict[str, Any]:
        assert path == "/v1/invoices/inv_1"
        answer = self.left.pop(0) if len(self.left) > 1 else self.left[0]
        if isinstance(answer, PenstockError):
            raise answer
        return {"status": answer}


@pytest.fixture
def issued(monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, Any]]:
    monkeypatch.setattr(bill, "_POLL_S", 0)
    return lambda *answers, timeout_s=60.0: bill._issued(
        cast(RestClient, Answers(*answers)), "inv_1", timeout_s
    )


def test_a_control_plane_that_is_started_again_is_waited_for(issued: Callable[..., dict[str, Any]]) -> None:
    assert issued("draft", BrokerUnavailable("away"), "draft", "issued") == {"status": "issued"}


def test_it_ends_with_the_time_and_with_what_no_wait_repairs(issued: Callable[..., dict[str, Any]]) -> None:
    with pytest.raises(TimedOut, match="inv_1: still a draft after -1 s"):
        issued("draft", timeout_s=-1)
    with pytest.raises(BrokerUnavailable):
        issued(BrokerUnavailable("away"), timeout_s=-1)
    with pytest.raises(NotFound):
        issued(NotFound("invoice"))
