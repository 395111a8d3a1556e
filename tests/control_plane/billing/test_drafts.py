"""A draft never waits silently: operators see why, are alerted after a day, and finalize what is complete."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from django.test import Client
from prometheus_client.openmetrics.exposition import generate_latest
from rest_framework.test import APIClient

from billing import draft_actions, draft_queries, period_actions, queries, tasks
from billing import metrics as billing_metrics
from billing.models import BillingEntry, Cut, DataSetState, Invoice, PartitionWaiver
from control_plane import config
from control_plane.api.metrics import registry
from control_plane.audit import queries as audit
from control_plane.brokers import client as brokers
from control_plane.outbox import delivery
from control_plane.outbox.models import Delivery
from control_plane.topics.models import Topic
from penstock.cli.__main__ import run
from penstock.contract.errors import InvalidRequest, NotFound
from penstock.contract.ids import SYSTEM_TENANT
from tenants.actions import create_operator
from tenants.models import Tenant
from tests.control_plane.billing.answering import Answering, answering
from tests.control_plane.billing.world import TESTER, Part, World, topic_id, vector_of

pytestmark = pytest.mark.django_db(transaction=True)

ORDERS = Part(first=0, end=2_000, size=1_000_000)
GONE = Part(topic="gone", first=0, end=500, size=100_000)
PARTS = [ORDERS, GONE]
DAY = timedelta(days=1)


@pytest.fixture(autouse=True)
def datasets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    configured = msgspec.structs.replace(config.current(), datasets=tmp_path / "datasets")
    monkeypatch.setattr(config, "current", lambda: configured)
    return configured.datasets


@pytest.fixture
def broker(transactional_db: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Answering]:
    with answering() as (broker, client):
        monkeypatch.setattr(brokers, "client", lambda: client)
        broker.entries = vector_of(PARTS)
        yield broker


@pytest.fixture
def acme(broker: Answering, world: World) -> Tenant:
    """With a topic that exists and one that is deleted."""
    tenant = world.tenant("acme")
    for part in PARTS:
        Topic.objects.create(
            public_id=f"top_{part.topic}",
            tenant=tenant,
            name=part.topic,
            topic_id=part.topic_id,
            partitions=1,
            settings={},
            on_brokers=True,
            delivered_generation=1,
            deleted_at=datetime.now(UTC) if part is GONE else None,
        )
    return tenant


@pytest.fixture
def operator(world: World) -> APIClient:
    client = APIClient(raise_request_exception=False)
    token = create_operator(TESTER, name="olga", tenant=SYSTEM_TENANT)
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {token}")
    return client


def close(tenant: Tenant, hours_ago: int) -> Cut:
    return period_actions.close_period(
        TESTER, tenant.public_id, end=datetime.now(UTC) - timedelta(hours=hours_ago)
    )


def aged(cut: Cut, age: timedelta) -> None:
    """Move a tenant's only cut back in time."""
    now = datetime.now(UTC)
    Cut.objects.filter(pk=cut.pk).update(
        period_start=now - age - DAY, period_end=now - age, created_at=now - age
    )


def finalize(operator: APIClient, cut: Cut, **demand: Any) -> dict[str, Any]:
    answer = operator.post(f"/v1/billing/cuts/{cut.public_id}/finalize", demand, format="json")
    assert answer.status_code == 200, answer.content
    told: dict[str, Any] = answer.json()
    return told


# -- what operators see -------------------------------------------------------------------------------------


def test_a_draft_is_shown_with_every_reason_and_what_helps(acme: Tenant, operator: APIClient) -> None:
    first, second = close(acme, 2), close(acme, 1)
    Cut.objects.filter(pk=first.pk).update(error="no reading of 1 partitions: it has no leader")
    DataSetState.objects.create(dataset="cut_usage", error="cut_usage run 1: has no manifest")
    told = operator.get("/v1/billing/drafts").json()
    one, two = told["items"]
    assert [one[name] for name in ("tenant", "tenant_name", "invoice", "number", "cut", "delivered")] == [
        acme.public_id, "acme", first.invoice.public_id, 1, first.public_id, False,
    ]  # fmt: skip
    assert one["reasons"] == [
        "the brokers have not answered the cut: no reading of 1 partitions: it has no leader",
        "a data set is refused: cut_usage run 1: has no manifest",
    ]
    assert f"the previous invoice {first.invoice.public_id} is still a draft" in two["reasons"]
    assert two["next_steps"][0].endswith(f"penstock billing finalize {first.public_id}")
    assert (one["overdue"], told["alerts"], told["next"]) == (False, [], None)
    assert second.public_id in " ".join(two["next_steps"])
    assert [one["next_steps"][-1].startswith("Waive"), two["next_steps"][-1].startswith("Waive")] == [
        True,
        True,
    ]


