"""`penstock placement …` against a server that answers: what is sent, what is shown, and what is asked before."""

import json
from typing import Any

import pytest
from click.testing import CliRunner

from penstock.cli.__main__ import cli
from tests.integration.rest.little_server import Answer, Asked, little_server
from tests.integration.rest.test_commands import as_operator

SKEW = {"replicas": 50.0, "log_bytes": 12.5, "leaders": 0.0, "bytes_per_s": 3.0}
PLAN: dict[str, Any] = {
    "id": "plc_1",
    "kind": "move_tenant",
    "state": "draft",
    "broker": None,
    "tenant": "tn_a",
    "cell": "north",
    "automatic": False,
    "move_count": 1,
    "copied_bytes": 2_000_000,
    "copy_s": 3,
    "skew_before": SKEW,
    "skew_after": {**SKEW, "replicas": 0.0},
    "progress": {"waiting": 0, "moving": 1, "done": 0, "cancelled": 0},
    "moves": [
        {
            "topic": "orders",
            "partition": 7,
            "tenant": "tn_a",
            "replicas": [1, 2],
            "target": [3, 2],
            "copied_bytes": 2_000_000,
        }
    ],
}
BALANCER = {
    "mode": "on",
    "bytes_per_s": 1_000,
    "moves_at_once": 5,
    "skew": SKEW,
    "waits": "broker 2 is fenced",
}


def test_a_plan_is_shown_with_its_skew_and_moves_and_how_to_begin_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with little_server(lambda _: Answer(status=201, body=PLAN)) as server:
        as_operator(monkeypatch, server.url)
        ran = CliRunner().invoke(
            cli, ["placement", "plan", "move-tenant", "--tenant", "tn_a", "--cell", "north"]
        )
    assert ran.exit_code == 0, ran.output
    assert server.asked[-1].body == {"kind": "move_tenant", "tenant": "tn_a", "cell": "north"}
    rows = [line.split("\t") for line in ran.output.splitlines()]
    assert ["orders-7", "tn_a", "1, 2", "3, 2", "2,000,000"] in rows
    assert ["replicas", "50.0 %", "0.0 %"] in rows
    assert "To begin: penstock placement confirm plc_1" in ran.output


def test_a_plan_is_confirmed_only_by_one_who_agrees(monkeypatch: pytest.MonkeyPatch) -> None:
    with little_server(lambda _: Answer(body={**PLAN, "state": "running"})) as server:
        as_operator(monkeypatch, server.url)
        unasked = CliRunner().invoke(cli, ["placement", "confirm", "plc_1"])
        assert unasked.exit_code == 2 and "say --yes" in unasked.output
        assert [asked.method for asked in server.asked] == ["GET"]
        ran = CliRunner().invoke(cli, ["placement", "confirm", "plc_1", "--yes"])
        assert ran.exit_code == 0, ran.output
        assert (server.asked[-1].method, server.asked[-1].path) == (
            "POST",
            "/v1/placement/plans/plc_1/confirm",
        )
        cancelled = CliRunner().invoke(cli, ["placement", "cancel", "plc_1"])
    assert "0 of 1 moves were done" in cancelled.output
    assert (server.asked[-1].method, server.asked[-1].path) == ("DELETE", "/v1/placement/plans/plc_1")


def test_the_balancer_is_shown_and_set(monkeypatch: pytest.MonkeyPatch) -> None:
    with little_server(lambda _: Answer(body=BALANCER)) as server:
        as_operator(monkeypatch, server.url)
        shown = CliRunner().invoke(cli, ["placement", "balancer"])
        assert server.asked[-1].method == "GET"
        CliRunner().invoke(cli, ["placement", "balancer", "--mode", "on", "--moves-at-once", "5"])
    assert (server.asked[-1].method, server.asked[-1].body) == ("PATCH", {"mode": "on", "moves_at_once": 5})
    assert "It waits: broker 2 is fenced." in shown.output
    assert "log_bytes 12.5 %" in shown.output


def test_a_cell_that_exists_is_changed_and_another_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    cell = {"name": "north", "brokers": [1, 2], "hosts": [], "tenants": 3}

    def answer(asked: Asked) -> Answer:
        return Answer(body={"items": [cell], "next": None} if asked.method == "GET" else cell)

    with little_server(answer) as server:
        as_operator(monkeypatch, server.url)
        CliRunner().invoke(cli, ["placement", "set-cell", "north", "--broker", "1", "--broker", "2"])
        assert (server.asked[-1].method, server.asked[-1].path) == ("PATCH", "/v1/placement/cells/north")
        made = CliRunner().invoke(cli, ["placement", "set-cell", "south", "--host", "h1"])
        assert made.exit_code == 0, made.output
        assert server.asked[-1].body == {"name": "south", "brokers": [], "hosts": ["h1"]}
        listed = CliRunner().invoke(cli, ["--json", "placement", "cells"])
    assert json.loads(listed.output) == {"cells": [cell]}


def test_loads_and_hot_partitions_are_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    load = {
        "broker": 1, "replicas": 9, "leaders": 3, "log_bytes": 5_000, "bytes_in_per_s": 1_200, "bytes_out_per_s": 7,
        "connections": 4, "disk_used_bytes": 25, "disk_total_bytes": 100,
    }  # fmt: skip
    hot = {
        "topic": "orders", "partition": 2, "tenant": "tn_a", "broker": 1, "bytes_in_per_s": 9_000_000,
        "bytes_out_per_s": 0, "of_broker_percent": 70, "of_tenant_percent": 90,
    }  # fmt: skip

    def answer(asked: Asked) -> Answer:
        if asked.path.startswith("/v1/placement/load"):
            return Answer(body={"skew": SKEW, "brokers": [load]})
        return Answer(body={"items": [hot], "next": None})

    with little_server(answer) as server:
        as_operator(monkeypatch, server.url)
        loads = CliRunner().invoke(cli, ["placement", "load"])
        hots = CliRunner().invoke(cli, ["placement", "hot"])
    assert "1\t9\t3\t5,000\t1,200\t7\t4\t25 %" in loads.output
    assert "orders-2\ttn_a\t1\t9,000,000\t0\t70 %\t90 %" in hots.output


def test_hot_keys_are_a_table_and_json(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = [
        {"key": "customer-4711", "encoding": "utf-8", "size": 13, "cut": False, "share_percent": 60},
        {"key": "/wA=", "encoding": "base64", "size": 400, "cut": True, "share_percent": 20},
    ]
    found = {
        "name": "orders/eu", "topic_id": "00" * 16, "silent_brokers": [3],
        "partitions": [{"partition": 2, "messages": 1_000, "keys": keys}],
    }  # fmt: skip
    with little_server(lambda _: Answer(body=found)) as server:
        as_operator(monkeypatch, server.url)
        shown = CliRunner().invoke(cli, ["topic", "hot-keys", "orders/eu"])
        for_programs = CliRunner().invoke(cli, ["topic", "hot-keys", "orders/eu", "--json"])
        found["partitions"] = []
        none = CliRunner().invoke(cli, ["topic", "hot-keys", "orders/eu"])
    assert server.asked[0].path == "/v1/topics/orders%2Feu/hot-keys"
    assert "2\t60 %\tcustomer-4711\t13\tutf-8" in shown.output
    assert "2\t20 %\t/wA=…\t400\tbase64" in shown.output
    assert json.loads(for_programs.output)["partitions"][0]["keys"] == keys
    assert "No producer has reported a hot key" in none.output + none.stderr
