"""`penstock payment` against a little server that answers as the service does."""

import json
from collections.abc import Iterator

import pytest
from click.testing import CliRunner

from penstock.cli.__main__ import cli
from tests.integration.rest.little_server import Answer, Asked, LittleServer, little_server

RECEIVABLE = {
    "tenant": "tn_1", "invoice": "inv_1", "invoice_number": 4, "issuer_number": "INV-000012",
    "state": "past_due", "currency": "USD", "minor_digits": 2,
    "total_micro": 49_010_000, "credited_micro": 1_000_000, "paid_micro": 0, "refunded_micro": 0,
    "open_micro": 48_010_000, "overpaid_micro": 0, "due_at": "2026-01-15T00:00:00+00:00",
    "pay_url": "https://invoice.example/1", "problem": "visa ending in 4242 was declined",
    "waits": True, "carried_by": "inv_2", "unsent": True, "retry_at": "2026-01-15T00:00:00+00:00",
}  # fmt: skip
BY_BANK = {"pay_url": "", "waits": False, "carried_by": ""}
PAYMENT = {
    "at": "2026-01-15T00:00:00+00:00", "invoice": "inv_1", "kind": "payment", "source": "bank",
    "reference": "BANK 1", "amount_micro": 48_010_000, "currency": "USD", "minor_digits": 2,
}  # fmt: skip
DIFFERENCE = {
    "kind": "amount", "tenant": "tn_1", "invoice": "inv_1", "stripe_invoice": "in_1", "ours": "1", "theirs": "2",
}  # fmt: skip


def answered(asked: Asked) -> Answer:
    if asked.path.startswith("/v1/billing/reconciliation"):
        found = [DIFFERENCE] if asked.method == "POST" else []
        return Answer(body={"collection": "stripe", "at": None, "compared": 1, "differences": found})
    if asked.path == "/v1/payment-method":
        return Answer(body={"collection": "stripe", "method": "visa ending in 4242"})
    if asked.path == "/v1/payment-method/page":
        return Answer(status=201, body={"url": "https://checkout.example/1"})
    if asked.path.startswith("/v1/payments"):
        return Answer(body={"items": [PAYMENT], "next": None})
    if asked.path.startswith("/v1/billing/receivables?"):
        return Answer(body={"items": [RECEIVABLE], "next": None})
    if asked.path == "/v1/invoices/inv_bank/payment":
        return Answer(body=RECEIVABLE | BY_BANK | {"payment_reference": "INV-000012"})
    if asked.path == "/v1/invoices/inv_nowhere/payment":
        return Answer(body=RECEIVABLE | BY_BANK | {"payment_reference": ""})
    return Answer(body=RECEIVABLE)


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[LittleServer]:
    with little_server(answered) as server:
        monkeypatch.setenv("PENSTOCK_API_URL", server.url)
        monkeypatch.setenv("PENSTOCK_API_KEY", "penstock_test_" + "x" * 40)
        monkeypatch.setenv("PENSTOCK_OPERATOR_TOKEN", "operator")
        monkeypatch.setenv("PENSTOCK_BOOTSTRAP", "127.0.0.1:9")
        yield server


@pytest.mark.parametrize(
    ("arguments", "path", "body", "said"),
    [
        (["list"], "/v1/payments", None, "payment\tbank\tBANK 1\t48.01 USD"),
        (["show", "inv_1"], "/v1/invoices/inv_1/payment", None, "inv_1\tINV-000012\tpast_due"),
        (
            ["receivables", "--state", "past_due"],
            "/v1/billing/receivables",
            None,
            "inv_1\tINV-000012\tpast_due",
        ),
        (
            ["paid", "inv_1", "--reference", "B 1"],
            "/v1/billing/receivables/inv_1/paid",
            {"reference": "B 1"},
            "inv_1",
        ),
        (
            ["refunded", "inv_1", "--reference", "B"],
            "/v1/billing/receivables/inv_1/refunded",
            {"reference": "B"},
            "inv_1",
        ),
        (
            ["give-up", "inv_1", "--reason", "no"],
            "/v1/billing/receivables/inv_1/uncollectible",
            {"reason": "no"},
            "inv_1",
        ),
        (
            ["void", "inv_1", "--reason", "twice"],
            "/v1/billing/receivables/inv_1/void",
            {"reason": "twice"},
            "inv_1",
        ),
        (["retry", "inv_1"], "/v1/billing/receivables/inv_1/retry", {}, "inv_1"),
        (["method"], "/v1/payment-method", None, "visa ending in 4242"),
        (
            ["method", "--page", "setup"],
            "/v1/payment-method/page",
            {"page": "setup"},
            "https://checkout.example/1",
        ),
        (["reconciliation", "--now"], "/v1/billing/reconciliation", {}, "amount\ttn_1\tinv_1\tin_1\t1\t2"),
    ],
)
def test_each_command_asks_its_address_and_prints_the_answer(
    service: LittleServer, arguments: list[str], path: str, body: object, said: str
) -> None:
    ran = CliRunner().invoke(cli, ["payment", *arguments])
    assert ran.exit_code == 0, ran.output
    assert said in ran.stdout
    assert service.asked[-1].path.split("?")[0] == path
    if body is not None:
        assert service.asked[-1].body == body
    shown = CliRunner().invoke(cli, ["payment", *arguments, "--json"])
    assert shown.exit_code == 0 and json.loads(shown.stdout)


def test_what_keeps_an_invoice_from_being_paid_is_said(service: LittleServer) -> None:
    ran = CliRunner().invoke(cli, ["payment", "show", "inv_1"])
    assert "Pay at https://invoice.example/1" in ran.stderr
    assert "Not collected: visa ending in 4242 was declined" in ran.stderr
    assert "waits for a later invoice" in ran.stderr and "It is collected with inv_2" in ran.stderr
    assert "Stripe is tried again at" in ran.stderr and "has not heard of its last change" in ran.stderr


def test_what_is_paid_by_bank_has_its_reference(service: LittleServer) -> None:
    ran = CliRunner().invoke(cli, ["payment", "show", "inv_bank"])
    assert "Pay by bank with the reference INV-000012." in ran.stderr
    ran = CliRunner().invoke(cli, ["payment", "show", "inv_1"])
    assert "by bank" not in ran.stderr, "it is paid at Stripe"
    ran = CliRunner().invoke(cli, ["payment", "show", "inv_nowhere"])
    assert ran.exit_code == 0 and "by bank" not in ran.stderr, "the seller names no bank account"


def test_without_a_comparison_the_next_step_is_named(service: LittleServer) -> None:
    ran = CliRunner().invoke(cli, ["payment", "reconciliation"])
    assert "--now" in ran.output
