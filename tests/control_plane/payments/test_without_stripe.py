"""Payment without Stripe: what is asked for, what operators note, and reminders."""

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pytest
from django.db import transaction
from django.utils import timezone

from billing import chain_actions, focus_exports, voids
from billing import queries as billing
from billing.models import BillingEntry
from control_plane.audit.models import AuditEntry
from control_plane.config import PaymentsConfig
from control_plane.mail.models import Mail
from control_plane.outbox.models import Delivery
from control_plane.rest.billing_shapes import InvoiceShape
from daemon.settings import Refused
from payments import actions, dunning, queries, tasks, totals
from payments.models import Payment, Receivable
from penstock.contract import documents
from penstock.contract.errors import InvalidRequest, NotFound
from penstock.rules.timestamps import time_ms
from tenants.actions import set_suspended
from tenants.models import Membership
from tenants.roles import Role
from tests.control_plane.billing.test_focus import assert_is_of_focus, note_of
from tests.control_plane.billing.world import TESTER, World
from tests.control_plane.payments.conftest import Configure
from tests.control_plane.payments.paying import DAY, asked, credit, due, issued, worker
from tests.control_plane.world import make_person


def test_an_issued_invoice_is_asked_for_once_and_due_in_two_weeks(world: World) -> None:
    invoice = issued(world, "acme")
    with pytest.raises(NotFound):
        asked(invoice)
    worker(2)
    row = asked(invoice)
    assert (row.state, row.open_micro) == ("open", invoice.total_micro)
    assert invoice.issued_at is not None
    assert invoice.issued_at + 14 * DAY <= row.due_at <= timezone.now() + 14 * DAY
    assert Receivable.objects.count() == 1
    assert AuditEntry.objects.filter(action="receivable.open").count() == 1
    assert not Delivery.objects.filter(kind="receivable").exists()


def test_an_invoice_of_nothing_is_paid_at_once(world: World) -> None:
    invoice = issued(world, "quiet", messages=0)
    worker()
    assert asked(invoice).state == "paid"
    assert not Payment.objects.exists()


def test_a_payment_by_bank_is_counted_once_for_its_reference(world: World) -> None:
    invoice = issued(world, "acme")
    worker()
    for _ in range(2):
        assert actions.mark_paid(TESTER, invoice, reference="bank 1").state == "paid"
    with pytest.raises(InvalidRequest, match="nothing of it is open"):
        actions.mark_paid(TESTER, invoice, reference="bank 2")
    (paid,) = Payment.objects.all()
    assert (paid.amount_micro, paid.source) == (invoice.total_micro, "bank")
    assert AuditEntry.objects.filter(action="receivable.pay").count() == 1


def test_a_credit_note_lowers_what_is_open_and_what_was_paid_is_given_back_once(world: World) -> None:
    invoice = issued(world, "acme")
    worker()
    credit(invoice, 1_000_000)
    worker(2)
    total = invoice.total_micro or 0
    assert asked(invoice).open_micro == total - 1_000_000
    with pytest.raises(InvalidRequest, match="nothing is to be refunded"):
        actions.mark_refunded(TESTER, invoice, reference="back 1")
    actions.mark_paid(TESTER, invoice, reference="bank 1")
    credit(invoice, 2_000_000)
    worker()
    assert asked(invoice).overpaid_micro == 2_000_000
    for _ in range(2):
        actions.mark_refunded(TESTER, invoice, reference="back 1")
    row = asked(invoice)
    assert (row.state, row.overpaid_micro, row.refunded_micro) == ("paid", 0, 2_000_000)


def test_a_credit_note_of_the_whole_makes_an_invoice_void(world: World) -> None:
    invoice = issued(world, "acme")
    worker()
    credit(invoice, invoice.total_micro or 0)
    worker()
    assert actions.void(TESTER, invoice, reason="as well").voided_micro == 0
    with pytest.raises(InvalidRequest):
        actions.mark_paid(TESTER, invoice, reference="bank 1")
    assert (asked(invoice).state, invoice.number) == ("void", 1)
    assert voids.voids_of(invoice.tenant) == {}, "its credit note takes it back, in FOCUS too"
    assert (
        InvoiceShape(invoice).data["void_at"]
        == InvoiceShape(billing.invoice(invoice.tenant, invoice.public_id)).data["void_at"]
    )
    assert voids.void_at(invoice) == asked(invoice).closed_at is not None


