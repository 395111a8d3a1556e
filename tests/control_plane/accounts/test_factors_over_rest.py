"""Second factors over REST: listed, added, removed and renewed, each by proof; and tenants that require them."""

from datetime import timedelta

import pytest
from allauth.mfa.models import Authenticator
from django.test import Client
from django.utils import timezone

from control_plane.audit.actor import Actor, ActorKind
from control_plane.audit.models import AuditEntry
from control_plane.mail import actions as mails
from control_plane.mail.models import Mail
from control_plane.outbox import in_request
from control_plane.rate_counters import counters
from penstock.contract.errors import Forbidden, InvalidRequest
from tenants import actions as tenants
from tenants import letters
from tenants.factors import actions, queries
from tenants.models import FactorSetup, Membership, Person, Session, Tenant
from tenants.people import requirement_actions as requirement
from tenants.roles import Standing
from tenants.tokens import token_hash
from tests.control_plane.world import (
    ACTOR,
    PASSWORD,
    House,
    call,
    everything_delivered,
    make_house,
    make_person,
)
from tests.one_time_codes import code_of

pytestmark = pytest.mark.django_db
EMAIL = "ann@example.com"


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """No worker runs here, so no request waits for one."""
    monkeypatch.setattr(in_request.deliver_now, "__defaults__", (0.0,))


@pytest.fixture
def ann() -> str:
    """The token of Ann's sign-in."""
    _, _, token = tenants.sign_up(email=EMAIL, password=PASSWORD, tenant_name="ann", request_id="", source="")
    return token


def add_codes(token: str) -> tuple[str, list[str]]:
    """The secret of the app, and the recovery codes."""
    begun = call("POST", "/v1/second-factors/codes", token=token)
    assert begun.status == 200 and begun.body["secret"] in begun.body["uri"]
    secret = begun.body["secret"]
    given = {"code": code_of(secret, steps=-1), "present": PASSWORD}
    answer = call("POST", "/v1/second-factors/codes/confirm", given, token=token)
    assert answer.status == 200, answer.body
    return secret, answer.body["recovery_codes"]


def long_ago() -> None:
    Session.objects.update(created_at=timezone.now() - timedelta(minutes=16))


def add_passkey(email: str, name: str = "laptop") -> Authenticator:
    return Authenticator.objects.create(
        user=Person.objects.get(email=email), type=Authenticator.Type.WEBAUTHN, data={"name": name}
    )


# -- one's own ------------------------------------------------------------------------------------------


def test_codes_of_an_app_are_added_by_their_first_code_and_the_password(ann: str) -> None:
    begun = call("POST", "/v1/second-factors/codes", token=ann).body
    assert call("POST", "/v1/second-factors/codes", token=ann).body == begun, "the same within its time"
    code = code_of(begun["secret"])
    for wrong in (
        {"code": "000000", "present": PASSWORD},
        {"code": code, "present": "wrong"},
        {"code": code},
    ):
        assert call("POST", "/v1/second-factors/codes/confirm", wrong, token=ann).status == 400
    assert call("GET", "/v1/second-factors", token=ann).body["items"] == []
    given = {"code": code, "present": PASSWORD}
    answer = call("POST", "/v1/second-factors/codes/confirm", given, token=ann)
    assert len(set(answer.body["recovery_codes"])) == 10
    (listed,) = call("GET", "/v1/second-factors", token=ann).body["items"]
    assert (listed["kind"], listed["name"]) == ("codes", "codes of an app")
    one = call("GET", f"/v1/second-factors/{listed['id']}", token=ann)
    assert one.body == listed and one.headers["ETag"]
    assert call("GET", "/v1/recovery-codes", token=ann).body == {"left": 10}
    assert call("POST", "/v1/second-factors/codes", token=ann).status == 409
    assert call("POST", "/v1/sign-in", {"email": EMAIL, "password": PASSWORD}).status == 401


