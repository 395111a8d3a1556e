"""The same collection against Stripe itself, where a test key is given in STRIPE_TEST_KEY."""

import os

import pytest
import stripe

from control_plane.config import PaymentsConfig
from payments.stripe_adapter import TIMEOUT_S, Gateway

KEY = os.environ.get("STRIPE_TEST_KEY", "")


@pytest.mark.optional_peer
@pytest.mark.skipif(not KEY.startswith(("sk_test_", "rk_test_")), reason="STRIPE_TEST_KEY is not a test key")
def test_stripe_itself_answers_as_the_fake_does() -> None:
    gateway = Gateway(KEY, stripe.RequestsClient(timeout=TIMEOUT_S), PaymentsConfig().stripe_api_base)
    mark = os.urandom(8).hex()
    customer = gateway.create_customer(f"tn_{mark}", "contract test", f"customer/{mark}")
    assert gateway.create_customer(f"tn_{mark}", "contract test", f"customer/{mark}") == customer
    assert gateway.method(customer) is None
    draft = gateway.create_invoice(customer, f"rcv_{mark}", "USD", "contract test", f"invoice/{mark}")
    gateway.add_item(
        customer, draft.id, f"line_{mark}", amount=500, currency="USD", title="a line", key=f"item/{mark}"
    )
    gateway.add_item(
        customer, draft.id, f"cn_{mark}", amount=-100, currency="USD", title="a credit", key=f"note/{mark}"
    )
    assert {(one.line, one.amount) for one in gateway.items(draft.id)} == {
        (f"line_{mark}", 500),
        (f"cn_{mark}", -100),
    }
    found = gateway.find_invoice(customer, f"rcv_{mark}")
    assert found is not None and (found.id, found.total, found.status) == (draft.id, 400, "draft")
    final = gateway.finalize(draft.id, f"finalize/{mark}")
    assert (final.status, final.amount_remaining) == ("open", 400) and final.url
    gateway.credit(draft.id, f"later_{mark}", amount=100, refunded=0, elsewhere=0, key=f"credit/{mark}")
    assert gateway.credit_notes(draft.id).ours == {f"later_{mark}": 100}
    assert gateway.paid_elsewhere(draft.id, f"elsewhere/{mark}").status == "paid"
    assert gateway.payments(draft.id) == []
