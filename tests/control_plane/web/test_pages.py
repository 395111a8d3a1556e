"""Pages over Django's test client: doors, permissions, tenants apart, nothing inline, names as text."""

import re
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from django.http import HttpResponse
from django.test import Client, RequestFactory
from django.urls import reverse
from django.utils import timezone

from control_plane.access import actions as access
from control_plane.access import queries as queries_of_keys
from control_plane.access.models import AclEntry, PrincipalGroup
from control_plane.outbox import in_request
from control_plane.topics import actions as topics
from control_plane.topics import queries as topic_queries
from control_plane.topics.models import Topic
from penstock.contract.errors import (
    GroupNotEmpty,
    GroupNotFound,
    NotEnoughReplicas,
    OutcomeUnknown,
    PenstockError,
)
from penstock.rules.access import Scope
from quotas.actions import set_limits
from tenants import actions
from tenants.models import ApiKey, ServiceAccount, Session
from tenants.roles import Standing
from tenants.service_accounts.actions import create_service_account
from tests.control_plane.steps import walk
from tests.control_plane.world import (
    ACTOR,
    PASSWORD,
    House,
    call,
    everything_delivered,
    make_house,
    make_person,
)
from web import errors
from web.forms.fields import TEXT_MAX
from web.refusals import as_sentence
from web.urls import urlpatterns

if TYPE_CHECKING:
    from django.test.client import _MonkeyPatchedWSGIResponse as Response

pytestmark = pytest.mark.django_db

INLINE = re.compile(r"<style|\sstyle=|\son[a-z]+=|<script(?![^>]*\ssrc=)|javascript:", re.IGNORECASE)
HOSTILE = '"><img src=x onerror=alert(1)><b>'
ARGUMENTS = {
    "topic": "top_nothing",
    "name": "orders",
    "key": "key_nothing",
    "invoice": "inv_nothing",
    "credit_note": "cn_nothing",
    "meter": "messages_in",
}
NEW_TOPIC = {
    "partitions": "1",
    "retention": "7",
    "retention_unit": "days",
    "durability": "fsync",
    "max_message_kib": "1024",
}
ARGUMENTS |= {"partition": "0", "offset": "0"}
ARGUMENTS |= {"member": "usr_nothing", "invitation": "ivt_nothing"}
ARGUMENTS |= {"month": "2004-02", "form": "csv"}
ARGUMENTS |= {"webhook": "whk_nothing"}
ARGUMENTS |= {"budget": "bud_nothing"}
ARGUMENTS |= {"acl": "acl_nothing", "account": "sa_nothing", "group": "grp_nothing"}
ARGUMENTS |= {"version": "1"}


def signed_in(house: House, standing: Standing = Standing.OWNER, *, csrf: bool = False) -> Client:
    client = Client(enforce_csrf_checks=csrf)
    client.cookies["penstock"] = house.credentials[standing]
    return client


def pages_of_a_tenant() -> list[tuple[str, list[str]]]:
    """Name and arguments behind the tenant of every address below /t/."""
    found = []
    for pattern in urlpatterns:
        route = str(pattern.pattern)
        if route.startswith("t/"):
            names = re.findall(r"<str:(\w+)>", route)[1:]
            found.append((str(pattern.name), [ARGUMENTS[name] for name in names]))
    return found


@pytest.fixture
def house() -> House:
    made = make_house("acme")
    topics.create_topic(ACTOR, made.tenant, name="orders", partitions=3, settings={})
    everything_delivered()
    return made


def text_of(response: "Response | HttpResponse") -> str:
    return response.content.decode()


# -- the door -------------------------------------------------------------------------------------------


def test_who_has_not_signed_in_is_led_to_the_door_and_back(house: House) -> None:
    client = Client()
    response = client.get("/t/acme/topics?q=a")
    assert response.status_code == 302
    assert response["Location"] == "/sign-in?next=/t/acme/topics%3Fq%3Da"
    make_person("anna@acme.example")
    assert "next" in text_of(client.get(response["Location"]))