@pytest.mark.parametrize("deleted", [False, True])
def test_only_a_deleted_topic_is_to_be_waived(
    world: World, acme: Tenant, operator: APIClient, deleted: bool
) -> None:
    cut = world.cut(acme, PARTS)
    cut.readings.update(last=deleted)
    (draft,) = operator.get("/v1/billing/drafts").json()["items"]
    assert any(advice.startswith("Waive") for advice in draft["next_steps"]) is deleted


def test_an_issued_invoice_is_no_draft(world: World, acme: Tenant, operator: APIClient) -> None:
    cut = world.cut(acme, PARTS)
    world.covered(cut, PARTS)
    world.spark()
    world.bill()
    assert operator.get("/v1/billing/drafts").json()["items"] == []
    assert finalize(operator, cut) == {
        "cut": cut.public_id,
        "invoice": cut.invoice.public_id,
        "status": "issued",
        "done": [],
        "reasons": [],
    }


@pytest.mark.parametrize(("age", "overdue"), [(DAY - timedelta(minutes=1), 0), (DAY, 1)])
def test_a_draft_that_waits_for_a_day_is_an_alert(
    acme: Tenant, operator: APIClient, age: timedelta, overdue: int
) -> None:
    aged(close(acme, 1), age)
    told = operator.get("/v1/billing/drafts").json()
    assert told["items"][0]["overdue"] == bool(overdue)
    assert told["alerts"] == (["1 invoice has been a draft for over a day"] if overdue else [])
    billing_metrics.refresh()
    exported = generate_latest(registry).decode()
    assert f"penstock_invoice_drafts_overdue {float(overdue)}" in exported
    (oldest,) = [
        float(line.split()[1])
        for line in exported.splitlines()
        if line.startswith("penstock_invoice_draft_oldest_seconds ")
    ]
    assert 0 <= oldest - age.total_seconds() < 60
    assert "penstock_price_book_file_refused 0.0" in exported
    assert "penstock_service_level_months_overdue 0.0" in exported


def test_a_late_cut_of_an_old_period_is_not_overdue_at_once(acme: Tenant) -> None:
    cut = close(acme, 1)
    Cut.objects.filter(pk=cut.pk).update(
        period_start=datetime.now(UTC) - 9 * DAY, period_end=datetime.now(UTC) - 5 * DAY
    )
    assert draft_queries.waiting(datetime.now(UTC))[0] == 0


def test_a_draft_that_waits_too_long_is_logged_once_an_hour(
    acme: Tenant, caplog: pytest.LogCaptureFixture
) -> None:
    aged(close(acme, 1), 2 * DAY)
    now = datetime.now(UTC)
    told = [draft_actions.alert_overdue(now + timedelta(minutes=minutes)) for minutes in (0, 59, 60, 61)]
    assert told == [1, 0, 1, 0]
    lines = [
        record for record in caplog.records if record.message == "invoice has been a draft for over a day"
    ]
    assert [(record.levelname, getattr(record, "tenant", "")) for record in lines] == [
        ("ERROR", acme.public_id)
    ] * 2
    Invoice.objects.update(alerted_at=None)
    tasks.bill_run()
    assert Invoice.objects.get().alerted_at is not None


def test_each_draft_that_waits_too_long_is_logged(
    world: World, acme: Tenant, caplog: pytest.LogCaptureFixture
) -> None:
    other = world.tenant("other")
    aged(close(other, 1), 2 * DAY)
    aged(close(acme, 1), 3 * DAY)
    now = datetime.now(UTC)
    assert [draft_actions.alert_overdue(now), draft_actions.alert_overdue(now)] == [2, 0]
    lines = [
        record for record in caplog.records if record.message == "invoice has been a draft for over a day"
    ]
    assert {getattr(record, "tenant", "") for record in lines} == {acme.public_id, other.public_id}
    number, since = draft_queries.waiting(now)
    assert since is not None
    assert (number, (now - since).days) == (2, 3)
    assert draft_queries.alerts(now) == ["2 invoices have been a draft for over a day"]


