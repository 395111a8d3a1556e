"""People, tenants and keys: what is made, refused, kept and never kept."""

from datetime import timedelta

import pytest
from django.utils import timezone

from control_plane import config
from control_plane.access import actions as access
from control_plane.access import queries as bound
from control_plane.outbox.models import Delivery
from penstock.contract.api_keys import parse_api_key
from penstock.contract.errors import AlreadyExists, InvalidRequest, NotFound, Unauthenticated
from penstock.rules.credentials import secret_matches
from tenants import actions, queries
from tenants.credentials import peppers_for
from tenants.models import ApiKey, Membership, Person, Session, Tenant
from tenants.sign_in import actions as sign_ins
from tests.control_plane.world import ACTOR, PASSWORD, make_person, make_tenant

pytestmark = pytest.mark.django_db


def sign_up(email: str = "ann@example.com", tenant: str = "acme") -> tuple[Person, Tenant, str]:
    return actions.sign_up(
        email=email, password=PASSWORD, tenant_name=tenant, request_id="r", source="127.0.0.1"
    )


def test_signing_up_makes_a_person_who_owns_a_tenant_and_is_signed_in() -> None:
    person, tenant, token = sign_up(" Ann@Example.com ")
    assert person.email == "ann@example.com" and person.public_id.startswith("usr_")
    assert tenant.public_id.startswith("tn_") and tenant.generation == 1
    assert [(b.tenant, b.role) for b in queries.belongings(person)] == [(tenant, "owner")]
    found = queries.person_of_session(token)
    assert found == person
    assert Delivery.objects.filter(object_id=tenant.public_id, generation=1).count() == 1


def test_neither_passwords_nor_tokens_nor_keys_are_kept() -> None:
    _, tenant, token = sign_up()
    _, text = access.create_key(ACTOR, tenant, name="app")
    kept = repr([list(model.objects.values_list()) for model in (Person, Session, ApiKey, Tenant)])
    for secret in (PASSWORD, token, text.secret, text.reveal()):
        assert secret not in kept


def test_a_second_sign_up_with_the_address_or_the_tenants_name_is_refused_and_makes_nothing() -> None:
    sign_up()
    with pytest.raises(AlreadyExists, match=r"email: ann@example\.com has signed up"):
        sign_up("ANN@example.com", "other")
    with pytest.raises(AlreadyExists, match="tenant: the name 'ACME' is taken"):
        sign_up("bob@example.com", "ACME")
    assert Person.objects.count() == 1 and Tenant.objects.count() == 1


@pytest.mark.parametrize("email", ["", "ann", "ann@", "a b@example.com", "ann@example.com\n.x"])
def test_what_is_no_address_is_refused(email: str) -> None:
    with pytest.raises(InvalidRequest, match="email: "):
        sign_up(email)


@pytest.mark.parametrize("name", ["", "a b", "-acme", "acme/x", "x" * 64, "ä"])
def test_what_is_no_name_of_a_tenant_is_refused(name: str) -> None:
    with pytest.raises(InvalidRequest, match="tenant: "):
        make_tenant(name)


@pytest.mark.parametrize("password", ["short", "1234567890123", "password123"])
def test_a_password_that_is_easily_guessed_is_refused(password: str) -> None:
    with pytest.raises(InvalidRequest, match="password: "):
        actions.sign_up(email="a@example.com", password=password, tenant_name="t", request_id="", source="")


def test_signing_in_takes_the_right_password_only_and_out_ends_the_session() -> None:
    person, _, _ = sign_up()
    for email, password in (("ann@example.com", "wrong"), ("bob@example.com", PASSWORD)):
        with pytest.raises(Unauthenticated, match="the e-mail address or the password is wrong"):
            sign_ins.sign_in(email=email, password=password)
    _, token = sign_ins.sign_in(email="ANN@example.com", password=PASSWORD)
    assert queries.person_of_session(token) == person
    actions.sign_out(token)
    assert queries.person_of_session(token) is None


