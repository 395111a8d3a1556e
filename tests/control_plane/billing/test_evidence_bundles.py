"""The bundle that the service makes of an invoice proves it without the service; nobody else's is made."""

import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from rest_framework.test import APIClient

from billing import evidence_bundles, period_actions
from billing.models import Cut, Invoice, Seal
from control_plane.brokers import client as broker_client
from control_plane.brokers import view
from control_plane.rest.billing import bundle_answer
from penstock.contract.errors import BrokerUnavailable
from penstock.contract.ids import SYSTEM_TENANT, TopicId, TopicPartition
from penstock.rules.timestamps import time_ms
from penstock.verification import bundle_file
from penstock.verification.bundle_reads import Bundle
from penstock.verification.commitments import KeptLoss
from penstock.verification.findings import Kind, Report, Verdict
from penstock.verification.proving import prove
from tenants.actions import create_operator
from tenants.models import Tenant
from tests.control_plane.billing.world import TESTER, Part, World, vector_of
from tests.waiting import PATIENCE_S

PART = Part(first=0, end=2_000, size=1_000_000)


@pytest.fixture
def losses(monkeypatch: pytest.MonkeyPatch) -> list[view.LossSeen]:
    """What the brokers declared."""
    declared: list[view.LossSeen] = []
    seen = view.ClusterView(cluster_id="c", controller=1, revision=1, brokers=())
    monkeypatch.setattr(broker_client, "describe", lambda **_: replace(seen, losses=tuple(declared)))
    return declared


def issued(world: World, tenant: Tenant, part: Part, *before: Part) -> Invoice:
    """The invoice of a period that ends now, of one part; `before`: those of earlier periods."""
    now = datetime.now(UTC)
    cut = period_actions.close_period(TESTER, tenant.public_id, end=now)
    world.answer(cut, [replace(one, accepted_ms=time_ms(now) - 1) for one in vector_of([*before, part])])
    cut.refresh_from_db()
    world.covered(cut, [part])
    world.spark()
    world.bill()
    return world.invoice(cut)


@pytest.fixture
def download() -> Callable[[Tenant, str], Any]:
    token = create_operator(TESTER, name="op", tenant=SYSTEM_TENANT)

    def ask(tenant: Tenant, invoice: str) -> Any:
        client = APIClient(raise_request_exception=False)
        client.credentials(HTTP_AUTHORIZATION=f"Bearer {token}", HTTP_PENSTOCK_TENANT=tenant.public_id)
        return client.get(f"/v1/invoices/{invoice}/evidence-bundle")

    return ask


def proven(answer: Any, file: Path, invoice: Invoice) -> Report:
    assert answer.status_code == 200, answer.content
    assert answer["Content-Disposition"] == f'attachment; filename="invoice-{invoice.number}.evidence"'
    file.write_bytes(b"".join(answer.streaming_content))
    assert answer["Content-Length"] == str(file.stat().st_size)
    bundle = Bundle(file)
    return prove(invoice.public_id, bundle, bundle)


def test_the_services_bundle_proves_its_invoices_without_the_service(
    world: World, tmp_path: Path, download: Callable[[Tenant, str], Any], losses: list[view.LossSeen]
) -> None:
    tenant, other = world.tenant("acme"), world.tenant("other")
    first = issued(world, tenant, PART)
    second = issued(world, tenant, replace(PART, first=2_000, end=2_500), PART)
    for invoice in (first, second):
        report = proven(download(tenant, invoice.public_id), tmp_path / "a.evidence", invoice)
        assert report.verdict is Verdict.PROVEN, report.problems
        assert report.billed_total_micro == report.due_total_micro == invoice.total_micro
        assert [(one.by_cuts, one.by_seals) for one in report.partitions] == [
            ((0, 2_000) if invoice == first else (2_000, 2_500), None)
        ]
    assert download(other, first.public_id).status_code == 404
    assert download(tenant, "inv_none").status_code == 404
    # What brokers lost since and nobody credited is found in the bundle as it is online.
    where = {"tenant": tenant.public_id, "topic": "orders", "topic_id": PART.topic_id, "partition": 0}
    losses.append(
        view.LossSeen(
            **where,  # type: ignore[arg-type]
            kind="elected",
            log_generation=1,
            leader=1,
            leader_epoch=1,
            offset=1_500,
            known_end_offset=2_000,
            asked_by="",
            declared_ms=1,
        )
    )
    report = proven(download(tenant, first.public_id), tmp_path / "a.evidence", first)
    assert report.verdict is not Verdict.PROVEN
    assert {one.kind for one in report.problems} <= {Kind.UNPROVEN, Kind.CREDIT_DIFFERS, Kind.CREDIT_DUE}