# -- finalizing ------------------------------------------------------------------------------------------------


def test_cuts_that_were_not_answered_are_delivered_in_their_order(
    broker: Answering, acme: Tenant, operator: APIClient
) -> None:
    first, second = close(acme, 2), close(acme, 1)
    Delivery.objects.update(next_attempt_at=datetime.now(UTC) + DAY, attempts=9)
    told = finalize(operator, second)
    assert [one.cut_id for one in broker.asked] == [first.public_id, second.public_id]
    assert len(told["done"]) == 3 and told["status"] == "draft"
    assert told["reasons"][0].startswith("the previous invoice")
    entry = audit.entries(acme.public_id).latest("sequence")
    assert (entry.action, entry.object_id, entry.actor_kind) == (
        "billing.finalize",
        second.public_id,
        "operator",
    )


def test_a_period_that_ends_and_a_draft_that_waits_wake_the_pipeline(acme: Tenant, datasets: Path) -> None:
    cut = close(acme, 1)
    Delivery.objects.update(next_attempt_at=datetime.now(UTC))
    assert delivery.deliver("cut", cut.public_id)
    wake = datasets / "wake"
    assert wake.exists(), "the readings of the period's end are there to be read"
    wake.unlink()
    tasks.bill_run()
    assert wake.exists(), "one wake-up may be lost"
    wake.unlink()
    aged(cut, 2 * DAY)
    tasks.bill_run()
    assert not wake.exists(), "what is overdue needs an operator, and waits for the pipeline's interval"


def test_what_the_brokers_still_cannot_tell_remains(
    broker: Answering, acme: Tenant, operator: APIClient
) -> None:
    broker.failed = [(GONE.topic_id, 0)]
    told = finalize(operator, close(acme, 1))
    assert told["done"] == []
    assert "it has no leader" in told["reasons"][0]


def test_readings_that_are_not_in_the_data_sets_are_asked_for_again(
    broker: Answering, world: World, acme: Tenant, operator: APIClient, datasets: Path
) -> None:
    cut = world.cut(acme, PARTS)
    world.covered(cut, [ORDERS])
    world.spark()
    world.bill()
    told = finalize(operator, cut)
    assert [one.cut_id for one in broker.asked] == [cut.public_id]
    assert "lack 1 of its partitions" in told["done"][0] and "woken" in told["done"][1]
    assert (datasets / "wake").exists()
    assert "is not in the data sets" in told["reasons"][0]
    # The readings have come: the same command issues the invoice.
    world.rows["cut_usage"].clear()
    world.rows["cut_coverage"].clear()
    world.covered(cut, PARTS)
    world.spark()
    world.bill()
    assert world.invoice(cut).status == "issued"


def test_another_answer_to_the_same_cut_is_refused_and_told(
    broker: Answering, world: World, acme: Tenant, operator: APIClient
) -> None:
    cut = world.cut(acme, PARTS)
    broker.entries = vector_of([replace(ORDERS, end=2_001), GONE])
    told = finalize(operator, cut)
    assert "answered other offsets than the first time" in told["reasons"][0]
    assert sorted(cut.readings.values_list("end_offset", flat=True)) == [500, 2_000]


def test_a_cut_that_is_not_there_is_not_found(operator: APIClient) -> None:
    assert operator.post("/v1/billing/cuts/cut_none/finalize", {}, format="json").status_code == 404


# -- waiving ----------------------------------------------------------------------------------------------

WAIVE = {"waive": [f"{GONE.topic_id}-0"], "reason": "its brokers are gone"}