def test_no_sign_in_learns_the_secret_that_another_is_about_to_use(ann: str) -> None:
    thief = tenants.open_session(Person.objects.get(email=EMAIL), source="", browser="")
    path = "/v1/second-factors/codes"
    of_ann = call("POST", path, token=ann).body["secret"]
    of_thief = call("POST", path, token=thief).body["secret"]
    assert of_thief != of_ann
    for secret in (of_ann, of_thief):
        given = {"code": code_of(secret, steps=-1), "present": PASSWORD}
        answer = call("POST", f"{path}/confirm", given, token=ann)
        assert answer.status == 400 and "another of your sign-ins" in answer.body["detail"]
    again = call("POST", path, token=ann).body["secret"]
    assert again not in (of_ann, of_thief)
    given = {"code": code_of(again, steps=-1), "present": PASSWORD}
    assert call("POST", f"{path}/confirm", given, token=thief).status == 400
    assert call("POST", f"{path}/confirm", given, token=ann).status == 200


def test_a_setup_that_the_release_before_began_is_begun_again(ann: str) -> None:
    first = call("POST", "/v1/second-factors/codes", token=ann).body["secret"]
    row = FactorSetup.objects.get()
    del row.state["sign_in"]
    row.save()
    given = {"code": code_of(first), "present": PASSWORD}
    assert call("POST", "/v1/second-factors/codes/confirm", given, token=ann).status == 400
    assert call("POST", "/v1/second-factors/codes", token=ann).body["secret"] != first


def test_secrets_of_an_answer_are_not_kept_for_its_repetition(ann: str) -> None:
    first = call("POST", "/v1/second-factors/codes", token=ann, Idempotency_Key="one")
    assert first.status == 200
    assert call("POST", "/v1/second-factors/codes", token=ann, Idempotency_Key="one").status == 409
    given = {"code": code_of(first.body["secret"]), "present": PASSWORD}
    answer = call("POST", "/v1/second-factors/codes/confirm", given, token=ann, Idempotency_Key="two")
    again = call("POST", "/v1/second-factors/codes/confirm", given, token=ann, Idempotency_Key="two")
    assert answer.status == 200 and again.status == 409
    assert not any(code in str(again.body) for code in answer.body["recovery_codes"])


def test_some_time_after_signing_in_a_change_wants_a_code_too(ann: str) -> None:
    secret, codes = add_codes(ann)
    add_passkey(EMAIL)
    passkey = call("GET", "/v1/second-factors", token=ann).body["items"][1]
    path = f"/v1/second-factors/{passkey['id']}/remove"
    long_ago()
    refused = call("POST", path, {"present": PASSWORD}, token=ann)
    assert refused.status == 400 and "present_code" in refused.body["detail"]
    for wrong in ("000000", "x", "\u0660" * 6):
        assert call("POST", path, {"present": PASSWORD, "present_code": wrong}, token=ann).status == 400
    given = {"present": PASSWORD, "present_code": code_of(secret)}
    assert call("POST", path, given, token=ann).status == 204
    renewed = call("POST", "/v1/recovery-codes", given, token=ann)
    assert renewed.status == 400 and "used before" in renewed.body["detail"]
    renewed = call("POST", "/v1/recovery-codes", {"present": PASSWORD, "present_code": codes[0]}, token=ann)
    assert len(renewed.body["recovery_codes"]) == 10 and not {*renewed.body["recovery_codes"]} & {*codes}
    assert (
        call("POST", "/v1/email/change", {"email": "n@e.example", "present": PASSWORD}, token=ann).status
        == 400
    )


def test_a_recovery_code_is_not_spent_on_what_is_refused_anyway(ann: str) -> None:
    _, codes = add_codes(ann)
    Tenant.objects.update(factors_from=timezone.now())
    (mine,) = call("GET", "/v1/second-factors", token=ann).body["items"]
    number = queries.factors(Person.objects.get(email=EMAIL)).get().pk
    long_ago()
    proof = {"present": PASSWORD, "present_code": codes[0]}
    browser = Client()
    browser.cookies["penstock"] = ann
    change = {"email": "new@example.com", **proof}
    for _ in range(3):
        mails.put(change["email"], "address-change", letters.address_taken())
    other = {**change, "email": "other@example.com"}
    add = {"code": "000000", **proof}
    got = [
        call("POST", f"/v1/second-factors/{mine['id']}/remove", proof, token=ann).status,
        call("POST", "/v1/second-factors/codes/confirm", add, token=ann).status,
        call("POST", "/v1/email/change", {**change, "email": EMAIL}, token=ann).status,
        call("POST", "/v1/email/change", change, token=ann).status,
        call("POST", "/v1/email/change", other, token=ann, If_Match='"stale"').status,
        browser.post(f"/account/second-factors/{number}/remove", proof).status_code,
        browser.post("/account/address", {**change, "email": EMAIL}).status_code,
        browser.post("/account/address", change).status_code,
    ]
    assert got == [400, 409, 400, 429, 412, 422, 422, 429]
    assert call("GET", "/v1/recovery-codes", token=ann).body == {"left": 10}
    assert call("POST", "/v1/email/change", other, token=ann).status == 200
    assert call("GET", "/v1/recovery-codes", token=ann).body == {"left": 9}


