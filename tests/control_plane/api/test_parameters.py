"""A query parameter that an operation does not have, or that is given twice, is refused and named."""

import threading

import pytest
from drf_spectacular import generators

from control_plane.api import parameters
from control_plane.api.parameters import by_operation, of_route
from control_plane.rate_counters import counters
from control_plane.rest.urls import urlpatterns
from tenants.roles import Standing
from tests.control_plane.world import call, make_house

pytestmark = pytest.mark.django_db


def test_a_mistyped_parameter_is_refused_with_those_that_there_are() -> None:
    house = make_house("acme")
    answer = call("GET", "/v1/topics?limt=5", token=house.credentials[Standing.OWNER])
    assert answer.status == 400
    assert answer.body["fields"] == {"limt": ["no such parameter of GET /v1/topics; known: cursor, limit"]}


@pytest.mark.parametrize(
    ("method", "path", "said"),
    [
        ("GET", "/v1/topics?limit=1&limit=2", "limit: given 2 times"),
        ("GET", "/v1/quotas?tenant=x", "it takes none"),
        ("POST", "/v1/topics?name=a", "known: dry_run"),
        ("POST", "/v1/topics:batch?dry_run=true", "it takes none"),
        ("DELETE", "/v1/topics/orders?force=1", "no such parameter of DELETE /v1/topics/{name}"),
        ("POST", "/v1/sign-in?email=a", "it takes none"),
        ("GET", "/v1/usage?By=day", "known: by, cursor, from, limit, to"),
        ("GET", "/v1/topics?%1b%5b2J=1", "no such parameter"),
    ],
)
def test_what_is_not_in_the_document_is_refused(method: str, path: str, said: str) -> None:
    house = make_house("acme")
    token = None if "sign-in" in path else house.credentials[Standing.OWNER]
    answer = call(method, path, {} if method == "POST" else None, token=token)
    assert answer.status == 400 and said in answer.body["detail"], answer.body
    assert "\x1b" not in answer.body["detail"]


def test_a_stranger_is_told_of_the_credential_first() -> None:
    assert call("GET", "/v1/topics?nonsense=1").status == 401


def test_every_documented_parameter_is_taken() -> None:
    house = make_house("acme")
    tried = 0
    for (method, path), names in by_operation().items():
        for name in names if method == "GET" and "{" not in path else ():
            counters().forget_all()
            answer = call("GET", f"{path}?{name}=1", token=house.credentials[Standing.OWNER])
            assert "no such parameter" not in str(answer.body), (path, name)
            tried += 1
    assert tried > 10


def test_a_route_alone_has_the_parameters_that_the_whole_document_gives_it() -> None:
    found: dict[tuple[str, str], tuple[str, ...]] = {}
    for pattern in urlpatterns:
        found |= of_route(f"v1/{pattern.pattern}", pattern.callback)
    assert found == by_operation()


def test_requests_that_come_together_make_the_document_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    both = threading.Event()

    class Generator:
        def __init__(self, patterns: object) -> None:
            assert patterns is None

        def get_schema(self, public: bool) -> dict[str, dict[str, object]]:
            made.append("once")
            if len(made) > 1:
                both.set()
            both.wait(0.2)
            return {"paths": {}}

    monkeypatch.setattr(generators, "SchemaGenerator", Generator)
    parameters._by_operation.cache_clear()
    try:
        threads = [threading.Thread(target=by_operation) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        parameters._by_operation.cache_clear()
    assert made == ["once"]
