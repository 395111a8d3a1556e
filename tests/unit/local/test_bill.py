"""`penstock dev bill` waits for the invoice, whatever happens to the service meanwhile."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from daemon.data_set_store import FolderStore
from local import bill
from local.wake_ups import WakeUps
from penstock.contract.errors import BrokerUnavailable, InvalidRequest, NotFound, PenstockError, TimedOut
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


def test_who_may_not_wake_the_pipeline_is_told(tmp_path: Path) -> None:
    (tmp_path / "datasets").touch()
    with pytest.raises(InvalidRequest, match=r"datasets.*; run this as who started the service"):
        bill._issued(cast(RestClient, Answers("draft")), "inv_1", 1.0, WakeUps(tmp_path / "datasets"))


@pytest.fixture
def issued(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., dict[str, Any]]:
    monkeypatch.setattr(bill, "_POLL_S", 0)
    return lambda *answers, timeout_s=60.0: bill._issued(
        cast(RestClient, Answers(*answers)), "inv_1", timeout_s, WakeUps(tmp_path / "datasets")
    )


def test_a_control_plane_that_is_started_again_is_waited_for(issued: Callable[..., dict[str, Any]]) -> None:
    assert issued("draft", BrokerUnavailable("away"), "draft", "issued") == {"status": "issued"}


def test_the_pipeline_is_woken_at_once_and_later_each_time(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    now, sent = 100.0, list[float]()
    monkeypatch.setattr(time, "monotonic", lambda: now)
    monkeypatch.setattr(FolderStore, "wake", lambda store: sent.append(now))
    looks = WakeUps(tmp_path)
    while now <= 160:
        looks.look()
        now += 0.5
    assert sent == [100, 105, 115, 135, 155]


def test_it_ends_with_the_time_and_with_what_no_wait_repairs(issued: Callable[..., dict[str, Any]]) -> None:
    with pytest.raises(TimedOut, match="inv_1: still a draft after -1 s"):
        issued("draft", timeout_s=-1)
    with pytest.raises(BrokerUnavailable):
        issued(BrokerUnavailable("away"), timeout_s=-1)
    with pytest.raises(NotFound):
        issued(NotFound("invoice"))
