"""A caller over a rate is refused before Django, with the same answer, for no longer than the count lasts."""

import json
import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from django.core.handlers.wsgi import WSGIHandler
from django.core.signals import request_finished, request_started
from django.db import close_old_connections
from django.test import RequestFactory

from control_plane.access import actions as access
from control_plane.api import metrics
from control_plane.api.delayed_answers import DELAY
from control_plane.rate_counters import counters
from control_plane.rest import early_refusals
from control_plane.rest.early_refusals import APART_S, AT_ONCE, KEPT_S_MAX, SPREAD_S_MAX, EarlyRefusals
from control_plane.rest.tenant_rates import tenant_rates
from control_plane.rest.throttles import CallerThrottle
from quotas import actions
from tenants.models import Membership, Tenant
from tenants.roles import Role, Standing
from tests.control_plane.world import ACTOR, make_house, make_person, make_tenant

pytestmark = pytest.mark.django_db


@dataclass
class Seen:
    status: int
    headers: dict[str, str]
    body: dict[str, Any]
    early: bool
    """Whether Django was not asked."""
    delayed_until: float | None


@dataclass
class Entry:
    """The application as the HTTP server calls it, at a time that the test sets."""

    now: float = 1_000.0
    asked: int = 0
    application: EarlyRefusals = field(init=False)

    def __post_init__(self) -> None:
        django = WSGIHandler()

        def counted(*given: Any) -> Iterable[bytes]:
            self.asked += 1
            found: Iterable[bytes] = django(*given)
            return found

        self.application = EarlyRefusals(counted, clock=lambda: self.now)

    def call(
        self, token: str | None, path: str = "/v1/topics", *, method: str = "GET", **headers: str
    ) -> Seen:
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        started: list[Any] = []
        environ = RequestFactory().generic(method, path, headers=headers).environ
        delays: list[float] = []
        environ[DELAY] = delays.append
        before = self.asked
        response = self.application(environ, lambda *given: started.append(given))
        body = b"".join(response)
        (status, given), *_ = started
        return Seen(
            status=int(status[:3]),
            headers=dict(given),
            body=json.loads(body) if body[:1] == b"{" else {},
            early=self.asked == before,
            delayed_until=delays[0] if delays else None,
        )

    def refused(self, token: str, path: str = "/v1/topics", **headers: str) -> Seen:
        """The first that is refused; it went the whole way."""
        for _ in range(200):
            seen = self.call(token, path, **headers)
            if seen.status == 429:
                assert not seen.early
                return seen
            assert seen.status == 200
        raise AssertionError("200 calls were let in")

    def count_ends(self) -> None:
        self.now += KEPT_S_MAX
        counters().forget_all()


@pytest.fixture
def entry() -> Iterator[Entry]:
    """It closes no connection between calls: the test's data is in a transaction of it."""
    for signal in (request_started, request_finished):
        signal.disconnect(close_old_connections)
    yield Entry()
    for signal in (request_started, request_finished):
        signal.connect(close_old_connections)


def limited(tenant: Tenant, rest_calls_per_s: int) -> None:
    actions.set_limits(ACTOR, tenant, rest_calls_per_s=rest_calls_per_s)
    tenant_rates.forget_all()


@pytest.fixture
def slow_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    """Callers have 3 calls in a window that outlasts the test."""
    monkeypatch.setattr(CallerThrottle, "rate", "3/hour", raising=False)


def test_who_is_over_the_tenants_rate_gets_the_same_answer_without_django(entry: Entry) -> None:
    house = make_house("acme")
    limited(house.tenant, 2)
    owner = house.credentials[Standing.OWNER]
    first = entry.refused(owner)
    again = entry.call(owner, "/v1/topics?limit=100", X_Request_Id="mine")
    assert again.early and again.status == 429
    assert again.body == first.body and again.body["limit"] == "rest_calls_per_s"
    assert again.headers == first.headers | {"X-Request-Id": "mine"}
    assert entry.call(owner).headers["X-Request-Id"] != first.headers["X-Request-Id"]
    assert entry.call(owner, "/v1/keys").early, "it is the tenant's rate, whatever is asked"


