"""`penstock audit verify` over the real REST interface: what was noted of the log is still in it, or it is named."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.db import transaction

from control_plane.access.actions import create_key
from control_plane.audit import actions, queries
from control_plane.audit.models import AuditEntry, AuditHead
from penstock.cli.__main__ import run
from tenants.models import Tenant
from tests.control_plane.billing.world import TESTER, Part, World

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.processes]

PARTS = [Part(first=0, end=1_500, size=2_000_000)]
Command = Callable[..., tuple[int, dict[str, Any], str]]


@pytest.fixture
def acme(transactional_db: None, tmp_path: Path) -> Tenant:
    """A tenant with an issued invoice."""
    world = World(tmp_path / "datasets")
    made = world.tenant("acme")
    world.covered(world.cut(made, PARTS), PARTS)
    world.spark()
    world.bill()
    return made


@pytest.fixture
def verify(
    acme: Tenant,
    live_server: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Command:
    """`penstock audit verify` with a key of the tenant: exit code, JSON, what stands on the error stream."""
    _, text = create_key(TESTER, acme, name="cli")
    monkeypatch.setenv("PENSTOCK_API_URL", live_server.url)
    monkeypatch.setenv("PENSTOCK_API_KEY", text.reveal())
    monkeypatch.setenv("PENSTOCK_BOOTSTRAP", "127.0.0.1:9")
    monkeypatch.setenv("PENSTOCK_PROFILE_FILE", str(tmp_path / "profiles.toml"))

    def call(*options: str) -> tuple[int, dict[str, Any], str]:
        code = run(["audit", "verify", *options, "--json"])
        told = capsys.readouterr()
        return code, json.loads(told.out) if told.out else {}, told.err

    return call


def cut_off(tenant: Tenant, sequence: int) -> None:
    """As somebody with the database would: the entries from `sequence` on are gone, and the head says so."""
    AuditEntry.objects.filter(tenant=tenant.public_id, sequence__gte=sequence).delete()
    last = AuditEntry.objects.get(tenant=tenant.public_id, sequence=sequence - 1)
    AuditHead.objects.filter(tenant=tenant.public_id).update(sequence=last.sequence, hash=last.hash)
    assert queries.first_break(tenant.public_id) is None, "the chain alone does not tell"


def write(tenant: Tenant, action: str) -> None:
    with transaction.atomic():
        actions.record(TESTER, tenant=tenant.public_id, action=action, object_id="x")


def problems(told: dict[str, Any]) -> list[str]:
    return [one["problem"] for one in told["compared"] if one["problem"]]


def test_a_log_that_grew_agrees_with_every_note(verify: Command, acme: Tenant, tmp_path: Path) -> None:
    code, told, _ = verify()
    assert code == 0 and told["agreed"] and [one["noted"] for one in told["compared"]] == ["invoice 1"]
    first = told["head"]
    write(acme, "topic.create")
    code, told, _ = verify("--expect", f"{first['sequence']}:{first['hash']}")
    assert code == 0 and told["head"]["sequence"] == first["sequence"] + 1
    assert {one["sequence"] for one in told["compared"]} >= {first["sequence"]} and len(told["compared"]) == 3
    noted = json.loads((tmp_path / "audit-heads.json").read_text())
    assert noted == {acme.public_id: {"sequence": told["head"]["sequence"], "hash": told["head"]["hash"]}}


def test_entries_that_were_cut_off_are_missed_by_the_machine_that_noted_them(
    verify: Command, acme: Tenant, tmp_path: Path
) -> None:
    write(acme, "member.remove")
    _, told, _ = verify()
    noted = (tmp_path / "audit-heads.json").read_text()
    cut_off(acme, told["head"]["sequence"])
    code, told, _ = verify()
    assert code == 5 and problems(told) == [
        f"ends at entry {told['head']['sequence']}: the newest are missing"
    ]
    write(acme, "topic.create")
    code, told, _ = verify()
    assert code == 5 and problems(told) == ["has another entry there"], "filling up does not help"
    assert (tmp_path / "audit-heads.json").read_text() == noted, "what disagrees is never noted over"


def test_an_invoice_remembers_the_log_and_shows_what_is_missing(verify: Command, acme: Tenant) -> None:
    invoice = acme.invoices.get()
    assert invoice.audit_sequence is not None
    assert queries.hash_at(acme.public_id, invoice.audit_sequence) == invoice.audit_hash
    cut_off(acme, invoice.audit_sequence)
    code, told, _ = verify()
    assert code == 5 and len(problems(told)) == 1


def test_what_is_no_head_and_notes_that_cannot_be_read_are_refused(verify: Command, tmp_path: Path) -> None:
    code, _, told = verify("--expect", "14:abc")
    assert code == 5 and "SEQUENCE:HASH" in told
    (tmp_path / "audit-heads.json").write_text("{damaged")
    code, _, told = verify()
    assert code != 0 and "audit-heads.json" in told
