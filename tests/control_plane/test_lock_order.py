"""Rows are locked in one order, the tenant's first, and no row because it is read with another."""

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from control_plane.topics import actions
from tenants.roles import Standing
from tests.control_plane.world import ACTOR, call, make_house

pytestmark = pytest.mark.django_db


def test_every_change_of_a_topic_locks_the_tenant_and_then_the_topic_alone() -> None:
    house = make_house("acme")
    owner = house.credentials[Standing.OWNER]
    actions.create_topic(ACTOR, house.tenant, name="orders", partitions=1, settings={})

    def locks(*call_: Any, **given: Any) -> list[str]:
        with CaptureQueriesContext(connection) as made:
            answer = call(*call_, token=owner, **given)
        assert answer.status < 300, answer.body
        found = [one["sql"] for one in made.captured_queries if "FOR NO KEY UPDATE" in one["sql"]]
        assert not [sql for sql in found if " JOIN " in sql and not sql.endswith(' OF "topics_topic"')], found
        tables = [sql.split(" FROM ")[1].split()[0].strip('"') for sql in found]
        return [table for table in tables if table in ("tenants_tenant", "topics_topic")]

    tag = call("GET", "/v1/topics/orders", token=owner).headers["ETag"]
    for order in (
        locks("PATCH", "/v1/topics/orders", {"partitions": 2}, If_Match=tag),
        locks("PATCH", "/v1/topics/orders", {"partitions": 3}),
        locks("DELETE", "/v1/topics/orders"),
    ):
        assert "topics_topic" in order and order[0] == "tenants_tenant", order
