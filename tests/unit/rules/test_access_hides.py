"""A refusal says that the access list hides a name, and by what, to those who may read it; others learn nothing."""

import pytest

from penstock.rules.access import (
    ALLOW,
    DENY,
    DESCRIBE,
    EVERYONE,
    GROUP,
    TENANT,
    TOPIC,
    Access,
    AccessList,
    Acl,
)
from penstock.rules.access_hides import hidden, hint

PERSON, ACCOUNT = "person:usr_1", "service_account:sa_1"


def acl(effect: str, principal: str, resource: str = TOPIC, name: str = "") -> Acl:
    return Acl(effect=effect, principal=principal, resource=resource, name=name)


CLOSED = Access(AccessList(default=DENY, acls=(acl(ALLOW, PERSON, TOPIC, "shop."),)))


def test_a_person_is_told_which_entry_or_the_default_hides_a_name() -> None:
    said = hint(CLOSED, PERSON, TOPIC, "orders", "", scoped=False)
    assert said == (
        f", or the access list hides it from {PERSON}: no entry allows describe to {PERSON}, and the access list"
        " denies what no entry allows"
    )
    denied = Access(AccessList(acls=(acl(DENY, EVERYONE, GROUP, "secret"),)))
    assert "an entry denies it: deny everyone" in hint(denied, PERSON, GROUP, "secrets", "", scoped=False)
    assert hint(CLOSED, PERSON, TOPIC, "shop.north", "", scoped=False) == ""


@pytest.mark.parametrize(("principal", "scoped"), [(ACCOUNT, False), (PERSON, True), ("", False)])
def test_a_key_that_may_not_read_the_list_is_told_nothing(principal: str, scoped: bool) -> None:
    assert hint(CLOSED, principal, TOPIC, "orders", "", scoped=scoped) == ""


def test_a_service_account_that_may_describe_the_tenant_is_told() -> None:
    managing = Access(AccessList(default=DENY, acls=(Acl(effect=ALLOW, principal=ACCOUNT, resource=TENANT),)))
    assert "denies what no entry allows" in hint(managing, ACCOUNT, TOPIC, "orders", "", scoped=False)


def test_hidden_names_what_is_shown_and_what_is_denied() -> None:
    assert hidden(CLOSED, PERSON, TOPIC).endswith(f"entries allow {PERSON} topic shop.*")
    assert hidden(CLOSED, PERSON, GROUP).endswith(f"entries allow {PERSON} no group")
    assert hidden(CLOSED, ACCOUNT, TOPIC).endswith(f"entries allow {ACCOUNT} no topic")
    assert hidden(Access(AccessList()), PERSON, TOPIC) == ""
    denied = Acl(effect=DENY, principal=EVERYONE, resource=TOPIC, name="s", operations=(DESCRIBE,))
    assert hidden(Access(AccessList(acls=(denied,))), PERSON, TOPIC) == "deny everyone describe on topic s*"