def test_signing_up_makes_a_tenant_and_an_http_only_session() -> None:
    client = Client()
    response = client.post(
        "/sign-up", {"email": "new@acme.example", "password": PASSWORD, "tenant": "newcomers"}
    )
    assert response.status_code == 302
    assert response["Location"] == "/t/newcomers"
    cookie = response.cookies["penstock"]
    assert cookie["httponly"]
    assert cookie["samesite"] == "Lax"
    assert client.get("/t/newcomers").status_code == 200


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("email", "nobody", "no e-mail address"),
        ("password", "short", "too short"),
        ("tenant", "a b", "A-Z a-z 0-9"),
    ],
)
def test_a_wrong_sign_up_comes_back_with_what_is_wrong_and_no_password(
    field: str, value: str, said: str
) -> None:
    given = {"email": "new@acme.example", "password": PASSWORD, "tenant": "newcomers", field: value}
    response = Client().post("/sign-up", given)
    assert response.status_code == 422
    assert said in text_of(response)
    assert PASSWORD not in text_of(response)


def test_signing_in_opens_a_new_session_and_ends_the_one_the_browser_had() -> None:
    client = Client()
    client.post("/sign-up", {"email": "new@acme.example", "password": PASSWORD, "tenant": "newcomers"})
    first = client.cookies["penstock"].value
    client.post("/sign-in", {"email": "new@acme.example", "password": PASSWORD})
    second = client.cookies["penstock"].value
    assert first != second
    assert Session.objects.count() == 1


def test_a_session_that_was_planted_is_not_taken_over() -> None:
    victim = Client()
    victim.post("/sign-up", {"email": "new@acme.example", "password": PASSWORD, "tenant": "newcomers"})
    fixed = Client()
    fixed.cookies["penstock"] = "pss_planted"
    fixed.post("/sign-in", {"email": "new@acme.example", "password": PASSWORD})
    assert fixed.cookies["penstock"].value != "pss_planted"
    stranger = Client()
    stranger.cookies["penstock"] = "pss_planted"
    assert stranger.get("/t/newcomers").status_code == 302


@pytest.mark.parametrize(
    "elsewhere", ["https://evil.example/", "//evil.example", "javascript:alert(1)", "/\\evil"]
)
def test_signing_in_never_leads_to_another_host(elsewhere: str) -> None:
    client = Client()
    client.post("/sign-up", {"email": "new@acme.example", "password": PASSWORD, "tenant": "newcomers"})
    response = client.post("/sign-in", {"email": "new@acme.example", "password": PASSWORD, "next": elsewhere})
    assert response["Location"] == "/"


def test_guessing_a_password_is_slowed_down() -> None:
    make_person("anna@acme.example")
    client = Client()
    answers = [
        client.post("/sign-in", {"email": "anna@acme.example", "password": f"guess number {n}"}).status_code
        for n in range(12)
    ]
    assert answers == [422] * 10 + [429] * 2


def test_signing_out_ends_the_session_for_good(house: House) -> None:
    client = signed_in(house)
    token = client.cookies["penstock"].value
    client.post("/sign-out")
    again = Client()
    again.cookies["penstock"] = token
    assert again.get("/t/acme").status_code == 302


def test_a_form_without_its_token_is_refused(house: House) -> None:
    client = signed_in(house, csrf=True)
    response = client.post("/t/acme/new-topic", {"name": "x", "partitions": "1"})
    assert response.status_code == 403
    assert "form was refused" in text_of(response)


# -- tenants and roles ----------------------------------------------------------------------------------


def test_no_page_of_another_tenant_is_found(house: House) -> None:
    client = signed_in(make_house("umbrella"))
    with walk() as step:
        for name, arguments in pages_of_a_tenant():
            with step(f"{name} {arguments}"):
                address = reverse(f"web:{name}", args=[house.tenant.name, *arguments])
                for response in (client.get(address), client.post(address)):
                    assert response.status_code in (404, 405)
                    assert "orders" not in text_of(response).replace(address, "")


