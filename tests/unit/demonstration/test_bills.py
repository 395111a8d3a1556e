"""What the demo says that a tenant pays."""

from demo.bills import Bill
from demo.tenants import Tenant


def test_a_bill_of_some_messages_shows_its_amount() -> None:
    tenant = Tenant(carrier="OO", id="ten_1", email="", password="", topic_id="", api_key="")
    invoice = {"total_micro": 3, "minor_digits": 6, "currency": "USD", "lines": []}
    bill = Bill(tenant=tenant, invoices=(invoice,), cost_micro_per_million=None, valid=0, bad=0)
    assert bill.total == "0.000003 USD"
