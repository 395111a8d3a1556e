"""Names are exact on both databases: SQLite's LIKE takes no notice of case, and rights must not hang on it."""

import re
from pathlib import Path

import pytest

from control_plane.access import actions as access
from control_plane.topics import actions, queries
from penstock.rules.access import DESCRIBE, TOPIC, Scope, scope_grants
from tests.control_plane.world import ACTOR, House, call, make_house

ROOT = Path(__file__).parents[2]
INEXACT = re.compile(r"__(startswith|endswith|contains|iexact|regex|iregex)\b")
"""Lookups that SQLite answers without regard to case, or by another dialect than PostgreSQL."""


@pytest.fixture
def house() -> House:
    house = make_house("acme")
    for name in ("orders", "orders-eu", "ORDERS-payroll", "Orders.x", "other", "orders_1", "ordersX1"):
        actions.create_topic(ACTOR, house.tenant, name=name, partitions=1, settings={})
    return house


@pytest.mark.django_db
def test_a_bound_key_sees_the_names_of_its_prefix_to_the_letter(house: House) -> None:
    _, key = access.create_key(ACTOR, house.tenant, name="shop", topic_prefix="orders")
    seen = [one["name"] for one in call("GET", "/v1/topics", token=key.reveal()).body["items"]]
    assert sorted(seen) == ["orders", "orders-eu", "ordersX1", "orders_1"]
    assert call("GET", "/v1/topics/ORDERS-payroll", token=key.reveal()).status == 404
    assert call("GET", "/v1/topics/orders-eu", token=key.reveal()).status == 200


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("prefixes", "seen"),
    [
        ((), []),
        (("",), ["ORDERS-payroll", "Orders.x", "orders", "orders-eu", "ordersX1", "orders_1", "other"]),
        (("orders_",), ["orders_1"]),
        (("O", "ot"), ["ORDERS-payroll", "Orders.x", "other"]),
        (("orders-eu-west",), []),
    ],
)
def test_prefixes_have_no_wildcards(house: House, prefixes: tuple[str, ...], seen: list[str]) -> None:
    scopes = [Scope(name=prefix) for prefix in prefixes]

    def visible(name: str) -> bool:
        return any(scope_grants(scope, DESCRIBE, TOPIC, name) for scope in scopes)

    found = queries.topics(house.tenant, visible).values_list("name", flat=True)
    assert sorted(found) == seen


def test_no_lookup_depends_on_how_a_database_compares_text() -> None:
    packages = ("control_plane", "tenants", "quotas", "billing", "payments", "web")
    found = [
        f"{file.relative_to(ROOT)}: {line.strip()}"
        for package in packages
        for file in sorted((ROOT / package).rglob("*.py"))
        for line in file.read_text().splitlines()
        if INEXACT.search(line)
    ]
    assert not found, "use an exact comparison:\n" + "\n".join(found)
