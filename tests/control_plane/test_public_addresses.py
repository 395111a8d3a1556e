"""What answers without a key: a list of every address, which of them are for everyone, and why.

A new address is asked for here without a credential. It must refuse, or stand below with its reason.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver

from control_plane.rest.throttles import CallerThrottle
from tests.control_plane.world import call, make_tenant

PUBLIC = {
    "healthz": "a load balancer asks whether the process answers",
    "readyz": "a load balancer asks whether it may send people here; names no tenant",
    "v1/openapi.json": "the description of REST, which is also in the repository",
    "v1/anchors": "anyone may hold the service to the hashes that it published, which name no tenant",
    "v1/anchors/<str:day>": "the same",
    "v1/sign-in": "with a password; bounded by address and person, and by the line of passwords",
    "v1/sign-up": "for new people; bounded by address, and by the line of passwords",
    "v1/sign-up/finish": "with the token of a mailed link",
    "v1/password/forgot": "has a link mailed; answers the same for every address",
    "v1/password/reset": "with the token of a mailed link",
    "v1/email/take-back": "with the token of a mailed link",
    "sign-in": "the form",
    "sign-up": "the form",
    "forgot": "the form",
    "sign-in/with/<str:provider>": "leads to a provider that the configuration names",
    "sign-in/with/<str:provider>/back": "comes back from there, with what this browser was given",
    "sign-up/<str:token>": "with the token of a mailed link",
    "verify/<str:token>": "with the token of a mailed link",
    "reset/<str:token>": "with the token of a link",
    "address/take-back/<str:token>": "with the token of a mailed link",
    "join/<str:token>": "with the token of an invitation",
    "operator/sign-in": "the form; takes the operators' token",
}
"""By the address's pattern."""


METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")


@dataclass(frozen=True)
class Address:
    route: str
    methods: tuple[str, ...]
    """Those that are asked with."""

    @property
    def path(self) -> str:
        """An address of this pattern; what it names does not exist."""
        return "/" + re.sub(r"<int:[^>]+>", "1", re.sub(r"<(?!int:)[^>]+>", "x", self.route))


def addresses() -> list[Address]:
    def below(resolver: URLResolver, before: str) -> Iterator[Address]:
        for pattern in resolver.url_patterns:
            route = before + str(pattern.pattern)
            if isinstance(pattern, URLResolver):
                yield from below(pattern, route)
            elif isinstance(pattern, URLPattern):
                view = getattr(pattern.callback, "cls", None)
                offered = (
                    METHODS if view is None else [each for each in METHODS if hasattr(view, each.lower())]
                )
                yield Address(route, tuple(offered))

    return list(dict.fromkeys(below(get_resolver(), "")))


def is_refused(address: Address) -> bool:
    """Whether everyone without a credential is refused, or led to a sign-in, whatever they ask for."""
    if address.route.startswith("v1/"):
        return all(
            call(method, address.path, None if method == "GET" else {}).status == 401
            for method in address.methods
        )
    answers = [Client().get(address.path), Client().post(address.path)]
    return all(
        answer.status_code in (401, 403, 405)
        or (answer.status_code == 302 and "sign-in" in answer.headers["Location"])
        for answer in answers
    )


@pytest.mark.django_db
def test_every_address_refuses_whoever_has_no_key_but_those_that_are_for_everyone_with_a_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # It asks for more in a second than one address may.
    monkeypatch.setattr(CallerThrottle, "rate", "100000/second", raising=False)
    make_tenant("acme")
    routes = addresses()
    assert len(routes) > 200
    public = {address.route for address in routes if not is_refused(address)}
    assert public == PUBLIC.keys()


@pytest.mark.django_db
def test_what_tenants_owe_and_do_is_at_no_address_that_everyone_reaches() -> None:
    for path in ("/metrics", "/metrics/", "/v1/metrics"):
        answer = Client().get(path)
        assert answer.status_code == 404 and b"penstock_" not in answer.content
