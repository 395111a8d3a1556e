"""What the tests' world writes by itself is what the control plane writes."""

from typing import Any

import pytest

from control_plane.access import actions as access
from control_plane.access.models import KeyBinding
from control_plane.audit.models import AuditEntry
from control_plane.outbox.models import Delivery
from penstock.contract.api_keys import parse_api_key
from tenants import queries
from tenants.models import ApiKey
from tenants.roles import Standing
from tests.control_plane.world import ACTOR, House, make_house

pytestmark = pytest.mark.django_db

OF_ONE_KEY = {"id", "key", "public_id", "key_id", "secret_hmac", "scram", "object_id"}
"""What no two keys have in common."""
OF_A_PLACE = {"sequence", "hash", "previous_hash", "at", "created_at", "updated_at", "next_attempt_at"}


@pytest.fixture
def house() -> House:
    return make_house("acme")


def written(key: ApiKey) -> list[list[dict[str, Any]]]:
    """Everything in the database about a key, without what is its own."""
    rows = [
        [ApiKey.objects.get(pk=key.pk)],
        KeyBinding.objects.filter(key=key),
        AuditEntry.objects.filter(object_id=key.public_id),
        Delivery.objects.filter(object_id=key.public_id),
    ]
    return [
        [
            {
                name: value
                for field in row._meta.concrete_fields
                if (name := field.name) not in OF_ONE_KEY | OF_A_PLACE
                for value in [field.value_from_object(row)]
            }
            for row in found
        ]
        for found in rows
    ]


@pytest.mark.parametrize("standing", [Standing.KEY, Standing.BOUND_KEY])
def test_a_houses_key_is_as_the_control_plane_makes_it(house: House, standing: Standing) -> None:
    bound = standing is Standing.BOUND_KEY
    if bound:
        made, _ = access.create_key(
            ACTOR, house.tenant, name="bound", topic_prefix="orders", operations=["produce"]
        )
    else:
        made, _ = access.create_key(ACTOR, house.tenant, name="all")
    (key,) = ApiKey.objects.filter(tenant=house.tenant, name=made.name).exclude(pk=made.pk)
    assert written(key) == written(made)
    assert sorted(map(len, written(key))) == [int(bound), 1, 1, 1]
    assert queries.key_of(parse_api_key(house.credentials[standing])) == key
