"""Keys that are exchanged, exchanged again, and that end themselves."""

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from control_plane.outbox import in_request
from control_plane.outbox.models import Delivery
from tenants.models import ApiKey, Tenant
from tenants.roles import Role, Standing
from tests.control_plane.test_access_lists import account, entry, key_of, owner, person, refused
from tests.control_plane.world import House, call, make_house

pytestmark = pytest.mark.django_db
PRODUCE = [{"resource": "topic", "name": "orders", "pattern": "literal", "operations": ["produce"]}]


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """No worker and no broker runs here, so no request waits for one."""
    monkeypatch.setattr(in_request.deliver_now, "__defaults__", (0.0,))


@pytest.fixture
def house() -> House:
    return make_house("acme")


@pytest.mark.parametrize("days", [None, 100])
def test_a_key_that_is_exchanged_twice_has_two_successors_as_good_as_itself(
    house: House, days: int | None
) -> None:
    """The answer of the first exchange is lost, or two programs exchange it at once."""
    ends = None if days is None else (timezone.now() + timedelta(days=days)).isoformat()
    sa = account(house)
    other, _ = key_of(house, sa, expires_at=(timezone.now() + timedelta(days=200)).isoformat())
    owner(house, "POST", f"keys/{other}/rotate", {"overlap_s": 0})
    key, _ = key_of(house, sa, **({} if ends is None else {"expires_at": ends}))
    made = [
        owner(house, "POST", f"keys/{key}/rotate", {"overlap_s": overlap_s})
        for overlap_s in (120, 30 * 86_400, 60, 0)
    ]
    assert [one["expires_at"] for one in made] == [ends] * 4
    until = [one["replaces"]["expires_at"] for one in made]
    assert until[0] == until[1] > until[2] > until[3], "the old one is not prolonged"
    assert "no longer valid" in refused(house, "POST", f"keys/{key}/rotate", {})[1]


def test_a_key_in_its_overlap_makes_none_that_outlives_it(house: House) -> None:
    key, text = key_of(house, account(house))
    old = owner(house, "POST", f"keys/{key}/rotate", {"overlap_s": 60})["replaces"]
    made = call("POST", f"/v1/keys/{key}/rotate", {"overlap_s": 60}, token=text)
    assert made.body["expires_at"] == old["expires_at"]


def test_an_exchanged_key_that_is_restored_ends_when_it_would_have(house: House) -> None:
    ends = (timezone.now() + timedelta(days=1)).isoformat()
    key, _ = key_of(house, account(house), expires_at=ends)
    owner(house, "POST", f"keys/{key}/rotate", {"overlap_s": 0})
    assert owner(house, "POST", f"keys/{key}/restore", {})["expires_at"] == ends


def test_an_idempotency_key_exchanges_once_and_a_condition_is_refused(house: House) -> None:
    key, _ = key_of(house, account(house))
    token, path, body = house.credentials[Standing.OWNER], f"/v1/keys/{key}/rotate", {"overlap_s": 60}
    dry = call("POST", f"{path}?dry_run=true", body, token=token, Idempotency_Key="once")
    assert dry.status == 200 and ApiKey.objects.filter(name="app").count() == 1
    made = call("POST", path, body, token=token, Idempotency_Key="once").body["id"]
    again = call("POST", path, body, token=token, Idempotency_Key="once")
    assert again.status == 409 and made in again.body["detail"]
    other = call("POST", path, {"overlap_s": 61}, token=token, Idempotency_Key="once")
    assert other.status == 400 and "another request has used this key" in other.body["detail"]
    stale = call("POST", path, body, token=token, If_Match='"1"')
    assert stale.status == 400 and "takes no condition" in stale.body["detail"]
    assert ApiKey.objects.filter(name="app").count() == 2


def test_brokers_hear_when_an_exchanged_key_ends_and_the_tenant_is_locked_before_its_key(
    house: House,
) -> None:
    key, _ = key_of(house, account(house))
    with CaptureQueriesContext(connection) as queries:
        owner(house, "POST", f"keys/{key}/rotate", {"overlap_s": 60})
    rows = Delivery.objects.filter(kind="key", object_id=key)
    assert sorted(rows.values_list("generation", flat=True)) == [1, 2]
    locked = [
        one["sql"].split(" FROM ")[1].split()[0]
        for one in queries.captured_queries
        if "FOR NO KEY" in one["sql"]
    ]
    ours = [table.strip('"') for table in locked if "tenants_" in table]
    assert ours[0] == Tenant._meta.db_table and ApiKey._meta.db_table in ours


def test_a_key_of_a_developer_exchanges_no_key_of_an_account(house: House) -> None:
    key, _ = key_of(house, account(house))
    theirs = call("POST", "/v1/keys", {"name": "mine"}, token=house.credentials[Standing.DEVELOPER]).body[
        "key"
    ]
    assert refused(house, "POST", f"keys/{key}/rotate", {}, token=theirs)[0] == 403
    assert ApiKey.objects.get(public_id=key).expires_at is None


# -- keys that end themselves ---------------------------------------------------------------------------


def test_every_key_may_end_itself_and_no_other(house: House) -> None:
    sa = account(house)
    bare, text = key_of(house, sa)
    scoped, scoped_text = key_of(house, sa, scopes=PRODUCE)
    principal = f"service_account:{sa}"
    for operation in ("alter", "describe"):
        owner(
            house, "POST", "acls", entry("deny", principal, operations=[operation]) | {"resource": "tenant"}
        )
    for one, other, own_text in ((scoped, bare, scoped_text), (bare, scoped, text)):
        assert refused(house, "DELETE", f"keys/{other}", token=own_text)[0] == 403
        reading = call("GET", f"/v1/keys/{one}", token=own_text)
        assert reading.status == (403 if one == scoped else 200), "a key without scopes reads itself"
        dry = call("DELETE", f"/v1/keys/{one}?dry_run=true", token=own_text)
        assert dry.status == 200 and ApiKey.objects.get(public_id=one).revoked_at is None
        assert refused(house, "POST", f"keys/{one}/rotate", {}, token=own_text)[0] == 403
        assert call("DELETE", f"/v1/keys/{one}", token=own_text).body["revoked_at"] is not None
        assert call("DELETE", f"/v1/keys/{one}", token=own_text).status == 401
        if one == scoped:
            assert ApiKey.objects.get(public_id=bare).revoked_at is None


def test_a_key_ends_itself_in_its_own_tenant_only(house: House) -> None:
    key, text = key_of(house, account(house), scopes=PRODUCE)
    other = make_house("umbrella")
    theirs, _ = key_of(other, account(other))
    assert call("DELETE", f"/v1/keys/{key}", token=text, tenant=other.tenant).status == 404
    assert call("DELETE", f"/v1/keys/{theirs}", token=text).status in (403, 404)
    assert call("DELETE", f"/v1/keys/{key}", token=text, If_Match='"7"').status == 412
    assert not ApiKey.objects.exclude(revoked_at=None).exists()


def test_a_key_of_a_person_ends_itself_whatever_the_list_denies(house: House) -> None:
    made = call("POST", "/v1/keys", {"name": "mine"}, token=house.credentials[Standing.DEVELOPER]).body
    deny = entry("deny", person(house, Role.DEVELOPER)) | {"resource": "tenant"}
    owner(house, "POST", "acls", deny)
    assert call("DELETE", f"/v1/keys/{made['id']}", token=made["key"]).status in (200, 202)