def test_a_wrong_code_of_a_new_app_and_a_page_that_is_too_old_spend_no_recovery_code(ann: str) -> None:
    secret, codes = add_codes(ann)
    add_passkey(EMAIL)
    proof = {"present": PASSWORD, "present_code": code_of(secret)}
    (app, _) = call("GET", "/v1/second-factors", token=ann).body["items"]
    long_ago()
    assert call("POST", f"/v1/second-factors/{app['id']}/remove", proof, token=ann).status == 204
    proof = {"present": PASSWORD, "present_code": codes[0]}
    path = "/v1/second-factors/codes"
    browser = Client()
    browser.cookies["penstock"] = ann
    assert call("POST", f"{path}/confirm", {"code": "000000", **proof}, token=ann).status == 400
    new = call("POST", path, token=ann).body["secret"]
    assert call("POST", f"{path}/confirm", {"code": "000000", **proof}, token=ann).status == 400
    assert browser.post("/account/second-factors/codes", {"code": "000000", **proof}).status_code == 422
    assert call("GET", "/v1/recovery-codes", token=ann).body == {"left": 10}
    given = {"code": code_of(new), **proof}
    assert call("POST", f"{path}/confirm", given, token=ann).status == 200
    assert call("GET", "/v1/recovery-codes", token=ann).body == {"left": 9}


def test_the_console_asks_for_the_code_too(ann: str) -> None:
    secret, _ = add_codes(ann)
    browser = Client()
    browser.cookies["penstock"] = ann
    page = "/account/second-factors/recovery-codes"
    assert "present_code" not in browser.get(page).content.decode()
    long_ago()
    assert "present_code" in browser.get(page).content.decode()
    assert browser.post(page, {"present": PASSWORD}).status_code == 422
    given = {"present": PASSWORD, "present_code": code_of(secret)}
    assert browser.post(page, given).status_code == 200


def test_wrong_codes_of_changes_count_with_those_of_sign_ins(ann: str) -> None:
    secret, _ = add_codes(ann)
    long_ago()
    for _ in range(10):
        counters().forget_all()
        given = {"present": PASSWORD, "present_code": "000000"}
        assert call("POST", "/v1/recovery-codes", given, token=ann).status == 400
    counters().forget_all()
    given = {"present": PASSWORD, "present_code": code_of(secret)}
    assert call("POST", "/v1/recovery-codes", given, token=ann).status == 429
    right = {"email": EMAIL, "password": PASSWORD, "code": code_of(secret)}
    assert call("POST", "/v1/sign-in", right).status == 429
    assert AuditEntry.objects.filter(action="sign_in.wrong_code").count() == 10


def test_with_the_last_factor_the_recovery_codes_go(ann: str) -> None:
    add_codes(ann)
    (listed,) = call("GET", "/v1/second-factors", token=ann).body["items"]
    path = f"/v1/second-factors/{listed['id']}/remove"
    assert call("POST", path, {"present": "wrong"}, token=ann).status == 400
    assert call("POST", path, {"present": PASSWORD}, token=ann).status == 204
    assert call("POST", path, {"present": PASSWORD}, token=ann).status == 404
    assert call("GET", "/v1/recovery-codes", token=ann).body == {"left": 0}
    assert call("POST", "/v1/recovery-codes", {"present": PASSWORD}, token=ann).status == 400
    assert not Authenticator.objects.exists()