def test_a_partition_of_a_deleted_topic_is_waived_and_never_billed_any_more(
    broker: Answering, world: World, acme: Tenant, operator: APIClient
) -> None:
    cut = close(acme, 2)
    broker.failed = [(GONE.topic_id, 0)]
    told = finalize(operator, cut, **WAIVE)
    assert "is waived" in told["done"][0]
    (request,) = broker.asked
    assert [(place.topic_id.hex(), place.partition) for place in request.waived] == [(GONE.topic_id, 0)]
    cut.refresh_from_db()
    # Spark knows of the partition and lacks its last reading.
    world.covered(cut, [ORDERS])
    world.covered(cut, [GONE], status="gap", reason="no cut reading")
    world.spark()
    world.bill()
    invoice = world.invoice(cut)
    assert (invoice.status, invoice.total_micro) == ("issued", 3_000_000)
    document = BillingEntry.objects.get(object_id=invoice.public_id).document
    assert [part["topic"] for part in document["partitions"]] == ["orders"]
    assert [reading["topic_id"] for reading in document["cut"]["readings"]] == [ORDERS.topic_id]
    billed = {row["topic"]: row["meters"] for row in queries.usage(acme, by=["topic"], first=None, end=None)}
    assert billed["gone"]["messages_in"] == {"quantity": 500, "billed": 0, "provisional": 500}
    assert {row["topic"] for row in queries.line_evidence(invoice)["messages_in"]} == {"orders"}
    later = close(acme, 1)
    finalize(operator, later)
    assert [len(one.waived) for one in broker.asked] == [1, 1]
    entry = next(one for one in audit.entries(acme.public_id) if one.action == "billing.waive")
    assert (entry.object_id, entry.actor_kind) == (f"{GONE.topic_id}-0", "operator")
    assert entry.after == {"cut": cut.public_id, "reason": "its brokers are gone"}


def test_waiving_what_the_vector_has_issues_the_invoice_without_it(
    world: World, acme: Tenant, operator: APIClient
) -> None:
    cut = world.cut(acme, PARTS)
    world.covered(cut, [ORDERS])
    world.spark()
    world.bill()
    told = finalize(operator, cut, **WAIVE)
    assert (told["status"], told["reasons"]) == ("issued", [])
    assert finalize(operator, cut)["done"] == []
    answer = operator.post(f"/v1/billing/cuts/{cut.public_id}/finalize", WAIVE, format="json")
    assert answer.status_code == 400 and "is issued" in answer.content.decode()


def test_waiving_twice_is_once(broker: Answering, acme: Tenant, operator: APIClient) -> None:
    broker.failed = [(ORDERS.topic_id, 0)]
    cut = close(acme, 1)
    finalize(operator, cut, **WAIVE)
    assert "was waived before" in finalize(operator, cut, **WAIVE)["done"][0]
    assert PartitionWaiver.objects.count() == 1


def test_earlier_periods_keep_what_is_waived_later(world: World, acme: Tenant, operator: APIClient) -> None:
    first = world.cut(acme, PARTS, end=datetime.now(UTC) - timedelta(hours=2))
    world.covered(first, PARTS)
    world.spark()
    world.bill()
    more = [replace(ORDERS, first=2_000, end=2_100), replace(GONE, first=500, end=600)]
    second = world.cut(acme, more)
    world.covered(second, [more[0]])
    world.spark()
    world.bill()
    assert finalize(operator, second, **WAIVE)["status"] == "issued"
    billed = {row["topic"]: row["meters"] for row in queries.usage(acme, by=["topic"], first=None, end=None)}
    assert (billed["gone"]["messages_in"]["billed"], billed["orders"]["messages_in"]["billed"]) == (
        500,
        2_100,
    )


GONE_TOO = Part(topic="gone_too", partition=1, first=0, end=300, size=200_000)


@pytest.fixture
def gone_too(acme: Tenant) -> str:
    """A second deleted topic; its partition as operators name it."""
    Topic.objects.create(
        public_id="top_gone_too",
        tenant=acme,
        name=GONE_TOO.topic,
        topic_id=GONE_TOO.topic_id,
        partitions=2,
        settings={},
        on_brokers=True,
        delivered_generation=1,
        deleted_at=datetime.now(UTC),
    )
    return f"{GONE_TOO.topic_id}-1"


def billed_messages(tenant: Tenant) -> dict[str, int]:
    """By topic, on issued invoices."""
    shown = queries.usage(tenant, by=["topic"], first=None, end=None)
    return {row["topic"]: row["meters"]["messages_in"]["billed"] for row in shown}


LACKING = {"status": "gap", "reason": "no cut reading"}