def test_a_draft_and_silent_brokers_give_no_bundle(
    world: World, download: Callable[[Tenant, str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def silent(**_: object) -> view.ClusterView:
        raise BrokerUnavailable("no broker answers")

    monkeypatch.setattr(broker_client, "describe", silent)
    tenant = world.tenant("acme")
    invoice = issued(world, tenant, PART)
    assert download(tenant, invoice.public_id).status_code == 503
    draft = world.invoice(world.cut(tenant, [PART]))
    refused = download(tenant, draft.public_id)
    assert refused.status_code == 400 and "is a draft" in refused.json()["detail"]


@pytest.mark.django_db(transaction=True)
def test_a_bundle_shows_one_moment(
    world: World, losses: list[view.LossSeen], monkeypatch: pytest.MonkeyPatch
) -> None:
    invoice = issued(world, world.tenant("acme"), PART)
    seen: list[int] = []

    def meanwhile() -> None:
        world.tenant("other")
        connection.close()

    def write(*_: object, **__: object) -> None:
        seen.append(Tenant.objects.count())
        changing = threading.Thread(target=meanwhile)
        changing.start()
        changing.join(PATIENCE_S)
        seen.append(Tenant.objects.count())

    monkeypatch.setattr(evidence_bundles, "write_bundle", write)
    bundle_answer(invoice).close()
    assert seen[0] == seen[1] == Tenant.objects.count() - 1


def test_seals_and_cuts_are_the_invoices_own_and_none_that_a_loss_took(world: World, tmp_path: Path) -> None:
    tenant, other = world.tenant("acme"), world.tenant("other")
    issued(world, tenant, PART)
    invoice = issued(world, tenant, replace(PART, first=2_000, end=2_500), PART)
    issued(world, other, PART)
    for cut in Cut.objects.filter(tenant=other):
        assert cut.sha256
    later = period_actions.close_period(TESTER, tenant.public_id, end=datetime.now(UTC))
    for owner, generation, base, end in (
        (tenant, 0, 0, 1_000),
        (tenant, 0, 1_000, 2_000),  # its end gives the totals to count from
        (tenant, 0, 2_000, 2_400),
        (tenant, 1, 2_300, 2_450),
        (tenant, 0, 2_500, 2_600),
        (other, 0, 2_100, 2_200),
    ):
        Seal.objects.create(
            tenant=owner,
            topic_id=PART.topic_id,
            partition=0,
            log_generation=generation,
            base_offset=base,
            end_offset=end,
            seal=f"{owner.name} {generation} {base}".encode(),
            src_partition=0,
            src_offset=base,
        )
    where = TopicPartition(TopicId(bytes.fromhex(PART.topic_id)), 0)

    def written(*losses: KeptLoss) -> tuple[list[str], list[str]]:
        file = tmp_path / "a.evidence"
        with file.open("wb") as out:
            evidence_bundles.write_bundle(
                invoice,
                {},
                chain_item=lambda entry: {},
                losses=losses,
                now=datetime.now(UTC),
                write=out.write,
            )
        every = [record for _, record in bundle_file.read_records(file)]
        return (
            [one.seal.decode() for one in every if isinstance(one, bundle_file.SealOfBrokers)],
            [one.cut_id for one in every if isinstance(one, bundle_file.CutOfBrokers)],
        )

    cuts = list(Cut.objects.filter(tenant=tenant, delivered_at__isnull=False).order_by("period_end"))
    kept = ["acme 0 1000", "acme 0 2000", "acme 1 2300"]
    assert written() == (kept, [one.public_id for one in cuts]), f"{later} is not answered yet"
    lost = KeptLoss(where=where, log_generation=1, offset=2_300)
    assert written(lost)[0] == ["acme 0 1000", "acme 1 2300"]
    Cut.objects.filter(pk=cuts[0].pk).update(sha256="")  # as older ones are
    assert written()[1] == [cuts[1].public_id]