def test_an_operator_makes_an_unpaid_invoice_void_once_and_for_good(world: World) -> None:
    invoice = issued(world, "acme")
    worker()
    with pytest.raises(InvalidRequest, match="reason"):
        actions.void(TESTER, invoice, reason="")
    total = asked(invoice).total_micro
    credit(invoice, 1_000_000)
    for _ in range(2):
        row = actions.void(TESTER, invoice, reason="sent to the wrong company")
        assert (row.state, row.voided_micro, row.open_micro) == ("void", total - 1_000_000, 0)
    with pytest.raises(InvalidRequest, match="nothing of it is open"):
        actions.mark_paid(TESTER, invoice, reference="bank 1")
    credit(invoice, 2_000_000)  # a loss that is found later: nothing was asked for
    worker(2)
    row = asked(invoice)
    assert (row.state, row.credited_micro, row.overpaid_micro) == ("void", 1_000_000, 0)
    assert not queries.with_new_credits().exists()
    entries = AuditEntry.objects.filter(action="receivable.void").order_by("pk")
    assert [one.after["reason"] for one in entries] == ["sent to the wrong company"]
    assert totals.by_currency() == []


def test_what_waited_to_be_carried_waits_no_more_when_it_is_void(world: World) -> None:
    invoice = issued(world, "acme")
    worker()
    Receivable.objects.filter(invoice=invoice).update(waits=True)
    assert not actions.void(TESTER, invoice, reason="sent to the wrong company").waits
    assert not asked(invoice).waits


def test_a_payment_that_crosses_a_void_is_to_be_refunded(world: World) -> None:
    invoice = issued(world, "acme")
    worker()
    row = actions.void(TESTER, invoice, reason="sent to the wrong company")
    assert not Receivable.objects.filter(queries.is_overpaid()).exists()
    Receivable.objects.filter(pk=row.pk).update(paid_micro=1)
    assert Receivable.objects.filter(queries.is_overpaid()).count() == 1
    assert asked(invoice).overpaid_micro == 1


def test_what_was_paid_never_becomes_void(world: World) -> None:
    invoice = issued(world, "acme")
    worker()
    actions.mark_paid(TESTER, invoice, reference="bank 1")
    with pytest.raises(InvalidRequest, match="a credit note gives back what was paid"):
        actions.void(TESTER, invoice, reason="no")
    assert asked(invoice).state == "paid"


def test_what_was_given_up_may_become_void(world: World) -> None:
    invoice = issued(world, "acme")
    worker()
    actions.give_up(TESTER, invoice, reason="insolvent")
    assert actions.void(TESTER, invoice, reason="it was never due").state == "void"


def test_a_late_payment_pays_what_was_given_up(world: World) -> None:
    invoice = issued(world, "acme")
    worker()
    for _ in range(2):
        assert actions.give_up(TESTER, invoice, reason="insolvent").state == "uncollectible"
    assert actions.mark_paid(TESTER, invoice, reference="bank 1").state == "paid"
    with pytest.raises(InvalidRequest, match="nothing of it is open"):
        actions.give_up(TESTER, invoice, reason="again")


