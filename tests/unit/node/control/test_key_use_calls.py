"""What all brokers say of keys and peppers, put together."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from data_plane.authz.peppers import Peppers
from data_plane.contract import admin_pb2 as pb
from data_plane.node.admission.key_use import KeyUse
from data_plane.node.control.key_use_calls import ASK_MS, KeyUseCalls, together
from data_plane.node.ports import Caller, ConnectionLost
from data_plane.storage_limits.reports import NearLimit, Use
from penstock.contract.ids import TenantId
from tests.waiting import PATIENCE_S


def says(known: dict[int, bytes], used: list[int], **keys: tuple[int, bytes]) -> pb.DescribeKeyUseResponse:
    return pb.DescribeKeyUseResponse(
        keys=[
            pb.KeyUse(key_id=name, age_ms=age_ms, secret_hmac=found) for name, (age_ms, found) in keys.items()
        ],
        peppers=[pb.KnownPepper(version=version, fingerprint=mark) for version, mark in known.items()],
        peppers_used=used,
    )


def test_the_latest_use_of_a_key_counts_and_any_brokers_hash_of_it() -> None:
    all_of_them = together([says({}, [], b=(5, b""), a=(9, b"x")), says({}, [], b=(3, b"y"), a=(10, b""))])
    assert [(key.key_id, key.age_ms, key.secret_hmac) for key in all_of_them.keys] == [
        ("a", 9, b"x"),
        ("b", 3, b"y"),
    ]


def test_a_pepper_is_known_when_every_broker_has_the_same() -> None:
    one, other = says({1: b"a", 2: b"b", 3: b"c"}, [1]), says({1: b"a", 2: b"z"}, [2, 1])
    found = together([one, other])
    assert [(pepper.version, pepper.fingerprint) for pepper in found.peppers] == [(1, b"a")]
    assert list(found.peppers_used) == [1, 2]


def test_nothing_is_known_by_all_while_one_broker_is_silent() -> None:
    found = together([says({1: b"a"}, [1]), pb.DescribeKeyUseResponse()])
    assert not found.peppers
    assert list(found.peppers_used) == [1]


@pytest.mark.pure  # environment and view are stand-ins
def test_a_key_that_is_stored_under_the_newest_pepper_is_given_without_a_hash() -> None:
    peppers, use = Peppers({1: b"a" * 32, 2: b"b" * 32}), KeyUse()
    keys = {}
    for key_id in ("old", "new"):
        peppers.note_shown(key_id, 1, "secret")
        use.note(key_id, 0)
        keys[key_id] = SimpleNamespace(pepper_version=1, revoked=False, expires_at_ms=0)
    keys["new"].pepper_version = 2
    clock = SimpleNamespace(now_ms=lambda: 1, monotonic_ms=lambda: 1.0)
    environment = SimpleNamespace(config=None, transport=None, clock=clock)
    view = SimpleNamespace(image=SimpleNamespace(keys=keys))
    calls = KeyUseCalls(cast(Any, environment), cast(Any, view), use, peppers, near_storage=lambda: None)
    asked = pb.DescribeKeyUseRequest(local=True, within_ms=9, pepper_version=2)
    answer = pb.DescribeKeyUseResponse.FromString(
        asyncio.run(calls.describe(cast(Caller, None), asked.SerializeToString()))
    )
    assert {key.key_id: bool(key.secret_hmac) for key in answer.keys} == {"old": True, "new": False}


@pytest.mark.pure  # environment and view are stand-ins
def test_all_brokers_are_asked_side_by_side_and_who_is_silent_is_named() -> None:
    asked: list[int] = []
    all_asked = asyncio.Event()

    class Transport:
        async def call(self, peer: Any, method: str, request: bytes, timeout_ms: int) -> bytes:
            asked.append(timeout_ms)
            if len(asked) == 5:
                all_asked.set()
            await all_asked.wait()
            if peer.broker == 4:
                raise ConnectionLost("silent")
            return says({1: b"a"}, [1]).SerializeToString()

    brokers = {
        n: SimpleNamespace(epoch=1, record=SimpleNamespace(broker_id=n, peer_address="p"))
        for n in range(1, 7)
    }
    environment = SimpleNamespace(
        config=SimpleNamespace(broker_id=1),
        transport=Transport(),
        clock=SimpleNamespace(now_ms=lambda: 1, monotonic_ms=lambda: 1.0),
    )
    view = SimpleNamespace(image=SimpleNamespace(keys={}, brokers=brokers))
    calls = KeyUseCalls(
        cast(Any, environment), cast(Any, view), KeyUse(), Peppers({1: b"a" * 32}), near_storage=lambda: near
    )

    near = NearLimit([Use(tenant=TenantId("acme"), used_bytes=90, limit=100)], True)

    async def describe() -> bytes:
        async with asyncio.timeout(PATIENCE_S):
            return await calls.describe(cast(Caller, None), pb.DescribeKeyUseRequest().SerializeToString())

    answer = pb.DescribeKeyUseResponse.FromString(asyncio.run(describe()))
    assert len(asked) == 5 and set(asked) == {ASK_MS}
    assert list(answer.silent) == [4] and not answer.peppers
    assert [(use.tenant, use.used_bytes, use.limit_bytes) for use in answer.near_storage.tenants] == [
        ("acme", 90, 100)
    ]
    assert answer.near_storage.whole
    assert not together([says({}, [])]).HasField("near_storage"), "no controller has answered"


@pytest.mark.pure  # environment and view are stand-ins
def test_a_silent_broker_takes_no_time_of_those_that_are_asked_later() -> None:
    now_ms, asked = [0.0], dict[int, int]()
    last = asyncio.Event()

    class Transport:
        async def call(self, peer: Any, method: str, request: bytes, timeout_ms: int) -> bytes:
            asked[peer.broker] = timeout_ms
            if len(asked) == 199:
                last.set()
            if peer.broker == 2:
                async with asyncio.timeout(PATIENCE_S):
                    await last.wait()
                now_ms[0] += timeout_ms
                raise ConnectionLost("silent")
            return says({1: b"a"}, [1]).SerializeToString()

    brokers = {
        n: SimpleNamespace(epoch=1, record=SimpleNamespace(broker_id=n, peer_address="p"))
        for n in range(1, 201)
    }
    environment = SimpleNamespace(
        config=SimpleNamespace(broker_id=1),
        transport=Transport(),
        clock=SimpleNamespace(now_ms=lambda: 1, monotonic_ms=lambda: now_ms[0]),
    )
    view = SimpleNamespace(image=SimpleNamespace(keys={}, brokers=brokers))
    calls = KeyUseCalls(
        cast(Any, environment), cast(Any, view), KeyUse(), Peppers({1: b"a" * 32}), near_storage=lambda: None
    )
    answer = pb.DescribeKeyUseResponse.FromString(
        asyncio.run(calls.describe(cast(Caller, None), pb.DescribeKeyUseRequest().SerializeToString()))
    )
    assert set(asked.values()) == {ASK_MS} and list(answer.silent) == [2]
