"""The operators' pages of tenants: limits are set and audited, tenants suspended, the service's own left alone."""

import re

import pytest
from django.test import Client

from control_plane.audit.models import AuditEntry
from control_plane.outbox import in_request
from penstock.contract.ids import SYSTEM_TENANT
from quotas.queries import limits_of
from tenants import actions
from tenants.models import Tenant
from tenants.roles import Standing
from tests.control_plane.world import ACTOR, House, make_house

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_request.deliver_now, "__defaults__", (0.0,))


@pytest.fixture
def house() -> House:
    return make_house("acme")


@pytest.fixture
def operator(house: House) -> Client:
    client = Client()
    client.post("/operator/sign-in", {"token": house.credentials[Standing.OPERATOR]})
    return client


def last_entry(house: House) -> AuditEntry:
    return AuditEntry.objects.filter(tenant=house.tenant.public_id).latest("sequence")


def test_an_operator_finds_a_tenant_and_sets_its_limits(house: House, operator: Client) -> None:
    make_house("umbrella")
    listed = operator.get("/operator/tenants?q=ACM").content.decode()
    assert "acme" in listed and "umbrella" not in listed and "1 of 2 tenants" in listed
    address = f"/operator/tenants/{house.tenant.public_id}"
    assert address in listed
    before = Tenant.objects.get(pk=house.tenant.pk).generation
    given = {"produce_bytes_per_s": "1 000 000", "consume_bytes_per_s": "3 000 000", "partitions_max": "12"}
    answer = operator.post(address, given)
    assert answer.status_code == 302
    limits = limits_of(house.tenant)
    assert (limits.produce_bytes_per_s, limits.consume_bytes_per_s) == (1_000_000, 3_000_000)
    assert limits.partitions_max == 12
    assert Tenant.objects.get(pk=house.tenant.pk).generation == before + 1
    entry = last_entry(house)
    assert (entry.action, entry.actor_kind) == ("quota.set", "operator")
    assert entry.before["partitions_max"] == 1_000 and entry.after["partitions_max"] == 12
    assert "quota.set" in operator.get(address).content.decode()


@pytest.mark.parametrize("given", ["", "-1", "many", "9" * 30, str(2**53 + 1)])
def test_a_limit_that_is_none_comes_back_with_the_reason(house: House, operator: Client, given: str) -> None:
    address = f"/operator/tenants/{house.tenant.public_id}"
    limits = {"produce_bytes_per_s": given, "consume_bytes_per_s": "0", "partitions_max": "1"}
    answer = operator.post(address, limits)
    assert answer.status_code == 422
    assert 'aria-invalid="true"' in answer.content.decode()
    assert limits_of(house.tenant).partitions_max == 1_000


def test_an_operator_suspends_and_resumes(house: House, operator: Client) -> None:
    address = f"/operator/tenants/{house.tenant.public_id}/suspended"
    for wanted, action in (("yes", "tenant.suspend"), ("no", "tenant.resume")):
        assert operator.post(address, {"suspended": wanted}).status_code == 302
        assert last_entry(house).action == action
        assert Tenant.objects.get(pk=house.tenant.pk).suspended == (wanted == "yes")


def test_the_services_own_tenant_is_not_to_be_touched(operator: Client) -> None:
    actions.create_tenant(ACTOR, name="service", public_id=SYSTEM_TENANT)
    assert SYSTEM_TENANT not in operator.get("/operator/tenants").content.decode()
    assert operator.get(f"/operator/tenants/{SYSTEM_TENANT}").status_code == 404
    assert (
        operator.post(f"/operator/tenants/{SYSTEM_TENANT}/suspended", {"suspended": "yes"}).status_code == 404
    )


def test_people_of_a_tenant_are_no_operators(house: House) -> None:
    client = Client()
    client.cookies["penstock"] = house.credentials[Standing.OWNER]
    address = f"/operator/tenants/{house.tenant.public_id}"
    for answer in (client.get(address), client.post(address, {"partitions_max": "0"})):
        assert answer.status_code == 302 and answer["Location"] == "/operator/sign-in"
    assert limits_of(house.tenant).partitions_max == 1_000


def test_rates_of_requests_and_how_rates_are_kept_are_set_here_and_shown_to_the_tenant(
    house: House, operator: Client
) -> None:
    address = f"/operator/tenants/{house.tenant.public_id}"
    given = {
        "produce_bytes_per_s": "0", "consume_bytes_per_s": "0", "partitions_max": "0", "requests_per_s": "300",
        "connection_attempts_per_s": "7", "rate_burst_ms": "2500", "rate_floor_percent": "8",
        "broker_processor_ms_per_s": "150",
    }  # fmt: skip
    assert operator.post(address, given).status_code == 302
    limits = limits_of(house.tenant)
    assert (limits.requests_per_s, limits.connection_attempts_per_s) == (300, 7)
    assert (limits.rate_burst_ms, limits.rate_floor_percent) == (2_500, 8)
    assert limits.broker_processor_ms_per_s == 150
    client = Client()
    client.cookies["penstock"] = house.credentials[Standing.OWNER]
    page = client.get(f"/t/{house.tenant.name}").content.decode()
    shown = dict(re.findall(r'"name">([^<]+?) <span.*?At most">([^<]+?)</td>', page))
    assert {name: shown[name] for name in ("Requests", "New connections", "Burst", "Floor")} == {
        "Requests": "300", "New connections": "7", "Burst": "2,500 ms", "Floor": "8 %",
    }  # fmt: skip
    refused = operator.post(address, given | {"rate_floor_percent": "11"})
    assert refused.status_code == 422 and "11 is not within 0 to 10" in refused.content.decode()
    assert limits_of(house.tenant).rate_floor_percent == 8