def test_a_session_ends_by_itself() -> None:
    person, token = make_person("ann@example.com")
    Session.objects.filter(person=person).update(expires_at=timezone.now() - timedelta(seconds=1))
    assert queries.person_of_session(token) is None


def test_a_person_finds_no_tenant_but_his_own() -> None:
    _, tenant, _ = sign_up()
    other, _ = make_person("bob@example.com")
    with pytest.raises(NotFound, match=tenant.public_id):
        queries.belonging(other, tenant.public_id)
    assert Membership.objects.filter(tenant=tenant).count() == 1


def test_a_key_is_kept_as_brokers_check_it() -> None:
    tenant = make_tenant("acme")
    key, text = access.create_key(ACTOR, tenant, name="app")
    assert text.env == config.current().environment
    assert parse_api_key(text.reveal()) == text
    assert key.public_id == f"key_{text.key_id}"
    assert secret_matches(
        peppers_for(1), pepper_version=key.pepper_version, stored_hmac=key.secret_hmac, secret=text.secret
    )
    assert sorted(key.scram) == ["sha256", "sha512"]
    assert queries.key_of(text) == key


def test_a_wrong_secret_of_a_known_key_is_nobodys() -> None:
    _, text = access.create_key(ACTOR, make_tenant("acme"), name="app")
    _, other = access.create_key(ACTOR, make_tenant("other"), name="app")
    forged = type(text)(env=text.env, key_id=text.key_id, secret=other.secret)
    assert queries.key_of(forged) is None


def test_a_key_is_bound_to_a_prefix_and_operations_in_their_order() -> None:
    key, _ = access.create_key(
        ACTOR, make_tenant("acme"), name="app", topic_prefix="orders.", operations=["produce", "describe"]
    )
    (binding,) = bound.bindings(key)
    assert (binding.topic_prefix, binding.operations) == ("orders.", ["describe", "produce"])
    visible = bound.KeyRights(key, "").visible_topics
    assert visible is not None and visible("orders.eu") and not visible("order")
    free, _ = access.create_key(ACTOR, make_tenant("other"), name="app")
    assert bound.KeyRights(free, "").visible_topics is None


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"name": ""}, "name: "),
        ({"name": "x" * 101}, "name: "),
        ({"name": "a\nb"}, "name: "),
        ({"name": "k", "expires_at": timezone.now()}, "expires_at: .* is past"),
        ({"name": "k", "topic_prefix": "a b"}, "topic_prefix: "),
        (
            {"name": "k", "operations": ["alter"]},
            "operations: 'alter' is not one of describe, produce, consume, delete",
        ),
    ],
)
def test_what_is_no_key_is_refused(fields: dict[str, object], message: str) -> None:
    tenant = make_tenant("acme")
    with pytest.raises(InvalidRequest, match=message):
        access.create_key(ACTOR, tenant, **fields)  # type: ignore[arg-type]
    assert not ApiKey.objects.exists()


def test_revoking_counts_the_generation_up_once() -> None:
    key, _ = access.create_key(ACTOR, make_tenant("acme"), name="app")
    assert actions.revoke_key(ACTOR, key).generation == 2
    assert actions.revoke_key(ACTOR, key).generation == 2
    assert sorted(Delivery.objects.filter(object_id=key.public_id).values_list("generation", flat=True)) == [
        1,
        2,
    ]


def test_a_key_is_found_in_its_own_tenant_only() -> None:
    key, _ = access.create_key(ACTOR, make_tenant("acme"), name="app")
    other = make_tenant("other")
    with pytest.raises(NotFound, match=key.public_id):
        queries.key(other, key.public_id)


def test_suspending_is_told_to_the_brokers_once() -> None:
    tenant = make_tenant("acme")
    assert actions.set_suspended(ACTOR, tenant, True).generation == 2
    assert actions.set_suspended(ACTOR, tenant, True).generation == 2
    assert actions.set_suspended(ACTOR, tenant, False).generation == 3
