"""What the page of a topic shows of hot keys, and to whom it is not asked for."""

from types import SimpleNamespace
from typing import Any

import pytest
from django.template.loader import render_to_string

from control_plane.topics.hot_keys import HotKey, HotKeysOfPartition, HotKeysOfTopic
from penstock.contract.errors import BrokerUnavailable
from web.views import topics

KEYS = HotKeysOfTopic(
    name="orders",
    topic_id="00" * 16,
    silent_brokers=(),
    partitions=(
        HotKeysOfPartition(
            partition=2,
            messages=1_000,
            keys=(
                HotKey(key="<b>customer</b>", encoding="utf-8", size=15, cut=False, share_percent=61),
                HotKey(key="/wA=", encoding="base64", size=1_400, cut=True, share_percent=20),
            ),
        ),
    ),
)


def page(keys: HotKeysOfTopic | None) -> str:
    nothing = SimpleNamespace(stored=0, written=0, leaderless=0, under_replicated=0)
    topic = SimpleNamespace(settings={"min_insync_replicas": 2, "replication": 3}, name="orders")
    context = {"now": nothing, "topic": topic, "rates": SimpleNamespace(now=None), "parts": [], "keys": keys}
    return render_to_string("web/parts/topic_live.html", context)


def test_hot_keys_are_shown_as_text_that_is_escaped_and_marked_where_they_are_none() -> None:
    shown = page(KEYS)
    assert "Hot keys" in shown and "61 %" in shown and "&lt;b&gt;customer&lt;/b&gt;" in shown
    assert "/wA=…" in shown and "base64" in shown and "1,400" in shown
    assert "<b>customer" not in shown
    assert "Hot keys" not in page(None)


@pytest.mark.parametrize(
    ("may", "allowed", "shown"), [(True, True, True), (False, True, False), (True, False, False)]
)
def test_only_for_who_may_read_the_messages_are_brokers_asked(
    monkeypatch: pytest.MonkeyPatch, may: bool, allowed: bool, shown: bool
) -> None:
    access: Any = SimpleNamespace(
        may=lambda permission: may, tenant=None, person=None, actor=SimpleNamespace(source="")
    )
    asked: list[str] = []
    monkeypatch.setattr(topics, "person_may", lambda *question: allowed)

    def hot_keys(tenant: object, name: str) -> object:
        asked.append(name)
        return KEYS

    monkeypatch.setattr(topics, "hot_keys", hot_keys)
    row: Any = SimpleNamespace(name="orders")
    assert (topics._hot_keys(access, row) is KEYS) is shown
    assert asked == (["orders"] if shown else [])


def test_the_page_is_shown_without_them_while_no_broker_says_them(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(tenant: object, name: str) -> HotKeysOfTopic:
        raise BrokerUnavailable("no broker answers")

    access: Any = SimpleNamespace(
        may=lambda permission: True, tenant=None, person=None, actor=SimpleNamespace(source="")
    )
    monkeypatch.setattr(topics, "person_may", lambda *question: True)
    monkeypatch.setattr(topics, "hot_keys", gone)
    row: Any = SimpleNamespace(name="orders")
    assert topics._hot_keys(access, row) is None
