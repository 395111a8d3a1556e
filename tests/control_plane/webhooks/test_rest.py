"""Webhooks over REST, at the command line and in the console: made, changed, shown once, limited."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.test import Client

from control_plane.audit.models import AuditEntry
from control_plane.webhooks import actions, outcomes
from control_plane.webhooks.models import Webhook, WebhookPosition
from control_plane.webhooks.shown import shown_url
from penstock.contract import limits
from tenants.roles import Standing
from tests.control_plane.webhooks.hooked import happen, make, turn
from tests.control_plane.world import ACTOR, House, call
from tests.webhook_receiver import Receiver, Reply

pytestmark = pytest.mark.django_db
URL = "https://hooks.example.com/hush/penstock?token=hush-hush"
GOOD = {"name": "siem", "url": URL, "events": ["audit.*"]}


def owner(house: House, method: str, path: str, body: Any = None, **headers: str) -> Any:
    return call(method, path, body, token=house.credentials[Standing.OWNER], **headers)


def test_its_secret_is_shown_once_and_stands_in_no_later_answer(house: House) -> None:
    made = owner(house, "POST", "/v1/webhooks", GOOD, Idempotency_Key="a")
    assert made.status == 201 and made.body["secret"].startswith("whsec_")
    path = f"/v1/webhooks/{made.body['id']}"
    for shown in (owner(house, "GET", path), owner(house, "GET", "/v1/webhooks")):
        assert made.body["secret"] not in repr(shown.body) and "secret" not in shown.body
    again = owner(house, "POST", "/v1/webhooks", GOOD, Idempotency_Key="a")
    assert again.status == 409 and made.body["id"] in again.body["detail"]
    rotated = owner(house, "POST", f"{path}/rotate", {"overlap_s": 60})
    assert rotated.body["secret"] not in ("", made.body["secret"])
    assert rotated.body["old_secret_until"] is not None
    assert rotated.headers["ETag"] != made.headers["ETag"]


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://hooks.example.com", "https://hooks.example.com/"),
        ("https://hooks.example.com:8443/", "https://hooks.example.com:8443/"),
        ("https://hooks.example.com/services/T0/B0/hush", "https://hooks.example.com/…hmac:"),
        ("https://hooks.example.com:8443/?token=hush", "https://hooks.example.com:8443/…hmac:"),
        ("https://hooks.example.com?token=hush", "https://hooks.example.com/…hmac:"),
        ("https://[2606:4700::1111]:1/hush", "https://[2606:4700::1111]:1/…hmac:"),
    ],
)
def test_path_and_query_of_an_address_are_a_digest(url: str, shown: str) -> None:
    assert shown_url(url).startswith(shown) and "hush" not in shown_url(url)
    assert len(shown_url(url)) == len(shown) + (16 if shown.endswith(":") else 0)
    assert shown_url(url) != shown_url(url + "2")


def test_the_audit_log_does_not_tell_what_stands_in_an_addresses_path_and_query(house: House) -> None:
    made = owner(house, "POST", "/v1/webhooks", GOOD)
    path = f"/v1/webhooks/{made.body['id']}"
    assert owner(house, "PATCH", path, {"url": URL + "2"}).status == 200
    entries = AuditEntry.objects.filter(object_kind="webhook")
    assert [one.action for one in entries.order_by("sequence")] == ["webhook.create", "webhook.change"]
    assert not any("hush" in repr((one.before, one.after)) for one in entries)
    changed = entries.get(action="webhook.change")
    assert changed.before["url"] != changed.after["url"], "that it changed is told"
    # What changes nothing leaves no entry.
    owner(house, "PATCH", path, {"url": URL + "2", "state": "on"})
    assert entries.count() == 2


def test_a_tenant_has_so_many_and_two_of_no_name(house: House, endpoint: Receiver) -> None:
    for number in range(limits.WEBHOOKS_PER_TENANT_MAX):
        make(house.tenant, endpoint, name=f"hook-{number}")
    refused = owner(house, "POST", "/v1/webhooks", GOOD)
    assert (refused.status, refused.body["code"]) == (422, "limit_exceeded")
    actions.delete(ACTOR, house.tenant, Webhook.objects.get(name="hook-0").public_id)
    assert owner(house, "POST", "/v1/webhooks", {**GOOD, "name": "hook-1"}).status == 409
    assert owner(house, "POST", "/v1/webhooks", GOOD).status == 201


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"url": "https://127.0.0.1/"}, "url"),
        ({"url": "http://hooks.example.com/"}, "url"),
        ({"events": []}, "events"),
        ({"events": ["invoices.*"]}, "events"),
        ({"url": f"https://hooks.example.com/{'p' * limits.WEBHOOK_URL_LENGTH_MAX}"}, "url"),
        ({"events": [f"audit.topic.{number}" for number in range(limits.WEBHOOK_EVENTS_MAX + 1)]}, "events"),
        ({"name": ""}, "name"),
        ({"name": "a\u202eb"}, "name"),
    ],
)
def test_what_cannot_be_is_refused_by_its_field(body: dict[str, Any], field: str, house: House) -> None:
    refused = owner(house, "POST", "/v1/webhooks", {**GOOD, **body})
    assert refused.status == 400 and field in refused.body["fields"], refused.body
    assert not Webhook.objects.exists()


def test_overlaps_that_cannot_be_are_refused(house: House) -> None:
    path = f"/v1/webhooks/{owner(house, 'POST', '/v1/webhooks', GOOD).body['id']}"
    for wrong in (-1, 7 * 86_400 + 1, 10**30):
        assert owner(house, "POST", f"{path}/rotate", {"overlap_s": wrong}).status == 400


def test_it_is_switched_off_resumed_pinged_and_its_log_read(house: House, endpoint: Receiver) -> None:
    row, _ = make(house.tenant, endpoint)
    path = f"/v1/webhooks/{row.public_id}"
    off = owner(house, "PATCH", path, {"state": "off"})
    assert (off.body["state"], off.body["reason"]) == ("off", "asked") and off.body["off_at"]
    assert turn(row) == 0
    pinged = owner(house, "POST", f"{path}/ping")
    assert pinged.status == 202
    assert turn(row) == 1
    (attempt,) = owner(house, "GET", f"{path}/attempts").body["items"]
    assert attempt["event_id"] == pinged.body["event_id"] and attempt["delivered"]
    assert owner(house, "POST", f"{path}/resume", {}).body["state"] == "on"
    endpoint.script = lambda got: Reply(status=500)
    assert turn(row) == 1
    failing = owner(house, "GET", path).body
    assert failing["failures"] == 1 and failing["waiting"] > 0
    log = owner(house, "GET", f"{path}/attempts", None).body["items"]
    assert [one["delivered"] for one in log] == [False, True], "newest first"
    page = owner(house, "GET", f"{path}/attempts?limit=1").body
    rest = owner(house, "GET", f"{path}/attempts?limit=1&cursor={page['next']}").body
    assert [page["items"][0], rest["items"][0]] == log and rest["next"] is None


def test_a_change_is_made_of_what_was_read(house: House) -> None:
    made = owner(house, "POST", "/v1/webhooks", GOOD)
    path, read = f"/v1/webhooks/{made.body['id']}", made.headers["ETag"]
    assert owner(house, "PATCH", path, {"events": ["audit.key.*"]}, If_Match=read).status == 200
    assert owner(house, "PATCH", path, {"state": "off"}, If_Match=read).status == 412
    assert owner(house, "DELETE", path, If_Match=read).status == 412
    assert owner(house, "DELETE", path).status == 204
    assert owner(house, "GET", path).status == 404


def test_a_webhook_from_before_a_source_was_there_gets_what_it_has_from_then_on(
    house: House, endpoint: Receiver
) -> None:
    row, _ = make(house.tenant, endpoint, events=["*"])
    WebhookPosition.objects.all().delete()
    happen(house.tenant, "topic.create")
    outcomes.begin_sources()
    outcomes.begin_sources()
    assert turn(row) == 0
    happen(house.tenant, "topic.delete")
    assert turn(row) == 1


# -- the console ----------------------------------------------------------------------------------------


@pytest.fixture
def browser(house: House) -> Iterator[Client]:
    client = Client()
    client.cookies["penstock"] = house.credentials[Standing.OWNER]
    yield client


def test_a_person_makes_tests_stops_and_deletes_one_in_the_console(
    house: House, endpoint: Receiver, browser: Client
) -> None:
    wrong = browser.post(
        "/t/acme/new-webhook", {"name": "x", "url": "http://a.example/", "events": "audit.*"}
    )
    assert wrong.status_code == 422 and "https://host/path required" in wrong.content.decode()
    made = browser.post(
        "/t/acme/new-webhook", {"name": "siem", "url": endpoint.url, "events": "audit.topic.*\naudit.key.*"}
    )
    row = Webhook.objects.get()
    assert row.events == ["audit.key.*", "audit.topic.*"]
    assert "whsec_" in made.content.decode()
    page = f"/t/acme/webhooks/{row.public_id}"
    assert "whsec_" not in browser.get(page).content.decode()
    browser.post(f"{page}/ping")
    assert turn(row) == 1
    shown = browser.get(page).content.decode()
    assert "webhook.ping" in shown and "taken" in shown
    browser.post(f"{page}/switch", {"to": "off"})
    assert "Nothing is sent." in browser.get(page).content.decode()
    happen(house.tenant, "topic.create")
    browser.post(f"{page}/switch", {"to": "skip"})
    assert turn(row) == 0 and Webhook.objects.get().state == "on"
    assert "whsec_" in browser.post(f"{page}/rotate", {"overlap": "24"}).content.decode()
    browser.post(f"{page}/change", {"name": "other", "url": endpoint.url, "events": "*"})
    assert Webhook.objects.get().name == "other"
    assert browser.post(f"{page}/delete").status_code == 302
    assert not Webhook.objects.exists()


def test_who_only_reads_sees_no_button(house: House, endpoint: Receiver) -> None:
    row, _ = make(house.tenant, endpoint)
    client = Client()
    client.cookies["penstock"] = house.credentials[Standing.AUDITOR]
    shown = client.get(f"/t/acme/webhooks/{row.public_id}").content.decode()
    assert "Send a test event" not in shown and shown_url(row.url) in shown
    lists = client.get("/t/acme/webhooks").content.decode()
    assert shown_url(row.url) in lists
    assert row.url not in shown + lists, "its path may be a secret"
    assert client.post(f"/t/acme/webhooks/{row.public_id}/ping").status_code == 403


def test_all_of_an_address_is_read_by_who_may_change_it(house: House) -> None:
    path = f"/v1/webhooks/{owner(house, 'POST', '/v1/webhooks', GOOD).body['id']}"
    for standing in (Standing.OWNER, Standing.ADMIN, Standing.AUDITOR):
        token = house.credentials[standing]
        one = call("GET", path, token=token).body
        (listed,) = call("GET", "/v1/webhooks", token=token).body["items"]
        wanted = shown_url(URL) if standing == Standing.AUDITOR else URL
        assert one["url"] == listed["url"] == wanted, standing
    assert owner(house, "PATCH", path, {"name": "other"}).body["url"] == URL
    client = Client()
    client.cookies["penstock"] = house.credentials[Standing.OWNER]
    assert URL in client.get(path.replace("/v1", "/t/acme")).content.decode()