def test_two_partitions_are_waived_at_once(
    world: World, acme: Tenant, operator: APIClient, gone_too: str
) -> None:
    cut = world.cut(acme, [*PARTS, GONE_TOO])
    world.covered(cut, [ORDERS])
    world.covered(cut, [GONE, GONE_TOO], **LACKING)
    world.spark()
    world.bill()
    assert len(world.invoice(cut).gaps) == 2
    told = finalize(operator, cut, waive=[*WAIVE["waive"], gone_too], reason="their brokers are gone")
    assert sum("is waived" in did for did in told["done"]) == 2
    assert (told["status"], told["reasons"]) == ("issued", [])
    assert billed_messages(acme) == {"orders": 2_000, "gone": 0, "gone_too": 0}
    assert world.invoice(cut).total_micro == 3_000_000


@pytest.mark.parametrize(("length", "status"), [(0, 400), (1, 200), (500, 200), (501, 400)])
def test_a_reason_to_waive_has_a_length_that_fits(
    broker: Answering, acme: Tenant, operator: APIClient, length: int, status: int
) -> None:
    cut = close(acme, 2)
    broker.failed = [(GONE.topic_id, 0)]
    request = {"waive": WAIVE["waive"], "reason": "r" * length}
    answer = operator.post(f"/v1/billing/cuts/{cut.public_id}/finalize", request, format="json")
    assert answer.status_code == status
    assert bool(queries.waived_partitions(cut)) == (status == 200)


def test_a_partition_is_waived_after_another(
    broker: Answering, world: World, acme: Tenant, operator: APIClient, gone_too: str
) -> None:
    first = world.cut(acme, [*PARTS, GONE_TOO], end=datetime.now(UTC) - timedelta(hours=2))
    world.covered(first, [ORDERS, GONE_TOO])
    world.covered(first, [GONE], **LACKING)
    world.spark()
    world.bill()
    assert finalize(operator, first, **WAIVE)["status"] == "issued"
    more = [replace(ORDERS, first=2_000, end=2_100), replace(GONE_TOO, first=300, end=400)]
    second = world.cut(acme, more, end=datetime.now(UTC) - timedelta(hours=1))
    world.covered(second, more[:1])
    world.covered(second, more[1:], **LACKING)
    world.spark()
    world.bill()
    assert world.invoice(second).status == "draft"
    told = finalize(operator, second, waive=[gone_too], reason="its brokers are gone too")
    assert (told["status"], told["reasons"]) == ("issued", [])
    waived = {(GONE.topic_id, 0), (GONE_TOO.topic_id, 1)}
    assert (queries.waived_partitions(first), queries.waived_partitions(second)) == (
        {(GONE.topic_id, 0)},
        waived,
    )
    assert billed_messages(acme) == {"orders": 2_100, "gone": 0, "gone_too": 300}
    finalize(operator, close(acme, 0))
    assert {(place.topic_id.hex(), place.partition) for place in broker.asked[-1].waived} == waived


def test_a_loss_of_what_was_waived_before_is_not_credited(
    world: World, acme: Tenant, operator: APIClient
) -> None:
    first = world.cut(acme, PARTS, end=datetime.now(UTC) - timedelta(hours=2))
    world.covered(first, [ORDERS])
    world.covered(first, [GONE], **LACKING)
    world.spark()
    world.bill()
    assert finalize(operator, first, **WAIVE)["status"] == "issued"
    still = replace(ORDERS, first=2_000, end=2_000, size=0)
    second = world.cut(acme, [still])
    world.covered(second, [still])
    world.lost(second, replace(GONE, first=400, size=20_000))
    world.spark()
    world.bill()
    assert world.invoice(second).status == "issued"
    assert not acme.credit_notes.exists()


def test_a_loss_of_what_is_waived_is_credited_as_far_as_it_was_billed(
    world: World, acme: Tenant, operator: APIClient
) -> None:
    first = world.cut(acme, PARTS, end=datetime.now(UTC) - timedelta(hours=2))
    world.covered(first, PARTS)
    still = replace(ORDERS, first=2_000, end=2_000, size=0)
    second = world.cut(acme, [still])
    world.covered(second, [still])
    world.lost(second, replace(GONE, first=400, size=150_000))
    world.spark()
    world.bill()
    assert any("50000 bytes_in reversed" in gap for gap in world.invoice(second).gaps)
    assert finalize(operator, second, **WAIVE)["status"] == "issued"
    note = acme.credit_notes.get()
    assert {line.meter: line.quantity for line in note.lines.all()} == {
        "messages_in": 100,
        "bytes_in": 100_000,
    }
    assert (note.invoice.cut, world.invoice(second).total_micro) == (first, 0)


