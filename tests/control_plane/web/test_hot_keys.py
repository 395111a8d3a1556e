"""What the page of a topic shows of hot keys, and to whom it is not asked for."""

from types import SimpleNamespace
from typing import Any, cast

import pytest
from django.template.loader import render_to_string

from control_plane.topics.hot_keys import HotKey, HotKeysOfPartition, HotKeysOfTopic
from penstock.contract.errors import BrokerUnavailable
from web import hot_keys
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
    seen = SimpleNamespace(of=lambda *topic: asked.append(topic[1]))
    monkeypatch.setattr(hot_keys, "seen", seen)
    row: Any = SimpleNamespace(name="orders", topic_id="0a")
    topics._hot_keys(access, row)
    assert asked == (["orders"] if shown else [])


def test_who_loses_the_right_to_consume_is_not_shown_what_was_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    may = [True]
    access: Any = SimpleNamespace(
        may=lambda permission: True, tenant=None, person=None, actor=SimpleNamespace(source="")
    )
    monkeypatch.setattr(topics, "person_may", lambda *question: may[0])
    monkeypatch.setattr(hot_keys, "hot_keys", lambda tenant, name: KEYS)
    monkeypatch.setattr(hot_keys, "seen", hot_keys.HotKeysSeen(lambda: 100.0))
    row: Any = SimpleNamespace(name="orders", topic_id="0a")
    assert topics._hot_keys(access, row) is KEYS
    may[0] = False
    assert topics._hot_keys(access, row) is None


def test_brokers_are_asked_once_in_a_while_however_many_pages_are_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now, asked, tenant = [100.0], [], cast(Any, None)

    def ask(tenant: object, name: str) -> HotKeysOfTopic:
        asked.append(name)
        before = KEYS if len(asked) == 2 else None
        assert seen.of(cast(Any, tenant), name, name) is before, "nobody waits beside the one who asks"
        if len(asked) == 2:
            raise BrokerUnavailable("no broker answers")
        return KEYS

    monkeypatch.setattr(hot_keys, "hot_keys", ask)
    monkeypatch.setattr(hot_keys, "KEPT_MAX", 2)
    seen = hot_keys.HotKeysSeen(lambda: now[0])
    for _ in range(3):
        assert seen.of(tenant, "orders", "orders") is KEYS
    now[0] += hot_keys.KEPT_S
    assert seen.of(tenant, "orders", "orders") is None, "what no broker says is not shown"
    assert asked == ["orders", "orders"]
    for name in ("second", "third"):
        assert seen.of(tenant, name, name) is KEYS
    assert seen.of(tenant, "orders", "orders") is KEYS and asked[-2:] == ["third", "orders"], (
        "it was forgotten"
    )