def test_lists_hold_nothing_of_another_tenant(house: House) -> None:
    topics.create_topic(ACTOR, house.tenant, name="secret-plans", partitions=1, settings={})
    other = signed_in(make_house("umbrella"))
    assert "secret-plans" not in text_of(other.get("/t/umbrella/topics"))
    assert "acme" not in text_of(other.get("/t/umbrella/keys?all=1"))
    assert "secret-plans" not in text_of(other.get("/t/umbrella/audit"))


@pytest.mark.parametrize(
    ("standing", "page", "status"),
    [
        (Standing.BILLING, "topics", 200),
        (Standing.BILLING, "usage", 200),
        (Standing.BILLING, "invoices", 200),
        (Standing.BILLING, "topics/orders/messages", 403),
        (Standing.BILLING, "new-topic", 403),
        (Standing.BILLING, "keys", 403),
        (Standing.BILLING, "audit", 403),
        (Standing.AUDITOR, "audit", 200),
        (Standing.AUDITOR, "topics/orders/messages", 403),
        (Standing.AUDITOR, "topics/orders/delete", 403),
        (Standing.BILLING, "verifying-keys", 200),
        (Standing.AUDITOR, "new-verifying-key", 200),
        (Standing.DEVELOPER, "verifying-keys", 403),
        (Standing.DEVELOPER, "invoices", 403),
        (Standing.DEVELOPER, "new-key", 200),
    ],
)
def test_pages_follow_the_permission_table(house: House, standing: Standing, page: str, status: int) -> None:
    response = signed_in(house, standing).get(f"/t/acme/{page}")
    assert response.status_code == status


def test_what_one_may_not_do_is_not_offered(house: House) -> None:
    text = text_of(signed_in(house, Standing.BILLING).get("/t/acme/topics"))
    assert "New topic" not in text
    assert "/t/acme/keys" not in text


# -- what every page carries ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "page",
    [
        *("", "/topics", "/topics/orders", "/new-topic", "/topics/orders/settings", "/topics/orders/delete"),
        *("/topics/orders/send", "/groups", "/keys", "/new-key", "/usage", "/invoices", "/audit", "/nothing"),
        *("/people", "/invite", "/bin", "/access/reports", "/access/reports/now"),
    ],
)
def test_pages_have_a_strict_policy_and_nothing_inline(house: House, page: str) -> None:
    response = signed_in(house).get(f"/t/acme{page}")
    policy = response["Content-Security-Policy"]
    assert "default-src 'self'" in policy
    assert "unsafe" not in policy
    assert "no-store" in response["Cache-Control"]
    assert not INLINE.findall(text_of(response))
    assert not re.findall(r"(?:src|href)=\"(?:https?:)?//", text_of(response))


def test_programs_get_problems_and_people_get_pages() -> None:
    client = Client()
    assert client.get("/v1/nothing")["Content-Type"] == "application/problem+json"
    page = client.get("/nothing")
    assert page.status_code == 404
    assert page["Content-Type"].startswith("text/html")
    assert "Content-Security-Policy" not in client.get("/v1/nothing")


def test_static_files_come_from_here() -> None:
    page = text_of(Client().get("/sign-in"))
    for address in re.findall(r'(?:href|src)="(/static/[^"]+)"', page):
        response = Client().get(address)
        assert response.status_code == 200
        assert response["Content-Type"].split(";")[0] in ("text/css", "text/javascript", "image/svg+xml")
        response.close()


# -- topics and keys ------------------------------------------------------------------------------------


