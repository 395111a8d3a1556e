"""What differs of the limits of service accounts between a declarative file and a tenant."""

from typing import Any

import pytest

from penstock import InvalidRequest
from penstock.admin.declaration import Declared, DeclaredAccountLimits
from penstock.admin.declared import difference
from penstock.admin.declared_changes import Kind, Present, Sign
from penstock.admin.declared_file import declared_of

ACCOUNTS = ({"id": "sa_1", "name": "billing"}, {"id": "sa_2", "name": "default"})


def own(account: str, name: str, **limits: int) -> dict[str, Any]:
    unset = {"produce_bytes_per_s": None, "consume_bytes_per_s": None, "requests_per_s": None}
    return {"service_account": account, "name": name, **unset, **limits}


def wanted(accounts: dict[str, dict[str, int]], default: dict[str, int] | None = None) -> Declared:
    return Declared(account_limits=DeclaredAccountLimits(default=default, accounts=accounts))


PRESENT = Present(
    service_accounts=ACCOUNTS,
    account_limits=(own("sa_1", "billing", requests_per_s=5),),
    each_account={"requests_per_s": 100},
)


def test_limits_as_wanted_are_left_alone_and_zero_is_not_none() -> None:
    assert difference(wanted({"billing": {"requests_per_s": 5}}, {"requests_per_s": 100}), PRESENT) == ()
    (change,) = difference(wanted({"billing": {"requests_per_s": 5, "consume_bytes_per_s": 0}}), PRESENT)
    assert change.fields == (("consume_bytes_per_s", None, 0),)


def test_a_limit_that_the_file_does_not_name_is_what_each_account_has() -> None:
    (change,) = difference(wanted({"billing": {"produce_bytes_per_s": 7}}), PRESENT)
    assert (change.sign, change.id) == (Sign.CHANGE, "sa_1")
    assert change.body == {"produce_bytes_per_s": 7, "consume_bytes_per_s": None, "requests_per_s": None}
    assert change.fields == (("produce_bytes_per_s", None, 7), ("requests_per_s", 5, None))


def test_an_account_of_the_name_default_is_not_each_account() -> None:
    (change,) = difference(wanted({"default": {"requests_per_s": 1}}), PRESENT)
    assert (change.name, change.id, change.sign) == ("of default", "sa_2", Sign.ADD)


def test_limits_go_only_when_pruned_and_with_an_account_that_goes_there_is_no_step_of_theirs() -> None:
    nothing = wanted({})
    assert difference(nothing, PRESENT) == ()
    assert [(one.name, one.sign) for one in difference(nothing, PRESENT, prune=True)] == [
        ("default", Sign.REMOVE),
        ("of billing", Sign.REMOVE),
    ]
    limits = DeclaredAccountLimits(default={"requests_per_s": 100}, accounts={})
    going = Declared(service_accounts=("default",), account_limits=limits)
    assert [one.kind for one in difference(going, PRESENT, prune=True)] == [Kind.SERVICE_ACCOUNT]


def test_limits_of_an_account_that_will_not_be_there_are_refused() -> None:
    with pytest.raises(InvalidRequest, match="account_limits: service_account:till is not there"):
        difference(wanted({"till": {"requests_per_s": 1}}), PRESENT)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"account_limits: {}", "1: account_limits: default, accounts or both required"),
        (b"account_limits: {default: {}}", "1: at least one of produce_bytes_per_s"),
        (b"account_limits:\n  default: {requests_per_s: -1}", "2: requests_per_s: -1 is below 0"),
        (
            b"account_limits:\n  default: {request_per_s: 1}",
            "2: 'request_per_s' is no known field; did you mean",
        ),
        (b"account_limits: {accounts: [{requests_per_s: 1}]}", "1: service_account is missing"),
        (b"account_limits: {accounts: [{service_account: a}]}", "1: at least one of produce_bytes_per_s"),
        (b"account_limits: {default: {requests_per_s: true}}", "1: requests_per_s: a whole number required"),
        (
            b"account_limits:\n  accounts:\n    - {service_account: a, requests_per_s: 1}\n"
            b"    - {service_account: a, requests_per_s: 2}",
            "4: accounts: the same stands on line 3 already",
        ),
    ],
)
def test_a_wrong_limit_is_refused_with_its_line(text: bytes, why: str) -> None:
    with pytest.raises(InvalidRequest, match=f"team.yaml:{why}"):
        declared_of(text, "team.yaml")
