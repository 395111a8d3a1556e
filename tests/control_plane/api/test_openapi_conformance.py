"""Schemathesis over the OpenAPI document: whatever is sent, answers are those that it tells, never a fault.

A run asks a fifth of the operations, drawn by its seed, and all of them under FULL=1.
"""

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pytest
import schemathesis
from django.core.handlers.wsgi import WSGIHandler
from django.core.signals import request_finished, request_started
from django.db import close_old_connections, transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pytest_django.plugin import DjangoDbBlocker
from schemathesis import GenerationMode
from schemathesis.checks import load_all_checks
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    ignored_auth,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
    unsupported_method,
)

from control_plane.access import actions as access
from control_plane.brokers import client as brokers
from control_plane.brokers.view import ClusterView
from control_plane.outbox import in_request
from control_plane.placement import driving, planning
from control_plane.rate_counters import counters
from control_plane.topics import actions as topics
from control_plane.topics import queries as topic_queries
from control_plane.topics.models import Topic
from penstock.contract.errors import ErrorCode
from tenants.models import Person
from tenants.roles import Standing
from tests.conftest import FULL
from tests.control_plane.api.document import document as openapi_document
from tests.control_plane.rows_of_a_module import rows_of_a_module
from tests.control_plane.world import ACTOR, House, everything_delivered, make_house, with_verifying_key

pytestmark = [pytest.mark.django_db, pytest.mark.slow]

EXAMPLES = 200
"""Of each operation and mode in the long form."""
EXAMPLES_AT_LEAST, EXAMPLES_A_PARAMETER, EXAMPLES_A_FIELD, EXAMPLES_AT_MOST = 4, 1, 2, 14
"""Otherwise. Where an id is all that varies, hypothesis makes copies of its own first examples from the tenth on."""
load_all_checks()


def never_a_fault(context: Any, response: Any, case: Any) -> None:
    """503 is no fault where the document tells it: no brokers run here."""
    assert response.status_code in (503, *range(200, 500)), response.text


def refusals_are_problems(context: Any, response: Any, case: Any) -> None:
    if response.status_code < 400:
        return
    assert response.headers["content-type"] == ["application/problem+json"], response.headers
    body = response.json()
    assert {"type", "title", "status", "detail", "code", "fields"} == body.keys() - {"limit"}
    assert body["status"] == response.status_code and body["detail"]
    assert body["code"].upper() in ErrorCode.__members__


CHECKS = [
    never_a_fault,
    refusals_are_problems,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    negative_data_rejection,
    ignored_auth,
    unsupported_method,
]
OPEN = {"sign_up", "sign_in"}


def _operations() -> dict[str, Any]:
    document = deepcopy(openapi_document())
    # Credentials are the test's to give; `ignored_auth` takes them away again.
    config = schemathesis.Config.from_dict({"generation": {"with-security-parameters": False}})
    schema = schemathesis.openapi.from_dict(document, config=config)
    schema.app = WSGIHandler()
    found = {}
    for result in schema.get_all_operations():
        assert isinstance(result, Ok)
        operation = result.ok()
        found[operation.definition.raw["operationId"]] = operation
    return found


def _can_be_wrong(operation: Any) -> bool:
    """Whether the document forbids anything: any text will do as an id or a name."""
    raw = operation.definition.raw
    schemas = [parameter["schema"] for parameter in raw.get("parameters", ())]
    return "requestBody" in raw or any(
        set(schema) & {"enum", "format", "pattern"} or schema.get("type") != "string" for schema in schemas
    )


def _examples(operation: Any) -> int:
    """More where more can be wrong. That each standing is let in or not is shown by `test_permissions.py`."""
    if FULL:
        return EXAMPLES
    raw = operation.definition.raw
    varied = EXAMPLES_AT_LEAST + EXAMPLES_A_PARAMETER * len(raw.get("parameters", ()))
    for content in raw.get("requestBody", {}).get("content", {}).values():
        varied += EXAMPLES_A_FIELD * len(_fields(content["schema"]))
    return min(varied, EXAMPLES_AT_MOST)