def test_a_wrong_topic_comes_back_with_the_reason_at_its_field(house: House) -> None:
    client = signed_in(house)
    for given, said in (
        ({"name": "orders"}, "exists"),
        ({"name": "a/b"}, "A-Z a-z 0-9"),
        ({"name": "__mine"}, "service&#x27;s own"),
        ({"name": "x", "partitions": "0"}, "not within 1 to"),
        ({"name": "x", "partitions": "many"}, "whole number"),
        ({"name": "x", "retention": "0"}, "not within"),
        ({"name": "x", "replication": "9"}, "not within"),
    ):
        response = client.post("/t/acme/new-topic", {**NEW_TOPIC, **given})
        assert response.status_code == 422
        assert said in text_of(response)
        assert 'aria-invalid="true"' in text_of(response) or 'role="alert"' in text_of(response)


def test_a_topic_is_deleted_only_when_its_name_is_typed(house: House) -> None:
    client = signed_in(house)
    assert client.post("/t/acme/topics/orders/delete", {"name": "order"}).status_code == 422
    assert client.get("/t/acme/topics/orders").status_code == 200
    assert client.post("/t/acme/topics/orders/delete", {"name": "orders"}).status_code == 302
    assert client.get("/t/acme/topics/orders").status_code == 404


def test_a_deleted_topic_is_restored_from_the_bin_under_another_name_and_purged(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topic_queries, "ASK_S", 0.05)
    Topic.objects.update(on_brokers=True)
    row, client = Topic.objects.get(), signed_in(house)
    said = text_of(client.get("/t/acme/topics/orders/delete"))
    assert "It can be restored for 7 days" in said
    said = text_of(client.post("/t/acme/topics/orders/delete", {"name": "orders"}, follow=True))
    assert "Topic orders is in the recycle bin; the brokers will hear of it" in said
    page = text_of(client.get("/t/acme/bin"))
    assert row.public_id in page and "keeps 7 days" in page
    topics.create_topic(ACTOR, house.tenant, name="orders", partitions=1, settings={})
    address = f"/t/acme/bin/{row.public_id}"
    refused = client.post(f"{address}/restore", {"name": "orders"})
    assert refused.status_code == 422 and "exists: give another name" in text_of(refused)
    restored = client.post(f"{address}/restore", {"name": "orders-before"})
    assert restored["Location"] == "/t/acme/topics/orders-before"
    assert client.get(f"{address}/restore").status_code == 404
    client.post("/t/acme/topics/orders-before/delete", {"name": "orders-before"})
    assert client.post(f"{address}/purge", {"name": "orders"}).status_code == 422
    assert client.post(f"{address}/purge", {"name": "orders-before"})["Location"] == "/t/acme/bin"
    assert "The recycle bin is empty" in text_of(client.get("/t/acme/bin"))
    row.refresh_from_db()
    assert row.deleted_at is not None


def test_the_page_promises_no_bin_where_there_is_none(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_queries, "ASK_S", 0.05)
    client = signed_in(house)
    assert "deleted too, for good" in text_of(client.get("/t/acme/topics/orders/delete")), "not made yet"
    Topic.objects.update(on_brokers=True)
    set_limits(ACTOR, house.tenant, bin_days=0)
    assert "deleted too, for good" in text_of(client.get("/t/acme/topics/orders/delete"))
    assert "your plan deletes topics for good" in text_of(client.get("/t/acme/bin"))


def test_who_may_not_write_topics_looks_into_the_bin_and_touches_nothing(house: House) -> None:
    Topic.objects.update(on_brokers=True, binned_at=timezone.now(), purge_at=timezone.now())
    row, client = Topic.objects.get(), signed_in(house, Standing.AUDITOR)
    page = text_of(client.get("/t/acme/bin"))
    assert row.public_id in page and "Restore" not in page
    for what in ("restore", "purge"):
        assert client.post(f"/t/acme/bin/{row.public_id}/{what}", {"name": "orders"}).status_code == 403


def test_what_is_too_long_for_a_form_is_refused_and_not_cut(house: House) -> None:
    response = signed_in(house).post("/t/acme/topics/orders/send", {"value": "x" * (TEXT_MAX + 1), "key": ""})
    assert response.status_code == 422
    assert "takes 524,288" in text_of(response)
    assert signed_in(house).post("/t/acme/new-topic", {"name": "y" * 3_000_000}).status_code == 400


