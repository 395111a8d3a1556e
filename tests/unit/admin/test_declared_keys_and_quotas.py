"""What differs of keys and limits between a declarative file and a tenant."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from penstock import InvalidRequest
from penstock.admin.declaration import Declared, DeclaredKey, DeclaredQuotas, DeclaredScope
from penstock.admin.declared import difference
from penstock.admin.declared_changes import Kind, Present, Sign

ACCOUNTS = ({"id": "sa_1", "name": "billing"},)
SCOPE = DeclaredScope(resource="topic", name="orders", pattern="literal", operations=("consume",))
TILL = DeclaredKey(name="till", service_account="billing", scopes=(SCOPE,))


def there(id: str = "key_1", name: str = "till", **changed: Any) -> dict[str, Any]:
    scope = {"resource": "topic", "name": "orders", "pattern": "literal", "operations": ["consume"]}
    key = {"id": id, "name": name, "service_account": "sa_1", "expires_at": None, "scopes": [scope]}
    return key | changed


def present(*keys: dict[str, Any], own_key: str = "") -> Present:
    return Present(service_accounts=ACCOUNTS, keys=keys, own_key=own_key)


def test_a_key_that_is_not_there_is_made_after_its_account_and_what_it_may_do() -> None:
    wanted = Declared(service_accounts=("billing",), keys=(TILL,), default="deny")
    kinds = [one.kind for one in difference(wanted, Present())]
    assert kinds == [Kind.SERVICE_ACCOUNT, Kind.KEY, Kind.ACCESS]


def test_a_key_that_is_there_is_not_made_twice_and_one_of_another_account_is_another() -> None:
    assert difference(Declared(keys=(TILL,)), present(there())) == ()
    (made,) = difference(Declared(keys=(TILL,)), present(there(service_account=None)))
    assert made.sign is Sign.ADD


def test_while_a_key_is_exchanged_both_have_its_name() -> None:
    ending = there("key_2", expires_at="2030-01-01T00:00:00+00:00")
    assert difference(Declared(keys=(TILL,)), present(ending, there())) == ()


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"scopes": []}, "its scopes are none, the file says consume on"),
    ],
)
def test_a_key_that_would_change_is_refused(changed: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidRequest, match="declare it by another name") as refused:
        difference(Declared(keys=(TILL,)), present(there(**changed)))
    assert said in refused.value.message


def test_a_key_whose_end_the_file_does_not_name_may_have_one() -> None:
    """The service gives it the end of the key that made it."""
    assert difference(Declared(keys=(TILL,)), present(there(expires_at="2030-01-01T00:00:00+00:00"))) == ()


@pytest.mark.parametrize("ends", [None, "2031-01-01T00:00:00+00:00"])
def test_an_end_that_the_file_names_is_the_keys(ends: str | None) -> None:
    wanted = replace(TILL, expires_at=datetime(2030, 1, 1, tzinfo=UTC))
    with pytest.raises(InvalidRequest, match="the file says 2030-01-01T00:00:00"):
        difference(Declared(keys=(wanted,)), present(there(expires_at=ends)))


def test_the_end_of_a_key_is_compared_as_a_moment() -> None:
    ending = DeclaredKey(name="till", service_account="billing", expires_at=datetime(2030, 1, 1, tzinfo=UTC))
    key = there(scopes=[], expires_at="2030-01-01T01:00:00+01:00")
    assert difference(Declared(keys=(ending,)), present(key)) == ()


def test_a_key_of_an_account_that_will_not_be_there_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="key till: service_account:billing is not there"):
        difference(Declared(service_accounts=(), keys=(TILL,)), present(), prune=True)


def test_keys_are_revoked_only_where_that_is_asked_for_and_never_the_one_in_use() -> None:
    old = there("key_2", "old")
    assert difference(Declared(keys=(TILL,)), present(there(), old), prune=True) == ()
    (gone,) = difference(Declared(keys=(TILL,)), present(there(), old), prune_keys=True)
    assert (gone.kind, gone.sign, gone.id) == (Kind.KEY, Sign.REMOVE, "key_2")
    with pytest.raises(InvalidRequest, match="key old of billing: this command uses it"):
        difference(Declared(keys=(TILL,)), present(there(), old, own_key="key_2"), prune_keys=True)


QUOTAS = {"tenant": "tn_1", "plan": "free", "plan_version": 1, "topics_max": 10, "keys_max": 20}


def test_limits_that_are_as_wanted_are_left_alone() -> None:
    wanted = Declared(quotas=DeclaredQuotas(plan="free", plan_version=1, limits={"topics_max": 10}))
    assert difference(wanted, Present(quotas=QUOTAS)) == ()


def test_another_plan_is_sent_with_every_limit_that_the_file_has_since_it_ends_the_others() -> None:
    wanted = Declared(quotas=DeclaredQuotas(plan="committed", limits={"topics_max": 10}))
    (change,) = difference(wanted, Present(quotas=QUOTAS))
    assert change.fields == (("plan", "free", "committed"),)
    assert change.body == {"plan": "committed", "topics_max": 10}


def test_a_limit_that_the_service_does_not_have_is_refused() -> None:
    wanted = Declared(quotas=DeclaredQuotas(limits={"topic_max": 10}))
    with pytest.raises(
        InvalidRequest, match="'topic_max' is no limit of this service; did you mean topics_max"
    ):
        difference(wanted, Present(quotas=QUOTAS))