def _fields(schema: dict[str, Any]) -> dict[str, Any]:
    """The fields of a body's schema, which may be a reference."""
    while "$ref" in schema:
        schema = openapi_document()["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    found: dict[str, Any] = schema.get("properties", {})
    return found


OPERATIONS = _operations()
CASES = [
    pytest.param(name, mode, id=f"{name}-{mode.value}")
    for name, operation in OPERATIONS.items()
    for mode in GenerationMode
    if mode.is_positive or _can_be_wrong(operation)
]


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """No worker runs here, so no request waits for one."""
    monkeypatch.setattr(in_request.deliver_now, "__defaults__", (0.0,))
    monkeypatch.setattr(driving, "ASK_S", 0.05)
    monkeypatch.setattr(planning, "ASK_S", 0.05)
    monkeypatch.setattr(topic_queries, "ASK_S", 0.05)


@pytest.fixture(autouse=True)
def _one_connection() -> Iterator[None]:
    """Requests use the test's connection, and leave it open, as they do with Django's own client."""
    request_started.disconnect(close_old_connections)
    request_finished.disconnect(close_old_connections)
    yield
    request_started.connect(close_old_connections)
    request_finished.connect(close_old_connections)


@pytest.fixture(scope="module")
def made(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[tuple[House, str]]:
    """The tenant, and the id of a key of it that no test calls with."""
    with rows_of_a_module(django_db_blocker):
        house = with_verifying_key(make_house("acme"))
        topics.create_topic(ACTOR, house.tenant, name="orders", partitions=3, settings={})
        key, _ = access.create_key(ACTOR, house.tenant, name="one more")
        everything_delivered()
        yield house, key.public_id


@pytest.fixture
def house(made: tuple[House, str]) -> House:
    return deepcopy(made[0])


@pytest.mark.drawn(shares=5)
@pytest.mark.parametrize(("name", "mode"), CASES)
def test_whatever_is_sent_the_answer_is_one_that_the_document_tells(
    name: str, mode: GenerationMode, house: House, made: tuple[House, str]
) -> None:
    operation = OPERATIONS[name]
    known = {"name": "orders", "tenant": house.tenant.public_id, "key": made[1]}
    known["person"] = Person.objects.get(email="developer@acme.example").public_id
    checks = list(CHECKS)

    @settings(
        max_examples=_examples(operation),
        derandomize=not FULL,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(data=st.data())
    def try_it(data: st.DataObject) -> None:
        case = data.draw(operation.as_strategy(generation_mode=mode))
        standing = data.draw(st.sampled_from(list(Standing)), label="who calls")
        if data.draw(st.booleans(), label="about what is there"):
            for parameter in case.path_parameters or {}:
                if parameter in known:
                    case.path_parameters[parameter] = known[parameter]
        headers = {} if name in OPEN else {"Authorization": f"Bearer {house.credentials[standing]}"}
        if name not in OPEN and standing is Standing.OPERATOR:
            headers["Penstock-Tenant"] = house.tenant.public_id
        counters().forget_all()
        with transaction.atomic():
            response = case.call_and_validate(checks=checks, headers=headers)
            transaction.set_rollback(True)
        if response.status_code < 300 and ignored_auth in checks:
            checks.remove(ignored_auth)  # two more requests, which depend on the operation alone

    try_it()


@pytest.mark.parametrize("purge", [False, True])
def test_the_answer_to_a_topics_deletion_is_as_described_with_the_bin_and_without(
    purge: bool, house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Examples seldom name a topic that is there and purge it."""
    cluster = ClusterView(cluster_id="c", controller=1, revision=1, brokers=(), feature_level=2)
    monkeypatch.setattr(brokers, "describe", lambda **_: cluster)
    Topic.objects.update(on_brokers=True)
    case = OPERATIONS["topics_delete"].Case(
        path_parameters={"name": "orders"}, query={"purge": str(purge).lower()}
    )
    response = case.call_and_validate(
        checks=[never_a_fault, status_code_conformance, response_schema_conformance],
        headers={"Authorization": f"Bearer {house.credentials[Standing.OWNER]}"},
    )
    assert (response.json()["purge_at"] is None) == purge