def test_search_and_pages_stand_any_input(house: House) -> None:
    client = signed_in(house)
    for query in (
        "q=%00%ff",
        "q=" + "a" * 5_000,
        "page=-1",
        "page=999999999999",
        "page=x",
        "q='%20or%201=1--",
    ):
        assert client.get(f"/t/acme/topics?{query}").status_code == 200
    assert "orders" in text_of(client.get("/t/acme/topics?q=ORD"))
    for query in ("before=x", "before=99999999999999999999", "action=%00", f"object={HOSTILE}"):
        assert client.get(f"/t/acme/audit?{query}").status_code == 200


def test_a_key_is_shown_once_and_hostile_names_are_text(house: House) -> None:
    client = signed_in(house)
    response = client.post("/t/acme/new-key", {"name": HOSTILE, "lifetime": "30", "scope": "all"})
    (text,) = re.findall(r"penstock_test_\w+", text_of(response))
    assert ApiKey.objects.filter(key_id=text.split("_")[2][:12]).exists() or len(text) > 30
    for page in ("/t/acme/keys", "/t/acme/keys?all=1", "/t/acme/audit", "/t/acme"):
        shown = text_of(client.get(page))
        assert text not in shown
        assert "<img src=x" not in shown
    assert "&lt;img src=x" in text_of(client.get("/t/acme/keys"))


def test_a_bound_key_is_bound_and_its_successor_too(house: House) -> None:
    client = signed_in(house)
    given = {"name": "writer", "lifetime": "90", "scope": "some", "topic_prefix": "ord", "may_produce": "on"}
    client.post("/t/acme/new-key", given)
    first = ApiKey.objects.get(name="writer")
    client.post(f"/t/acme/keys/{first.public_id}/rotate")
    second = ApiKey.objects.exclude(pk=first.pk).get(name="writer")
    for key in (first, second):
        (binding,) = key.bindings.all()
        assert (binding.topic_prefix, binding.operations) == ("ord", ["produce"])
        assert key.expires_at is not None
        assert abs(key.expires_at - key.created_at - timedelta(days=90)) < timedelta(minutes=1)
    client.post(f"/t/acme/keys/{first.public_id}/revoke")
    first.refresh_from_db()
    second.refresh_from_db()
    assert first.revoked_at is not None
    assert second.revoked_at is None


def test_the_successor_of_a_key_has_all_of_its_scopes(house: House) -> None:
    client = signed_in(house)
    scopes = [
        Scope(resource="topic", name="orders", literal=True, operations=("consume",)),
        Scope(resource="group", name="billing-"),
    ]
    first, _ = access.create_key(ACTOR, house.tenant, name="reader", scopes=scopes)
    shown = text_of(client.get("/t/acme/keys"))
    assert "orders</span>" in shown and "billing-*</span>" in shown
    client.post(f"/t/acme/keys/{first.public_id}/rotate")
    second = ApiKey.objects.exclude(pk=first.pk).get(name="reader")
    assert queries_of_keys.scopes_of(second) == scopes


def test_a_developer_exchanges_no_key_of_a_service_account(house: House) -> None:
    account = create_service_account(ACTOR, house.tenant, name="billing")
    key, _ = access.create_key(ACTOR, house.tenant, name="program", account=account)
    developer = signed_in(house, Standing.DEVELOPER)
    assert developer.post(f"/t/acme/keys/{key.public_id}/rotate").status_code == 403
    assert ApiKey.objects.filter(name="program").count() == 1
    assert signed_in(house).post(f"/t/acme/keys/{key.public_id}/rotate").status_code == 200
    assert ApiKey.objects.filter(name="program", service_account=account, maker=None).count() == 2


