"""Sixteen carriers become sixteen tenants: signed up over REST, each with a topic and a key."""

import secrets
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from demo.reach import ca_file
from penstock.admin.blocking import Admin
from penstock.contract.topic_settings import UNLIMITED
from penstock.rest.client import RestClient

TOPIC = "flights"
PARTITIONS = 3
SEGMENT_BYTES = 256 * 1024
"""Small, so that segments are sealed while the demo runs and the invoices' evidence holds their seals."""
_AT_ONCE = 4
_CALL_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant:
    """One carrier's account."""

    carrier: str
    id: str
    email: str
    password: str
    topic_id: str
    api_key: str


def sign_up_all(api_url: str, carriers: Sequence[str], tell: Callable[[int], None]) -> list[Tenant]:
    """Make them all; `tell` is called with how many are done. Raises what the service refuses with."""
    done = 0
    tenants: list[Tenant] = []
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for tenant in pool.map(lambda carrier: _sign_up(api_url, carrier), carriers):
            tenants.append(tenant)
            done += 1
            tell(done)
    return tenants


def _sign_up(api_url: str, carrier: str) -> Tenant:
    email, password = f"{carrier.lower()}@carriers.example", secrets.token_urlsafe(12)
    with RestClient(api_url, ca_file=ca_file(), timeout_s=_CALL_S) as rest:
        answer = rest.post(
            "/v1/sign-up", {"email": email, "password": password, "tenant": f"carrier-{carrier}"}
        )
    tenant = str(answer["tenant"]["id"])
    with RestClient(api_url, answer["token"], ca_file(), timeout_s=_CALL_S) as rest:
        admin = Admin(rest)
        topic = admin.create_topic(
            TOPIC,
            PARTITIONS,
            retention_ms=UNLIMITED,
            retention_bytes=UNLIMITED,
            segment_bytes=SEGMENT_BYTES,
        )
        key = admin.create_key("demo")
    return Tenant(
        carrier=carrier,
        id=tenant,
        email=email,
        password=password,
        topic_id=topic.topic_id,
        api_key=key.api_key,
    )