@pytest.mark.parametrize("name", ["sf_", "sf_x", "1", "sf_-1", "sf_" + "9" * 30, "sf_\u0661", "sf_1%00"])
def test_what_is_no_factor_of_the_person_does_not_exist(ann: str, name: str) -> None:
    assert call("GET", f"/v1/second-factors/{name}", token=ann).status in (400, 404)
    theirs = add_passkey(make_person("bob@example.com")[0].email)
    path = f"/v1/second-factors/{queries.public_id_of(theirs)}"
    assert call("GET", path, token=ann).status == 404
    assert call("POST", f"{path}/remove", {"present": PASSWORD}, token=ann).status == 404
    assert Authenticator.objects.filter(pk=theirs.pk).exists()


# -- required by a tenant -------------------------------------------------------------------------------


@pytest.fixture
def house() -> House:
    """Its owner and its developer have a second factor, the others have none."""
    made = make_house("acme")
    add_passkey("owner@acme.example")
    add_passkey("developer@acme.example")
    Session.objects.update(created_at=timezone.now())
    everything_delivered()
    return made


def set_required(
    house: House, required: bool = True, standing: Standing = Standing.OWNER, **given: int
) -> tuple[int, str]:
    answer = call(
        "PATCH",
        f"/v1/tenants/{house.tenant.public_id}",
        {"second_factor_required": required, **given},
        token=house.credentials[standing],
    )
    return answer.status, str(answer.body)


def days_pass(days: int) -> None:
    row = Tenant.objects.get(name="acme")
    assert row.factors_from is not None
    Tenant.objects.filter(pk=row.pk).update(factors_from=row.factors_from - timedelta(days=days))


def seen(house: House, standing: Standing, path: str = "/v1/topics") -> int:
    return call("GET", path, token=house.credentials[standing]).status


def test_with_the_first_factor_every_sign_in_without_one_ends(ann: str) -> None:
    person = Person.objects.get(email=EMAIL)
    thief = tenants.open_session(person, source="", browser="")
    secret, _ = add_codes(ann)
    assert call("GET", "/v1/sign-ins", token=thief).status == 401, (
        "it would satisfy a tenant that requires one"
    )
    assert call("GET", "/v1/sign-ins", token=ann).status == 200
    entry = AuditEntry.objects.get(action="person.second_factor_add")
    assert entry.after["sign_ins_ended"] == 1
    assert "Every other sign-in has ended" in Mail.objects.get(to=EMAIL).text
    given = {"email": EMAIL, "password": PASSWORD, "code": code_of(secret)}
    other = call("POST", "/v1/sign-in", given).body["token"]
    add_passkey(EMAIL)
    (codes, _) = call("GET", "/v1/second-factors", token=ann).body["items"]
    call("POST", f"/v1/second-factors/{codes['id']}/remove", {"present": PASSWORD}, token=ann)
    add_codes(ann)
    assert call("GET", "/v1/sign-ins", token=other).status == 200, "it was made with one"


def test_after_the_days_only_people_with_a_second_factor_are_let_in_and_keys_go_on(house: House) -> None:
    assert set_required(house, second_factor_grace_days=3)[0] in (200, 202)
    assert [seen(house, one) for one in (Standing.OWNER, Standing.ADMIN)] == [200, 200], "days are left"
    days_pass(3)
    assert [seen(house, one) for one in (Standing.OWNER, Standing.DEVELOPER)] == [200, 200]
    for standing in (Standing.ADMIN, Standing.BILLING, Standing.AUDITOR):
        for path in ("/v1/topics", "/v1/usage", f"/v1/tenants/{house.tenant.public_id}", "/v1/people"):
            assert seen(house, standing, path) == 403, (standing, path)
    assert [seen(house, one) for one in (Standing.KEY, Standing.BOUND_KEY)] == [200, 200]
    admin = Client()
    admin.cookies["penstock"] = house.credentials[Standing.ADMIN]
    assert admin.get("/t/acme/topics")["Location"] == "/account"
    assert admin.post("/t/acme/new-topic", {"name": "x", "partitions": "1"})["Location"] == "/account"
    part = admin.get("/t/acme/overview/live", headers={"HX-Request": "true"})
    assert part.status_code == 204 and part["HX-Redirect"] == "/account"
    assert "requires a second factor" in admin.get("/account").content.decode()
    add_passkey("admin@acme.example")
    assert seen(house, Standing.ADMIN) == 200
    assert admin.get("/t/acme/topics").status_code == 200