def test_a_developer_makes_no_key_of_a_service_account(house: House) -> None:
    account = create_service_account(ACTOR, house.tenant, name="billing")
    wanted = {"name": "program", "account": account.public_id, "lifetime": "90", "scope": "all"}
    signed_in(house, Standing.DEVELOPER).post("/t/acme/new-key", wanted)
    assert not ApiKey.objects.filter(service_account=account).exists()
    assert signed_in(house).post("/t/acme/new-key", wanted).status_code == 200
    assert ApiKey.objects.filter(service_account=account).count() == 1


def test_the_audit_log_names_the_person(house: House) -> None:
    client = signed_in(house)
    access.create_key(ACTOR, house.tenant, name="by hand")
    client.post("/t/acme/topics/orders/delete", {"name": "orders"})
    text = text_of(client.get("/t/acme/audit"))
    assert "owner@acme.example" in text
    assert "topic.delete" in text
    assert "the chain is intact" in text_of(client.get("/t/acme/audit/chain"))


# -- brokers that are away ------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_brokers_that_are_away_are_told_in_a_sentence_and_leave_no_key_behind(house: House) -> None:
    response = signed_in(house).get("/t/acme/topics/orders/live")
    assert response.status_code == 200
    assert "The brokers cannot be reached now." in text_of(response)
    key = ApiKey.objects.get(name="console")
    assert key.revoked_at is not None
    assert key.expires_at is not None


# -- operators ------------------------------------------------------------------------------------------


def test_the_operators_page_is_for_operators(house: House) -> None:
    assert signed_in(house).get("/operator")["Location"] == "/operator/sign-in"
    client = Client()
    assert client.post("/operator/sign-in", {"token": "pso_wrong"}).status_code == 422
    token = house.credentials[Standing.OPERATOR]
    response = client.post("/operator/sign-in", {"token": token})
    assert response.status_code == 302
    cookie = response.cookies["penstock-operator"]
    assert token not in cookie.value
    assert cookie["httponly"]
    assert cookie["samesite"] == "Strict"
    assert client.get("/operator").status_code == 200


def test_a_revoked_operator_is_out_at_once(house: House) -> None:
    client = Client()
    client.post("/operator/sign-in", {"token": house.credentials[Standing.OPERATOR]})
    from tenants.queries import operator_of

    row = operator_of(house.credentials[Standing.OPERATOR])
    assert row is not None
    actions.create_operator(ACTOR, name="another", tenant="_system")
    actions.revoke_operator(ACTOR, public_id=row.public_id, tenant="_system")
    assert client.get("/operator").status_code == 302


# -- what went wrong ------------------------------------------------------------------------------------


def test_what_is_not_found_keeps_the_pages_of_the_tenant_beside_it_and_stands_at_the_door_elsewhere(
    house: House,
) -> None:
    person = signed_in(house)
    inside = person.get("/t/acme/topics/nothing")
    assert inside.status_code == 404
    assert "All topics" in text_of(inside) and 'aria-label="Pages"' in text_of(inside)
    for address in ("/nothing", "/t/somebody-elses"):
        outside = person.get(address)
        assert outside.status_code == 404
        assert "To your tenants" in text_of(outside) and 'aria-label="Pages"' not in text_of(outside)
    stranger = Client().get("/nothing")
    assert stranger.status_code == 404 and 'class="button first" href="/">Sign in' in text_of(stranger)


def test_a_form_of_another_session_is_named_as_stale_and_not_as_a_missing_permission(house: House) -> None:
    answer = signed_in(house, csrf=True).post("/t/acme/new-topic", {"name": "a"})
    assert answer.status_code == 403
    assert "This form is not valid any more" in text_of(answer) and "Nothing was changed" in text_of(answer)


