"""`penstock invoice evidence` writes a whole file for its owner alone, or none."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from penstock.cli.__main__ import cli
from penstock.contract.errors import NotFound
from penstock.rest.client import RestClient
from penstock.verification.anchors import read_anchor
from penstock.verification.commitments import ChainPoint
from tests.integration.rest.little_server import Answer, Asked, LittleServer, little_server

BUNDLE = b"0" * 64 + b" {}\n" + bytes(range(256)) * 8_000
"""Bytes, not text, and more than one read of a connection."""

ENTRY = {
    "sequence": 2, "kind": "invoice", "object_id": "inv_3", "document_sha256": "1" * 64, "at_ms": 5, "hash": "2" * 64,
    "document": None,
}  # fmt: skip


def answered(asked: Asked) -> Answer:
    if asked.path == "/v1/invoices/inv_3/evidence-bundle":
        return Answer(body=BUNDLE)
    if asked.path.startswith("/v1/billing/chain"):
        entries = [{**ENTRY, "sequence": 1, "kind": "prices", "document": {}}, ENTRY]
        return Answer(body={"items": entries, "next_page_token": None})
    problem = {"status": 404, "code": "NOT_FOUND", "title": "not found", "detail": "invoice: does not exist"}
    return Answer(status=404, body=problem, headers={"Content-Type": "application/problem+json"})


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[LittleServer]:
    monkeypatch.setenv("PENSTOCK_PROFILE_FILE", str(tmp_path / "none.toml"))
    monkeypatch.delenv("PENSTOCK_BOOTSTRAP", raising=False)
    with little_server(answered) as server:
        monkeypatch.setenv("PENSTOCK_API_URL", server.url)
        monkeypatch.setenv("PENSTOCK_API_KEY", "penstock_test_" + "x" * 40)
        yield server


def test_the_services_bundle_becomes_a_file_of_its_owner(service: LittleServer, tmp_path: Path) -> None:
    file = tmp_path / "three.evidence"
    ran = CliRunner().invoke(cli, ["invoice", "evidence", "inv_3", str(file)])
    assert ran.exit_code == 0, ran.output
    assert file.read_bytes() == BUNDLE and file.stat().st_mode & 0o777 == 0o600
    assert "2.0 MB" in ran.output and f"verify-invoice --bundle {file}" in ran.output
    again = CliRunner().invoke(cli, ["invoice", "evidence", "inv_3", str(file)])
    assert again.exit_code == 2 and "is there already" in again.output
    forced = CliRunner().invoke(cli, ["invoice", "evidence", "inv_3", str(file), "--force", "--json"])
    told = json.loads(forced.stdout)
    assert (told["bytes"], told["with_log"]) == (len(BUNDLE), False)


def test_the_newest_entry_of_the_chain_is_kept_as_an_anchor(service: LittleServer, tmp_path: Path) -> None:
    file = tmp_path / "october.anchor"
    ran = CliRunner().invoke(cli, ["invoice", "anchor", str(file)])
    assert ran.exit_code == 0 and "entry 2 (invoice inv_3)" in ran.output, ran.output
    assert read_anchor(file.read_bytes(), "october") == ChainPoint(sequence=2, hash="2" * 64)
    assert json.loads(file.read_text()) == {
        name: value for name, value in ENTRY.items() if name != "document"
    }
    again = CliRunner().invoke(cli, ["invoice", "anchor", str(file)])
    assert again.exit_code == 2 and "is there already" in again.output


def test_what_fails_leaves_no_file_and_the_one_before(service: LittleServer, tmp_path: Path) -> None:
    file = tmp_path / "four.evidence"
    file.write_text("before")
    ran = CliRunner().invoke(cli, ["invoice", "evidence", "inv_4", str(file), "--force"])
    assert isinstance(ran.exception, NotFound)
    assert file.read_text() == "before" and list(tmp_path.iterdir()) == [file]


def test_an_answer_that_was_lost_half_way_is_written_again(tmp_path: Path) -> None:
    seen = 0

    def halved(asked: Asked) -> Answer:
        nonlocal seen
        seen += 1
        if seen == 1:
            return Answer(body=BUNDLE[:1_000], headers={"Content-Length": str(len(BUNDLE))}, close=True)
        return Answer(body=BUNDLE)

    with little_server(halved) as server, (tmp_path / "a").open("w+b") as out, RestClient(server.url) as rest:
        assert rest.download("/x", out) == len(BUNDLE)
    assert (tmp_path / "a").read_bytes() == BUNDLE and seen == 2