def test_people_without_one_get_an_e_mail_and_stand_in_the_audit_log(house: House) -> None:
    set_required(house)
    without = ["admin@acme.example", "billing@acme.example", "auditor@acme.example"]
    assert sorted(Mail.objects.values_list("to", flat=True)) == sorted(without)
    entry = AuditEntry.objects.get(action="tenant.require_factors")
    assert sorted(entry.after["people_without"]) == sorted(without)
    set_required(house, second_factor_grace_days=90)
    assert (
        Mail.objects.count() == 3 and AuditEntry.objects.filter(action="tenant.require_factors").count() == 1
    )
    assert set_required(house, False)[0] in (200, 202)
    assert set_required(house, False)[0] in (200, 202)
    assert AuditEntry.objects.filter(action="tenant.require_factors_end").count() == 1
    assert Mail.objects.get(subject__contains="any more").to == "owner@acme.example"


def test_only_an_owner_with_a_second_factor_requires_one_and_hears_who_has_none(house: House) -> None:
    for standing in (Standing.ADMIN, Standing.DEVELOPER, Standing.KEY, Standing.OPERATOR, Standing.AUDITOR):
        assert set_required(house, standing=standing)[0] == 403
        assert set_required(house, False, standing=standing)[0] == 403
    status, said = set_required(house, second_factor_grace_days=0)
    assert status == 400 and "billing@acme.example" in said, "who has none is named"
    Authenticator.objects.filter(user__email="owner@acme.example").delete()
    status, said = set_required(house)
    assert status == 400 and "no second factor yourself" in said and "admin@acme.example" in said
    assert Tenant.objects.get(name="acme").factors_from is None and not Mail.objects.exists()


def test_without_days_it_counts_at_once_where_all_have_one(house: House) -> None:
    Membership.objects.filter(tenant=house.tenant).exclude(role__in=("owner", "developer")).delete()
    assert set_required(house, second_factor_grace_days=0)[0] in (200, 202)
    newcomer, token = make_person("new@acme.example")
    Membership.objects.create(tenant=house.tenant, person=newcomer, role="admin")
    assert call("GET", "/v1/topics", token=token).status == 403, "who joins later has no days"


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"second_factor_required": "perhaps"},
        {"second_factor_required": True, "second_factor_grace_days": -1},
        {"second_factor_required": True, "second_factor_grace_days": 91},
        {"second_factor_required": True, "second_factor_grace_days": 10**30},
        {"second_factor_required": False, "second_factor_grace_days": 3},
        {"second_factor_grace_days": 3},
        {"second_factor_required": True, "why": "x"},
    ],
)
def test_a_wrong_request_changes_nothing(house: House, body: dict[str, object]) -> None:
    path = f"/v1/tenants/{house.tenant.public_id}"
    assert call("PATCH", path, body, token=house.credentials[Standing.OWNER]).status == 400
    assert Tenant.objects.get(name="acme").factors_from is None


def test_a_dry_run_names_them_and_a_condition_is_obeyed(house: House) -> None:
    path, token = f"/v1/tenants/{house.tenant.public_id}", house.credentials[Standing.OWNER]
    body = {"second_factor_required": True}
    answer = call("PATCH", f"{path}?dry_run=true", body, token=token)
    fields = {one["field"]: one["after"] for one in answer.body["changes"][0]["fields"]}
    assert fields["people_without_count"] == 3 and not Mail.objects.exists()
    assert call("PATCH", path, body, token=token, If_Match='"0"').status == 412
    tag = call("GET", path, token=token).headers["ETag"]
    changed = call("PATCH", path, body, token=token, If_Match=tag)
    assert changed.status in (200, 202) and changed.headers["ETag"] != tag
    assert call("GET", path, token=token).body["second_factor_from"] == changed.body["second_factor_from"]


def test_the_last_factor_stays_while_a_tenant_requires_one(house: House) -> None:
    set_required(house)
    developer = Person.objects.get(email="developer@acme.example")
    mine = queries.factors(developer).get()
    with pytest.raises(InvalidRequest, match="acme requires one"):
        actions.remove(ACTOR, developer, mine.pk)
    second = add_passkey(developer.email, "phone")
    actions.remove(ACTOR, developer, second.pk)
    Membership.objects.filter(person=developer).delete()
    actions.remove(ACTOR, developer, mine.pk)
    assert not queries.are_asked_for(developer)