def test_a_refused_topic_names_all_that_is_wrong_at_its_fields(house: House) -> None:
    answer = signed_in(house).post(
        "/t/acme/new-topic",
        {**NEW_TOPIC, "name": "bad name", "partitions": "0", "max_message_kib": "99999999"},
    )
    assert answer.status_code == 422
    for field in ("f-name_error", "f-partitions_error", "f-max_message_kib_error"):
        assert f'id="{field}"' in text_of(answer), field
    taken = signed_in(house).post("/t/acme/new-topic", {**NEW_TOPIC, "name": "orders"})
    assert taken.status_code == 422 and 'id="f-name_error"' in text_of(taken)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("dev@acme.example has signed up", "dev@acme.example has signed up"),
        ("topic 'x' exists", "Topic 'x' exists"),
        ("partitions_max: 3", "partitions_max: 3"),
        ("", ""),
    ],
)
def test_what_a_refusal_quotes_keeps_its_letters(text: str, shown: str) -> None:
    assert as_sentence(text) == shown


@pytest.mark.parametrize(
    ("error", "status", "says"),
    [
        (GroupNotFound("group workers does not exist"), 404, "There is nothing here"),
        (GroupNotEmpty("workers has 2 members"), 409, "Workers has 2 members."),
        (NotEnoughReplicas("orders-7: 1 in sync, 2 required"), 503, "nothing was changed"),
        (OutcomeUnknown("orders-7"), 500, "Something failed"),
    ],
)
def test_a_refusal_of_the_brokers_is_a_page_with_its_own_status(
    error: PenstockError, status: int, says: str
) -> None:
    request = RequestFactory().get("/t/acme/group/reset")
    answer = errors.refused(request, error)
    assert answer.status_code == status and says in text_of(answer)


def test_a_fault_is_a_page_that_asks_the_database_for_nothing(django_assert_num_queries: Any) -> None:
    request = RequestFactory().get("/t/acme")
    request.request_id = "r-17"  # type: ignore[attr-defined]  # the middleware sets it
    with django_assert_num_queries(0):
        answer = errors.server_error(request)
    assert answer.status_code == 500
    assert "Something failed in the service" in text_of(answer) and "r-17" in text_of(answer)


def test_the_list_of_keys_says_when_each_was_last_used(house: House) -> None:
    owner = signed_in(house, Standing.OWNER)
    call("GET", "/v1/topics", token=house.credentials[Standing.KEY])
    ApiKey.objects.update(delivered_generation=1)
    page = text_of(owner.get("/t/acme/keys"))
    assert "in use" not in page and page.count(">valid<") == 2
    assert page.count('data-label="Last used">never<') == 1


def test_more_copies_than_brokers_are_refused_at_their_field(house: House) -> None:
    answer = signed_in(house).post("/t/acme/new-topic", {**NEW_TOPIC, "name": "wide", "replication": "5"})
    assert answer.status_code == 422
    assert "5 copies need 5 brokers, the cluster has 3; at most 3 possible" in text_of(answer)
    assert not Topic.objects.filter(name="wide").exists()