@pytest.mark.parametrize(
    ("waive", "reason", "named"),
    [
        (f"{ORDERS.topic_id}-0", "because", "exists"),
        (f"{GONE.topic_id}-0", "", "reason"),
        (f"{topic_id('never')}-0", "because", "no such topic"),
        ("orders-0", "because", "waive"),
    ],
)
def test_what_may_not_be_waived_is_refused_by_name(
    acme: Tenant, operator: APIClient, waive: str, reason: str, named: str
) -> None:
    cut = close(acme, 1)
    answer = operator.post(
        f"/v1/billing/cuts/{cut.public_id}/finalize", {"waive": [waive], "reason": reason}, format="json"
    )
    assert answer.status_code in (400, 404) and named in answer.content.decode(), answer.content
    assert not PartitionWaiver.objects.exists()


def test_of_several_partitions_none_is_waived_when_one_may_not_be(acme: Tenant, operator: APIClient) -> None:
    cut = close(acme, 1)
    both = [*WAIVE["waive"], f"{ORDERS.topic_id}-0"]
    answer = operator.post(
        f"/v1/billing/cuts/{cut.public_id}/finalize", {**WAIVE, "waive": both}, format="json"
    )
    assert answer.status_code == 400 and "exists" in answer.content.decode()
    assert not PartitionWaiver.objects.exists()
    assert not audit.entries(acme.public_id).filter(action="billing.waive").exists()


def test_anothers_topic_and_one_whose_deletion_is_on_its_way_are_not_waived(
    world: World, acme: Tenant
) -> None:
    cut = close(acme, 1)
    other = close(world.tenant("other"), 1)
    with pytest.raises(NotFound):
        draft_actions.finalize_draft(TESTER, other.public_id, waive=[(GONE.topic_id, 0)], reason="because")
    Topic.objects.filter(topic_id=GONE.topic_id).update(generation=2)
    with pytest.raises(InvalidRequest, match="have not deleted its topic"):
        draft_actions.finalize_draft(TESTER, cut.public_id, waive=[(GONE.topic_id, 0)], reason="because")


# -- the console and the command line -----------------------------------------------------------------------


def test_the_operators_page_shows_alerts(acme: Tenant) -> None:
    aged(close(acme, 1), 2 * DAY)
    client = Client()
    token = create_operator(TESTER, name="olga", tenant=SYSTEM_TENANT)
    assert client.post("/operator/sign-in", {"token": token}).status_code == 302
    page = client.get("/operator").content.decode()
    assert "1 invoice has been a draft for over a day" in page and "penstock billing drafts" in page


Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def command(
    world: World, live_server: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Command:
    monkeypatch.setenv("PENSTOCK_API_URL", live_server.url)
    monkeypatch.setenv("PENSTOCK_API_KEY", "")
    monkeypatch.setenv("PENSTOCK_OPERATOR_TOKEN", create_operator(TESTER, name="olga", tenant=SYSTEM_TENANT))
    monkeypatch.setenv("PENSTOCK_BOOTSTRAP", "127.0.0.1:9")

    def call(*arguments: str) -> tuple[int, str, str]:
        code = run(("billing", *arguments))
        said = capsys.readouterr()
        return code, said.out, said.err

    return call


@pytest.mark.processes
def test_the_command_line_lists_drafts_and_finalizes_them(
    broker: Answering, acme: Tenant, command: Command
) -> None:
    assert command("drafts") == (0, "", "No invoice is a draft.\n")
    cut = close(acme, 1)
    aged(cut, 3 * DAY)
    code, out, err = command("drafts")
    assert code == 0 and "3 days" in out and "overdue" in out
    assert (
        f"next     Bring the named brokers back, then run: penstock billing finalize {cut.public_id}" in out
    )
    assert "Alert: 1 invoice has been a draft for over a day" in err
    code, out, err = command("finalize", cut.public_id)
    assert code == 0 and "have answered" in err and "Still a draft: " in out
    code, out, _ = command("finalize", cut.public_id, "--json")
    assert json.loads(out)["status"] == "draft"
    assert command("finalize", cut.public_id, "--waive", f"{GONE.topic_id}-0")[0] == 2
    assert command("finalize", "cut_none")[0] == 3
