"""The gate: a tenant's calls and streams are counted while they are open, and bounded."""

from typing import Any, cast

import pytest

from data_plane.authz.access import Principal
from data_plane.node.access import Gate
from data_plane.node.ports import Caller, CallFailed
from data_plane.node.stats import NodeStats
from penstock.contract import limits
from penstock.contract.errors import ErrorCode, Unauthenticated
from penstock.contract.ids import PrincipalNumber, TenantId


class Keys:
    """In place of the authenticator: the credential is the tenant's name."""

    def __init__(self) -> None:
        self.asked = 0
        self.revoked = False

    def authenticate(self, authorization: str, **_: Any) -> Principal:
        self.asked += 1
        return Principal(
            tenant=TenantId(authorization),
            number=PrincipalNumber(1),
            key_id="key",
            key_revision=1,
            expires_at_ms=0,
        )

    def check_still_valid(self, principal: Principal, now_ms: int) -> None:
        if self.revoked:
            raise Unauthenticated("the API key was revoked")


class Clock:
    def now_ms(self) -> int:
        return 0

    def monotonic_ms(self) -> float:
        return 0.0


def gate() -> tuple[Gate, Keys]:
    keys = Keys()
    return Gate(cast(Any, keys), Clock(), NodeStats(), lambda: 0.0), keys


def of(tenant: str, principal: Principal | None = None, *, peer: str = "p", connection: str = "") -> Caller:
    return Caller(
        peer=peer,
        authorization=tenant,
        cluster_secret="",
        internal=False,
        connection=connection,
        principal=principal,
    )


def test_a_tenant_has_so_many_calls_open_and_no_more_and_others_have_theirs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "CALLS_PER_TENANT_MAX", 2)
    door, _ = gate()
    with door.enter(of("a")):
        with door.enter(of("a")):
            with pytest.raises(CallFailed, match="2 streams and calls open") as refused, door.enter(of("a")):
                pass
            assert refused.value.code == ErrorCode.LIMIT_EXCEEDED
            with door.enter(of("b")):
                pass
        with door.enter(of("a")) as principal:
            assert principal.tenant == "a"
    assert not door._calls


def test_who_was_admitted_is_not_asked_for_his_secret_again_but_whether_his_key_still_counts() -> None:
    door, keys = gate()
    with door.enter(of("a")) as principal:
        assert door.admit(of("", principal)) is principal
        assert keys.asked == 1
        keys.revoked = True
        with pytest.raises(CallFailed, match="was revoked"):
            door.admit(of("", principal))


def test_a_tenant_has_calls_on_so_many_connections_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "CONNECTIONS_PER_TENANT_MAX", 2)
    door, _ = gate()
    told = "the tenant has 2 connections with calls open at this broker, at most 2 allowed"
    with door.enter(of("a", connection="p:1")), door.enter(of("a", connection="p:1")):
        with door.enter(of("a", peer="q", connection="q:2")):
            with pytest.raises(CallFailed, match=told) as refused, door.enter(of("a", connection="p:3")):
                pass
            assert refused.value.code == ErrorCode.LIMIT_EXCEEDED
            with door.enter(of("b", connection="p:3")), door.enter(of("a", connection="p:1")):
                assert door.connections == 3
        with door.enter(of("a", connection="p:3")):
            pass
    assert (door.connections, door._stats.calls_over_limits) == (0, 1)


def test_an_address_with_too_many_connections_is_refused_before_its_key_is_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "CONNECTIONS_PER_ADDRESS_MAX", 1)
    door, keys = gate()
    with door.enter(of("a", connection="p:1")):
        with (
            pytest.raises(CallFailed, match="the address has 1 connections"),
            door.enter(of("b", connection="p:2")),
        ):
            pass
        assert keys.asked == 1
        with door.enter(of("b", peer="q", connection="q:2")), door.enter(of("a", connection="p:1")):
            pass
    with door.enter(of("b", connection="p:2")):
        pass