def test_a_topic_that_brokers_refuse_is_not_said_to_be_made(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(in_request.deliver_now, "__defaults__", (0.0,))
    client = signed_in(house)
    made = client.post("/t/acme/new-topic", {**NEW_TOPIC, "name": "later"}, follow=True)
    assert "Topic later is not made yet" in text_of(made) and "is made" not in text_of(made)


# -- access ---------------------------------------------------------------------------------------------


def test_an_access_list_is_written_asked_and_taken_back_on_its_pages(house: House) -> None:
    client = signed_in(house)
    assert client.post("/t/acme/access/new-account", {"name": "billing"}).status_code == 302
    account = ServiceAccount.objects.get(tenant=house.tenant, name="billing")
    principal = f"service_account:{account.public_id}"
    made = client.post(
        "/t/acme/new-key", {"name": "app", "account": account.public_id, "lifetime": "30", "scope": "all"}
    )
    assert made.status_code == 200 and ApiKey.objects.get(name="app").service_account == account
    given = {"principal": principal, "kind": "consumer", "name": "orders", "pattern": "literal"}
    assert client.post("/t/acme/access/new-entry", given).status_code == 302
    assert {acl.resource for acl in AclEntry.objects.filter(principal=principal)} == {"topic", "group"}
    question = "/t/acme/access/who?operation=consume&resource=topic&name=orders"
    assert "4 of 4 may" in text_of(client.get(question))
    assert "2 entries" in text_of(client.get("/t/acme/access/default"))
    assert client.post("/t/acme/access/default", {"default": "deny"}).status_code == 302
    answers = text_of(client.get(question))
    assert "1 of 4 may" in answers and "no entry allows consume" in answers
    key = ApiKey.objects.get(name="app").public_id
    assert "<strong>Yes</strong>" in text_of(client.get(f"{question}&key={key}"))
    refused = question.replace("consume", "produce")
    assert "<strong>No</strong>" in text_of(client.get(f"{refused}&key={key}"))
    for acl in AclEntry.objects.filter(principal=principal):
        assert client.post(f"/t/acme/access/entries/{acl.public_id}/remove").status_code == 302
    assert "<strong>No</strong>" in text_of(client.get(f"{question}&key={key}"))
    assert client.post(f"/t/acme/access/accounts/{account.public_id}/delete").status_code == 302
    assert ApiKey.objects.get(name="app").revoked_at is not None


def test_limits_of_a_service_account_are_shown_set_and_removed_on_its_page(house: House) -> None:
    client = signed_in(house)
    account = create_service_account(ACTOR, house.tenant, name="billing")
    page, each = f"/t/acme/access/accounts/{account.public_id}/limits", "/t/acme/access/account-limits"
    assert page in text_of(client.get("/t/acme/access")) and each in text_of(client.get("/t/acme"))
    assert "the tenant&#x27;s" in text_of(client.get(page))
    assert client.post(each, {"requests_per_s": "9"}).status_code == 302
    assert re.search(r"9 a second <[^>]*>that of each", text_of(client.get(page)))
    assert client.post(page, {"requests_per_s": "5"}).status_code == 302
    assert re.search(r"5 a second <[^>]*>its own", text_of(client.get(page)))
    wrong = client.post(page, {"requests_per_s": "-1"})
    assert wrong.status_code == 422
    developer = signed_in(house, Standing.DEVELOPER)
    assert "Set the limits" not in text_of(developer.get(page))
    assert developer.post(page, {"requests_per_s": "50"}).status_code == 403
    assert client.post(page, {"requests_per_s": ""}).status_code == 302
    assert re.search(r"9 a second <[^>]*>that of each", text_of(client.get(page)))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            {"kind": "single", "resource": "tenant", "effect": "allow", "may_produce": "on"},
            "of a tenant is not one of",
        ),
        (
            {"kind": "single", "effect": "deny", "resource": "topic", "addresses": "10.0.0.1/8"},
            "no range of IP",
        ),
        ({"kind": "producer", "name": "a\0b"}, "Null characters"),
        ({"kind": "producer", "principal": "person:usr_nothing"}, "Choose one of these"),
    ],
)
def test_a_wrong_entry_comes_back_with_the_reason(house: House, given: dict[str, str], said: str) -> None:
    response = signed_in(house).post(
        "/t/acme/access/new-entry", {"principal": "everyone", "pattern": "literal", **given}
    )
    assert response.status_code == 422
    assert said in text_of(response)
    assert not AclEntry.objects.exists()


def test_a_group_of_principals_that_an_entry_names_stays(house: House) -> None:
    client = signed_in(house)
    client.post("/t/acme/access/new-group", {"name": "team"})
    group = PrincipalGroup.objects.get(tenant=house.tenant)
    given = {"principal": f"group:{group.public_id}", "kind": "owner", "name": "orders", "pattern": "prefix"}
    client.post("/t/acme/access/new-entry", given)
    client.post(f"/t/acme/access/groups/{group.public_id}/delete")
    assert "delete what names it first" in text_of(client.get("/t/acme/access"))
    AclEntry.objects.all().delete()
    client.post(f"/t/acme/access/groups/{group.public_id}/delete")
    assert not PrincipalGroup.objects.exists()