def test_what_shows_the_limit_and_what_revokes_a_key_is_answered_all_the_same(entry: Entry) -> None:
    house = make_house("acme")
    limited(house.tenant, 2)
    owner = house.credentials[Standing.OWNER]
    key, _ = access.create_key(ACTOR, house.tenant, name="leaked")
    entry.refused(owner)
    assert entry.call(owner, "/v1/quotas").status == 200
    assert entry.call(owner, f"/v1/keys/{key.public_id}", method="DELETE").status in (200, 202, 204)
    assert entry.call(owner, "/v1/tenants").status == 200, "it is not about one tenant"
    assert entry.call(owner).early


def test_a_raised_limit_and_a_revoked_key_count_when_the_count_has_ended(entry: Entry) -> None:
    house = make_house("acme")
    limited(house.tenant, 2)
    owner = house.credentials[Standing.OWNER]
    key, text = access.create_key(ACTOR, house.tenant, name="loud")
    entry.refused(owner)
    entry.refused(text.reveal())
    limited(house.tenant, 0)
    assert entry.call(owner, f"/v1/keys/{key.public_id}", method="DELETE").status in (200, 202, 204)
    assert entry.call(owner).early and entry.call(text.reveal()).early
    entry.count_ends()
    assert entry.call(owner).status == 200
    assert entry.call(text.reveal()).status == 401


def test_a_long_count_is_not_remembered_longer_than_a_second(entry: Entry, slow_caller: None) -> None:
    owner = make_house("acme").credentials[Standing.OWNER]
    entry.refused(owner)
    entry.now += KEPT_S_MAX * 0.99
    assert entry.call(owner).early
    entry.now += KEPT_S_MAX * 0.01
    seen = entry.call(owner)
    assert seen.status == 429 and not seen.early
    assert entry.call(owner).early


def test_a_call_that_its_view_counts_otherwise_is_the_views_to_refuse(
    entry: Entry, slow_caller: None
) -> None:
    token = make_house("acme").credentials[Standing.OWNER]
    assert entry.refused(token, "/v1/email").body["limit"] == "rest:caller"
    assert entry.call(token, "/v1/email").early
    assert not entry.call(token, "/v1/email/change", method="POST").early


def test_a_caller_over_its_own_rate_is_refused_whatever_tenant_it_names(
    entry: Entry, slow_caller: None
) -> None:
    house = make_house("acme")
    owner = house.credentials[Standing.OWNER]
    assert entry.refused(owner).body["limit"] == "rest:caller"
    assert entry.call(owner, Penstock_Tenant="ten_other").early
    assert entry.call(owner, "/v1/tenants").early
    assert not entry.call(house.credentials[Standing.ADMIN]).early


def test_another_tenant_of_the_same_person_another_credential_and_no_credential_are_let_through(
    entry: Entry,
) -> None:
    house, other = make_house("acme"), make_tenant("globex")
    person, token = make_person("both@acme.example")
    for tenant in (house.tenant, other):
        Membership.objects.create(tenant=tenant, person=person, role=Role.OWNER)
    limited(house.tenant, 2)
    entry.refused(token, Penstock_Tenant=house.tenant.public_id)
    assert entry.call(token, Penstock_Tenant=house.tenant.public_id).early
    assert entry.call(token, Penstock_Tenant=other.public_id).status == 200
    assert not entry.call(token, Penstock_Tenant=f"{house.tenant.public_id}x").early
    assert (
        entry.call(house.credentials[Standing.OPERATOR], Penstock_Tenant=house.tenant.public_id).status == 200
    )
    assert entry.call(None).status == 401
    assert entry.call(f"{token}x").status == 401


def test_only_credentials_of_rest_are_looked_at(entry: Entry) -> None:
    house = make_house("acme")
    limited(house.tenant, 2)
    owner = house.credentials[Standing.OWNER]
    entry.refused(owner)
    assert not entry.call(owner, "/console/sign-in", Cookie="penstock-session=x").early
    assert not entry.call(None, Cookie=f"penstock-session={owner}").early
    assert not entry.call(owner, "/v1/none-such").early
    assert not entry.call(owner, "/v1/\xff").early


