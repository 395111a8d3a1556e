"""The operators' page of receivables: sums by currency, what keeps an invoice from being collected, CSV, trying
again.
"""

import csv
import io

import pytest
from django.test import Client

from demo.fake_stripe import FakeStripe
from payments import actions, totals
from payments.models import Receivable
from tenants.roles import Standing
from tests.control_plane.billing.world import TESTER, World
from tests.control_plane.payments.paying import CENT, asked, due, of_amount, worker
from tests.control_plane.world import make_house


@pytest.fixture
def client(world: World) -> Client:
    made = Client()
    made.post("/operator/sign-in", {"token": make_house("other").credentials[Standing.OPERATOR]})
    return made


def page(client: Client, asked_for: str = "") -> str:
    answer = client.get(f"/operator/receivables{asked_for}")
    assert answer.status_code == 200
    return answer.content.decode()


def test_the_page_sums_by_currency_and_says_what_keeps_each_invoice(
    world: World, fake: FakeStripe, client: Client
) -> None:
    late = of_amount(world.tenant("late"), 2_000 * CENT)
    little = of_amount(world.tenant("little"), 30 * CENT)
    euro = of_amount(world.tenant("euro"), 1_000 * CENT)
    worker()
    Receivable.objects.filter(invoice=euro).update(currency="EUR", problem="visa was declined")
    due(late, 1)
    worker()
    shown = page(client)
    assert shown.index("EUR") < shown.index("USD")
    assert "20.30" in shown and "20.00" in shown and "10.00" in shown
    assert "visa was declined" in shown and "less than Stripe charges" in shown
    assert [one.past_due for one in totals.by_currency()] == [0, 1]
    assert late.public_id in page(client, "?show=past_due")
    assert little.public_id not in page(client, "?show=past_due")
    assert euro.public_id in page(client, "?show=problem") and late.public_id not in page(
        client, "?show=problem"
    )
    assert little.public_id in page(client, "?show=waits")
    assert late.public_id in page(client, "?q=late") and euro.public_id not in page(client, "?q=late")
    assert "No invoice matches" in page(client, "?show=overpaid")
    assert page(client, "?show=%00&q=%00")


def test_the_same_receivables_are_exported_and_no_text_of_them_is_a_formula(
    world: World, fake: FakeStripe, client: Client
) -> None:
    invoice = of_amount(world.tenant("acme"), 2_000 * CENT)
    other = of_amount(world.tenant("beta"), 1_000 * CENT)
    worker()
    Receivable.objects.filter(invoice=invoice).update(problem="=HYPERLINK(1)")
    answer = client.get("/operator/receivables.csv?show=problem")
    assert answer["Content-Type"].startswith("text/csv")
    (row,) = csv.DictReader(io.StringIO(answer.content.decode()))
    assert (row["invoice"], row["open_micro"], row["problem"]) == (
        invoice.public_id,
        str(2_000 * CENT),
        "'=HYPERLINK(1)",
    )
    whole = client.get("/operator/receivables.csv").content.decode()
    assert other.public_id in whole


def test_trying_again_is_one_button_and_for_operators(world: World, fake: FakeStripe, client: Client) -> None:
    invoice = of_amount(world.tenant("acme"), 2_000 * CENT)
    fake.refuses = "/finalize"
    worker()
    address = f"/operator/receivables/{invoice.public_id}/retry"
    assert f'action="{address}"' in page(client)
    fake.refuses = ""
    assert Client().post(address).status_code in (302, 403)
    assert asked(invoice).retry_at is not None
    assert client.get(address).status_code == 405
    answer = client.post(address)
    assert (answer.status_code, answer["Location"]) == (302, "/operator/receivables")
    assert asked(invoice).retry_at is None
    worker()
    assert (asked(invoice).stripe_state, asked(invoice).problem) == ("open", "")
    assert client.post("/operator/receivables/inv_nothing/retry").status_code == 404


def test_an_operator_makes_an_invoice_void_on_a_page_of_its_own_with_a_reason(
    world: World, fake: FakeStripe, client: Client
) -> None:
    invoice = of_amount(world.tenant("acme"), 2_000 * CENT)
    worker()
    address = f"/operator/receivables/{invoice.public_id}/void"
    assert f'href="{address}"' in page(client)
    assert Client().post(address, {"reason": "x"}).status_code in (302, 403)
    asking = client.get(address)
    assert asking.status_code == 200 and "cannot be undone" in asking.content.decode()
    assert client.post(address, {"reason": ""}).status_code == 422 and asked(invoice).state == "open"
    answer = client.post(address, {"reason": "sent to the wrong company"})
    assert (answer.status_code, answer["Location"]) == (302, "/operator/receivables")
    assert (asked(invoice).state, asked(invoice).open_micro) == ("void", 0)
    assert f'href="{address}"' not in page(client, "?show=all")
    again = client.get(address).content.decode()
    assert "It is void already" in again and '<button class="danger">Make it void' not in again
    assert client.get("/operator/receivables/inv_nothing/void").status_code == 404
    paid = of_amount(world.tenant("beta"), 2_000 * CENT)
    worker()
    actions.mark_paid(TESTER, paid, reference="bank 1")
    refused = client.post(f"/operator/receivables/{paid.public_id}/void", {"reason": "x"})
    assert refused.status_code == 422 and "a credit note gives back what was paid" in refused.content.decode()
