"""`penstock diff` and `apply` against the real REST."""

from pathlib import Path
from typing import Any

import pytest

from control_plane.access.actions import create_key
from control_plane.topics import actions, queries
from penstock.cli.__main__ import run
from tests.control_plane.world import ACTOR, make_house

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.processes]

FILE = """
service_accounts: [{name: billing}]
principal_groups:
  - {name: outer, members: [{group: inner}]}
  - {name: inner, members: [{service_account: billing}]}
topics:
  - {name: orders, partitions: 4, settings: {retention_ms: 86400000}}
  - {name: clicks, partitions: 2}
access: {default: allow}
acls:
  - {effect: allow, principal: {group: outer}, resource: topic, name: orders, operations: [produce, describe]}
  - {effect: deny, principal: everyone, resource: group, name: secret, pattern: prefix, addresses: [10.0.0.0/8]}
  - {effect: allow, principal: {service_account: billing}, resource: tenant}
"""


def test_what_is_applied_differs_no_more(
    live_server: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    house = make_house("acme")
    actions.create_topic(ACTOR, house.tenant, name="orders", partitions=3, settings={})
    _, text = create_key(ACTOR, house.tenant, name="cli")
    monkeypatch.setenv("PENSTOCK_API_URL", live_server.url)
    monkeypatch.setenv("PENSTOCK_API_KEY", text.reveal())
    monkeypatch.setenv("PENSTOCK_BOOTSTRAP", "127.0.0.1:9")
    file = tmp_path / "team.yaml"
    file.write_text(FILE)
    assert run(["diff", "-f", str(file)]) == 2, capsys.readouterr()
    assert run(["apply", "-f", str(file), "--yes"]) == 0, capsys.readouterr()
    assert run(["diff", "-f", str(file), "--prune"]) == 0, capsys.readouterr()
    topics = {one.name: one for one in queries.topics(house.tenant)}
    assert topics["orders"].partitions == 4 and topics["clicks"].partitions == 2
    file.write_text("service_accounts: []\nprincipal_groups: []\nacls: []\n")
    assert run(["apply", "-f", str(file), "--yes", "--prune"]) == 0, capsys.readouterr()
    assert run(["diff", "-f", str(file), "--prune"]) == 0, capsys.readouterr()