def test_a_tenant_that_the_path_names_is_that_of_the_refusal(entry: Entry) -> None:
    house, other = make_house("acme"), make_tenant("globex")
    person, token = make_person("both@acme.example")
    for tenant in (house.tenant, other):
        Membership.objects.create(tenant=tenant, person=person, role=Role.OWNER)
    limited(house.tenant, 2)
    entry.refused(token, f"/v1/tenants/{house.tenant.public_id}")
    assert entry.call(token, f"/v1/tenants/{house.tenant.public_id}").early
    assert entry.call(token, f"/v1/tenants/{other.public_id}").status == 200


def test_early_refusals_are_counted_by_tenant_and_logged_together(
    entry: Entry, caplog: pytest.LogCaptureFixture
) -> None:
    house = make_house("acme")
    limited(house.tenant, 2)
    owner = house.credentials[Standing.OWNER]
    entry.refused(owner)
    labels = {"tenant": house.tenant.public_id, "limit": "rest_calls_per_s"}
    before = metrics.registry.get_sample_value("penstock_http_limit_refusals_total", labels) or 0
    for _ in range(5):
        assert entry.call(owner).early
    assert metrics.registry.get_sample_value("penstock_http_limit_refusals_total", labels) == before + 5
    with caplog.at_level(logging.INFO, "control_plane.requests"):
        entry.count_ends()
        entry.refused(owner)
    (line,) = [record for record in caplog.records if record.msg == "requests refused early"]
    assert (line.tenant, line.limit, line.requests) == (*labels.values(), 5)  # type: ignore[attr-defined]


def test_who_goes_on_asking_hears_it_when_the_count_has_ended(entry: Entry, slow_caller: None) -> None:
    owner = make_house("acme").credentials[Standing.OWNER]
    for _ in range(2):
        first = entry.refused(owner)
        ends = entry.now + KEPT_S_MAX
        assert first.delayed_until is None
        entry.now += KEPT_S_MAX / 2
        seen = [entry.call(owner) for _ in range(AT_ONCE + 200)]
        assert all(one.early for one in seen)
        delays = [one.delayed_until for one in seen]
        assert delays[:AT_ONCE] == [None] * AT_ONCE
        assert delays[AT_ONCE : AT_ONCE + 3] == [ends, ends + APART_S, ends + 2 * APART_S], (
            "one after the other"
        )
        assert delays[-1] == ends + SPREAD_S_MAX
        entry.now = ends


def test_what_is_remembered_is_bounded(entry: Entry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(early_refusals, "REMEMBERED_MAX", 2)
    house = make_house("acme")
    limited(house.tenant, 1)
    callers = [house.credentials[standing] for standing in (Standing.OWNER, Standing.ADMIN, Standing.KEY)]
    for token in callers:
        entry.refused(token)
    assert len(entry.application._answers) == 2
    assert not entry.call(callers[0]).early, "the oldest went"
    remembered = repr(entry.application._answers)
    assert not any(token in remembered for token in callers)


def test_who_has_used_up_the_tenants_processor_time_is_refused_early_for_the_tenant(entry: Entry) -> None:
    house = make_house("acme")
    actions.set_limits(ACTOR, house.tenant, rest_processor_ms_per_s=1)
    tenant_rates.forget_all()
    owner = house.credentials[Standing.OWNER]
    first = entry.refused(owner)
    again = entry.call(owner, "/v1/keys")
    assert again.early and again.body == first.body and again.body["limit"] == "rest_processor_ms_per_s"
    assert entry.call(owner, "/v1/quotas").status == 200, "what shows the limit"


def test_calls_that_are_refused_at_the_same_time_begin_one_count_of_what_leaves_at_once(
    entry: Entry, slow_caller: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = make_house("acme").credentials[Standing.OWNER]
    entry.refused(owner)
    for _ in range(AT_ONCE):
        assert entry.call(owner).delayed_until is None
    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(entry.application, "_known", lambda *_: None)
        assert not entry.call(owner).early
    assert entry.call(owner).delayed_until is not None
