"""A budget stops a tenant: it may send so many messages to a topic, and sends until the brokers refuse."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from demo.reach import ca_file
from demo.tenants import Tenant
from demo.traffic import TrafficFailed
from penstock import Client
from penstock.admin.blocking import Admin
from penstock.contract.errors import LimitExceeded
from penstock.rest.client import RestClient

TOPIC = "limited"
MESSAGES = 2_000
"""The budget's amount, which is not passed by more than 1 %."""
OVER_PERCENT = 1
_BATCH = 50
_CALL_S = 60.0
_WITHIN_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopped:
    """What became of it."""

    sent: int
    """Messages that the brokers took."""
    said: str
    """Their refusal, which names the budget."""

    @property
    def at_its_amount(self) -> bool:
        """Within what is promised, and by the budget."""
        most = MESSAGES * (100 + OVER_PERCENT) // 100
        return MESSAGES * (100 - OVER_PERCENT) // 100 <= self.sent <= most and f"'{TOPIC}'" in self.said


def stop_by_budget(
    bootstrap: Sequence[str], api_url: str, tenant: Tenant, tell: Callable[[int], None]
) -> Stopped:
    """Make a topic and a budget of it as the tenant's owner, and produce until the brokers refuse. Raises
    `TrafficFailed` when they do not, and what the service refuses with.
    """
    with RestClient(api_url, ca_file=ca_file(), timeout_s=_CALL_S) as door:
        token = door.post("/v1/sign-in", {"email": tenant.email, "password": tenant.password})["token"]
    with RestClient(api_url, token, ca_file(), tenant=tenant.id, timeout_s=_CALL_S) as rest:
        Admin(rest).create_topic(TOPIC, 1)
        budget = rest.post(
            "/v1/budgets",
            {
                "name": TOPIC,
                "period": "month",
                "measure": "messages",
                "amount": MESSAGES,
                "policy": "refuse_produce",
                "topic": TOPIC,
            },
        )
        ready_by = time.monotonic() + _WITHIN_S
        while not budget["delivered"]:
            if time.monotonic() > ready_by:
                raise TrafficFailed("the brokers did not get the budget in time")
            # The same again changes nothing, and waits for the brokers.
            budget = rest.patch(f"/v1/budgets/{budget['id']}", {"amount": MESSAGES})
    sent, deadline = 0, time.monotonic() + _WITHIN_S
    with Client(bootstrap=list(bootstrap), api_key=tenant.api_key) as client, client.producer() as producer:
        while time.monotonic() < deadline:
            said = ""
            for delivery in [producer.send(TOPIC, b"one more") for _ in range(_BATCH)]:
                try:
                    delivery.result(timeout=_WITHIN_S)
                    sent += 1
                except LimitExceeded as refused:
                    said = said or refused.message
            if said:
                return Stopped(sent=sent, said=said)
            tell(min(sent, MESSAGES))
    raise TrafficFailed(f"{sent:,} messages were taken, and a budget of {MESSAGES:,} did not stop them")