def test_sign_ins_older_than_the_factor_end_when_a_tenant_requires_one(house: House) -> None:
    """A release before this one left them: they were made by a password alone, and have shown no factor."""
    developer = Person.objects.get(email="developer@acme.example")
    added = queries.factors(developer).get().created_at
    before, after = (tenants.open_session(developer, source="", browser="") for _ in range(2))
    Session.objects.filter(token_hash=token_hash(before)).update(created_at=added - timedelta(days=1))
    elsewhere, _ = make_person("elsewhere@umbrella.example")
    add_passkey(elsewhere.email, "phone")
    others = tenants.open_session(elsewhere, source="", browser="")
    Session.objects.filter(person=elsewhere).update(created_at=added - timedelta(days=1))
    set_required(house)
    answers = [call("GET", "/v1/sign-ins", token=token).status for token in (before, after, others)]
    assert answers == [401, 200, 200], "only people of the tenant are asked again"
    assert AuditEntry.objects.get(action="tenant.require_factors").after["sign_ins_ended"] == 1
    assert seen(house, Standing.OWNER) == 200


def test_a_sign_in_that_added_the_first_factor_is_not_asked_again(ann: str) -> None:
    person = Person.objects.get(email=EMAIL)
    Session.objects.filter(person=person).update(created_at=timezone.now() - timedelta(days=1))
    add_codes(ann)
    session = Session.objects.get(person=person)
    assert session.created_at >= queries.factors(person).get().created_at


def test_a_former_owner_requires_nothing(house: House) -> None:
    owner = Membership.objects.get(tenant=house.tenant, role="owner")
    actor = Actor(kind=ActorKind.PERSON, id=owner.person.public_id)
    Membership.objects.filter(pk=owner.pk).update(role="admin")
    with pytest.raises(Forbidden):
        requirement.require(actor, house.tenant)
    owner.delete()
    with pytest.raises(Forbidden):
        requirement.require_no_more(actor, house.tenant)


def test_who_reads_the_audit_log_sees_who_has_one(house: House) -> None:
    def shown(standing: Standing) -> dict[str, bool | None]:
        answer = call("GET", "/v1/people", token=house.credentials[standing])
        return {one["email"]: one["second_factor"] for one in answer.body["items"]}

    of_owner = shown(Standing.OWNER)
    assert of_owner["owner@acme.example"] is True and of_owner["admin@acme.example"] is False
    assert shown(Standing.AUDITOR) == of_owner
    assert set(shown(Standing.DEVELOPER).values()) == {None}
    pages = {}
    for standing in (Standing.OWNER, Standing.DEVELOPER):
        browser = Client()
        browser.cookies["penstock"] = house.credentials[standing]
        pages[standing] = browser.get("/t/acme/people").content.decode()
    assert pages[Standing.OWNER].count(">none<") == 3
    assert "Second factor" not in pages[Standing.DEVELOPER]


def test_an_owner_requires_it_in_the_console_and_ends_it(house: House) -> None:
    browser = Client()
    browser.cookies["penstock"] = house.credentials[Standing.OWNER]
    page = browser.get("/t/acme/second-factors").content.decode()
    assert "billing@acme.example" in page and "grace_days" in page
    for wrong in ("0", "91", "-1", "", "x", "1e3"):
        assert browser.post("/t/acme/second-factors", {"grace_days": wrong}).status_code == 422, wrong
    assert browser.post("/t/acme/second-factors", {"grace_days": "5"})["Location"] == "/t/acme/people"
    assert "A second factor is required" in browser.get("/t/acme/people").content.decode()
    assert browser.post("/t/acme/second-factors/end")["Location"] == "/t/acme/people"
    assert Tenant.objects.get(name="acme").factors_from is None
    admin = Client()
    admin.cookies["penstock"] = house.credentials[Standing.ADMIN]
    for address in ("/t/acme/second-factors", "/t/acme/second-factors/end"):
        assert admin.post(address, {"grace_days": "5"}).status_code == 403