def test_reminders_are_sent_once_each_and_then_operators_are_alerted(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    invoice = issued(world, "acme")
    for role in (Role.OWNER, Role.DEVELOPER, Role.BILLING):
        person, _ = make_person(f"{role}@acme.example")
        Membership.objects.create(tenant=invoice.tenant, person=person, role=role)
    worker()
    for days, mails, alerts in (
        (-1, 0, 0),
        (0, 2, 0),
        (2, 2, 0),
        (8, 4, 0),
        (14, 6, 0),
        (15, 6, 1),
        (30, 6, 1),
    ):
        due(invoice, days)
        worker(2)
        found = Mail.objects.filter(kind="payment-reminder")
        assert found.count() == mails, days
        assert caplog.text.count("unpaid after the last reminder") == alerts, days
    found = Mail.objects.filter(kind="payment-reminder")
    assert {mail.to for mail in found} == {"owner@acme.example", "billing@acme.example"}
    invoice.tenant.refresh_from_db()
    assert not invoice.tenant.suspended
    assert asked(invoice).state == "past_due"


def test_a_tenant_is_suspended_by_setting_only_and_after_the_letter_that_says_so(
    world: World, configure: Configure
) -> None:
    configure(days_to_suspend=21)
    invoice = issued(world, "acme")
    person, _ = make_person("owner@acme.example")
    Membership.objects.create(tenant=invoice.tenant, person=person, role=Role.OWNER)
    worker()
    due(invoice, 20)
    worker()
    invoice.tenant.refresh_from_db()
    assert not invoice.tenant.suspended
    assert "are refused until it is paid" in Mail.objects.get(kind="payment-reminder").text
    due(invoice, 300)
    worker()
    invoice.tenant.refresh_from_db()
    assert not invoice.tenant.suspended, "the letter that said so is of today"
    Receivable.objects.update(reminded_at=timezone.now() - 7 * DAY)
    worker()
    invoice.tenant.refresh_from_db()
    assert invoice.tenant.suspended
    set_suspended(TESTER, invoice.tenant, False)
    worker()
    invoice.tenant.refresh_from_db()
    assert not invoice.tenant.suspended, "an operator has resumed it"


def test_no_tenant_is_suspended_for_what_it_may_have_paid_at_stripe_unknown_to_us(
    world: World, configure: Configure, tmp_path: Path
) -> None:
    key = tmp_path / "missing.key"
    configure(days_to_suspend=21, stripe_key_file=key)
    invoice = issued(world, "acme")
    person, _ = make_person("owner@acme.example")
    Membership.objects.create(tenant=invoice.tenant, person=person, role=Role.OWNER)
    worker()
    due(invoice, 20)
    worker()
    assert "are refused until it is paid" in Mail.objects.get(kind="payment-reminder").text
    due(invoice, 300)
    Receivable.objects.update(reminded_at=timezone.now() - 7 * DAY)
    now = timezone.now()
    for wrong in ({"unsent_since": now, "refused": False}, {"unsent_since": None, "refused": True}):
        Receivable.objects.update(**wrong, retry_at=now + DAY)
        assert not queries.to_remind(now, (0, 3, 7, 14), 21).exists(), "it holds up no other either"
        dunning.remind(asked(invoice).public_id, now)
        invoice.tenant.refresh_from_db()
        assert not invoice.tenant.suspended, wrong
    Receivable.objects.update(unsent_since=None, refused=False)
    worker()
    invoice.tenant.refresh_from_db()
    assert invoice.tenant.suspended


def test_the_round_rests_while_payment_through_stripe_is_off(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    issued(world, "acme")
    worker()
    assert Receivable.objects.filter(unsent_since__isnull=False, retry_at=None).exists()
    assert not tasks.round_has_work()
    with monkeypatch.context() as patch:
        patch.setattr(queries, "is_through_stripe", lambda: True)
        assert tasks.round_has_work()


def test_a_tenant_is_not_suspended_without_a_letter() -> None:
    with pytest.raises(Refused):
        PaymentsConfig(reminder_days=(), days_to_suspend=5)


@pytest.mark.parametrize(
    ("address", "taken"),
    [
        ("https://api.stripe.com", True),
        ("http://127.0.0.1:8000", True),
        ("http://[::1]:8000", True),
        ("http://api.stripe.com", False),
        ("http://127.0.0.1.example.com", False),
        ("https://api.stripe.com/v1", False),
        ("https://api.stripe.com?", False),
        ("https://user:password@api.stripe.com", False),
        ("https://", False),
        ("ftp://127.0.0.1", False),
        ("http://127.0.0.1:99999", False),
    ],
)
def test_the_key_goes_to_stripe_over_tls_or_nowhere_but_this_machine(address: str, taken: bool) -> None:
    if taken:
        assert PaymentsConfig(stripe_api_base=address).stripe_api_base == address
        return
    with pytest.raises(Refused) as refused:
        PaymentsConfig(stripe_api_base=address)
    assert "password@" not in str(refused.value)


def test_what_is_paid_is_not_reminded_of(world: World) -> None:
    invoice = issued(world, "acme")
    worker()
    actions.mark_paid(TESTER, invoice, reference="bank 1")
    due(invoice, 30)
    dunning.remind(asked(invoice).public_id, timezone.now())
    assert not Mail.objects.filter(kind="payment-reminder").exists()
    assert not queries.to_remind(timezone.now(), (0, 3, 7, 14), None).exists()


def test_what_waits_for_its_next_step_keeps_no_other_from_theirs(world: World) -> None:
    invoice = issued(world, "acme")
    worker()
    for days, steps in ((0, 1), (2, 0), (3, 1), (6, 0), (14, 1), (15, 1), (40, 0)):
        due(invoice, days)
        found = queries.to_remind(timezone.now(), (0, 3, 7, 14), None)
        assert found.count() == steps, days
        worker()
        assert queries.to_remind(timezone.now(), (0, 3, 7, 14), None).count() == 0, days


def test_what_was_paid_in_part_never_becomes_void(world: World) -> None:
    invoice = issued(world, "acme")
    worker()
    with actions.locked(asked(invoice).public_id) as row:
        actions.note_money(
            TESTER, row, actions.Kind.PAYMENT, actions.Source.BANK,
            reference="a part", amount_micro=row.open_micro - 1, at=timezone.now(),
        )  # fmt: skip
    with pytest.raises(InvalidRequest, match=r"it is open, and \d+ of it is paid"):
        actions.void(TESTER, invoice, reason="no")
    assert (asked(invoice).state, asked(invoice).open_micro) == ("open", 1)


def test_focus_takes_back_a_void_invoice_and_its_credit_notes_in_the_month_of_that(world: World) -> None:
    invoice, other = issued(world, "acme"), issued(world, "beta")
    worker()
    entry = BillingEntry.objects.get(object_id=invoice.public_id)
    document = documents.read_document(entry.document, documents.InvoiceDocument, "invoice")
    now = datetime.now(UTC)

    def noted(micro: int) -> None:
        """A credit note, in the chain as well."""
        note = credit(invoice, micro)
        with transaction.atomic():
            at = chain_actions.next_moment(invoice.tenant)
            told = msgspec.structs.replace(
                note_of(document),
                id=note.public_id,
                tenant=invoice.tenant.public_id,
                issued_at_ms=time_ms(at),
            )
            chain_actions.append(invoice.tenant, note.public_id, told, at)

    def rows(**asked: Any) -> list[dict[str, str]]:
        whole: dict[str, Any] = {"issuer": "Penstock", "first": None, "end": None, "invoice": None}
        return list(focus_exports.rows(invoice.tenant, **{**whole, **asked}))

    noted(1_000_000)
    before = rows()
    assert len({row["InvoiceId"] for row in before}) == 2
    actions.void(TESTER, invoice, reason="sent to the wrong company")
    noted(500_000)
    found = rows()
    assert found[: len(before)] == before, "what was sent before stands"
    assert (
        sum(Decimal(row["BilledCost"]) for row in found)
        == 0
        < sum(Decimal(row["BilledCost"]) for row in before)
    )
    corrections = [row for row in found if row["ChargeDescription"].startswith("Taken back: ")]
    assert len(corrections) * 2 == len(found)
    for row in corrections:
        assert_is_of_focus(row)
        assert row["ChargeClass"] == "Correction" and row["x_CorrectedInvoiceId"] == row["InvoiceId"]
        assert row["BillingPeriodStart"] == f"{now:%Y-%m-01T00:00:00Z}"
        assert (
            row["InvoiceId"] != invoice.public_id or row["BilledCost"] == "0" or row["BilledCost"][0] == "-"
        )
    ended = Receivable.objects.get(invoice=invoice).closed_at
    assert rows(end=ended) == before and rows(first=ended) == found[len(before) :]
    assert rows(invoice=invoice.public_id) == found
    beta = focus_exports.rows(other.tenant, issuer="Penstock", first=None, end=None, invoice=None)
    assert not [row for row in beta if row.get("ChargeClass") == "Correction"]
    shown = InvoiceShape(billing.invoice(invoice.tenant, invoice.public_id)).data
    assert shown["void_at"] == InvoiceShape(invoice).data["void_at"] is not None
    assert InvoiceShape(other).data["void_at"] is None
