"""Operators' call about the use of API keys, the peppers that they need, and who is near its storage limit."""

import asyncio
import heapq
from collections.abc import Callable

from data_plane.authz.peppers import Peppers
from data_plane.contract import admin_pb2 as pb
from data_plane.contract.methods import DESCRIBE_KEY_USE
from data_plane.node.admission.key_use import PAGE, KeyUse
from data_plane.node.environment import Environment
from data_plane.node.membership.metadata_view import MetadataView
from data_plane.node.ports import Caller, CallFailed, CallHandler, ConnectionLost, peer_of
from data_plane.node.requests import parsed
from data_plane.storage_limits.reports import NearLimit
from penstock.contract.ids import BrokerId

ASK_MS = 2_000
"""For all others together: less than the caller waits."""
_AT_ONCE = 64
"""Brokers asked side by side."""


class KeyUseCalls:
    """Answers for this broker, or for all: it asks the others, side by side. Those that do not answer in time are named
    and asked the next time, and until then it is not said of any pepper that all brokers have it.
    """

    def __init__(
        self,
        environment: Environment,
        view: MetadataView,
        use: KeyUse,
        peppers: Peppers,
        *,
        near_storage: Callable[[], NearLimit | None],
    ) -> None:
        """`near_storage`: who is near its storage limit, None where this broker is not the controller."""
        self._config = environment.config
        self._transport = environment.transport
        self._clock = environment.clock
        self._view = view
        self._use = use
        self._peppers = peppers
        self._near_storage = near_storage

    def internal_calls(self) -> dict[str, CallHandler]:
        return {DESCRIBE_KEY_USE: self.describe}

    def peer_calls(self) -> dict[str, CallHandler]:
        return {DESCRIBE_KEY_USE: self.describe}

    async def describe(self, caller: Caller, request: bytes) -> bytes:
        """Raises `InvalidRequest`."""
        wanted = parsed(pb.DescribeKeyUseRequest, request)
        answers = [self._own(wanted)]
        if not wanted.local:
            known = self._view.image.brokers
            others = [
                broker for broker in sorted(known) if broker != self._config.broker_id and known[broker].epoch
            ]
            until_ms = self._clock.monotonic_ms() + ASK_MS
            places = asyncio.Semaphore(_AT_ONCE)
            answers += await asyncio.gather(
                *(self._in_turn(places, broker, wanted, until_ms) for broker in others)
            )
        return together(answers).SerializeToString()

    def _own(self, wanted: pb.DescribeKeyUseRequest) -> pb.DescribeKeyUseResponse:
        now_ms = self._clock.now_ms()
        page = self._use.page(after=wanted.after, within_ms=wanted.within_ms, now_ms=now_ms)
        self._peppers.read_again(self._clock.monotonic_ms())
        self._peppers.forget_stored(self._view.image.keys)
        known = self._peppers.known()
        return pb.DescribeKeyUseResponse(
            keys=[
                pb.KeyUse(
                    key_id=key_id,
                    age_ms=age_ms,
                    secret_hmac=self._peppers.hash_of(key_id, wanted.pepper_version),
                )
                for key_id, age_ms in page
            ],
            more=len(page) == PAGE,
            peppers=[pb.KnownPepper(version=version, fingerprint=known[version]) for version in known],
            peppers_used=[] if wanted.after else self._used(now_ms),
            near_storage=None if wanted.after else self._near(),
        )

    def _near(self) -> pb.NearStorage | None:
        near = self._near_storage()
        if near is None:
            return None
        return pb.NearStorage(
            tenants=[
                pb.StorageUse(tenant=use.tenant, used_bytes=use.used_bytes, limit_bytes=use.limit)
                for use in near.uses
            ],
            whole=near.whole,
        )

    def _used(self, now_ms: int) -> list[int]:
        keys = self._view.image.keys.values()
        return sorted(
            {
                key.pepper_version
                for key in keys
                if not key.revoked and (key.expires_at_ms == 0 or now_ms < key.expires_at_ms)
            }
        )

    async def _in_turn(
        self,
        places: asyncio.Semaphore,
        broker: BrokerId,
        wanted: pb.DescribeKeyUseRequest,
        until_ms: float,
    ) -> pb.DescribeKeyUseResponse:
        """When one of those asked before has answered: a silent broker takes one place, and no one else's time."""
        async with places:
            left_ms = max(1, int(until_ms - self._clock.monotonic_ms()))
            return await self._at(broker, wanted, left_ms)

    async def _at(
        self, broker: BrokerId, wanted: pb.DescribeKeyUseRequest, timeout_ms: int
    ) -> pb.DescribeKeyUseResponse:
        known = self._view.image.brokers.get(broker)
        if known is None:
            return pb.DescribeKeyUseResponse(silent=[broker])
        request = pb.DescribeKeyUseRequest(
            local=True,
            after=wanted.after,
            within_ms=wanted.within_ms,
            pepper_version=wanted.pepper_version,
        )
        try:
            answer = await self._transport.call(
                peer_of(known.record),
                DESCRIBE_KEY_USE,
                request.SerializeToString(),
                timeout_ms,
            )
        except (ConnectionLost, CallFailed):
            return pb.DescribeKeyUseResponse(silent=[broker])
        return pb.DescribeKeyUseResponse.FromString(answer)


def together(answers: list[pb.DescribeKeyUseResponse]) -> pb.DescribeKeyUseResponse:
    """One answer of all: the latest use of each key, the peppers that each has, and all that some key needs."""
    keys: dict[str, pb.KeyUse] = {}
    for answer in answers:
        for one in answer.keys:
            seen = keys.get(one.key_id)
            if seen is None:
                keys[one.key_id] = pb.KeyUse(
                    key_id=one.key_id, age_ms=one.age_ms, secret_hmac=one.secret_hmac
                )
            else:
                seen.age_ms = min(seen.age_ms, one.age_ms)
                seen.secret_hmac = seen.secret_hmac or one.secret_hmac
    known = {one.version: one.fingerprint for one in answers[0].peppers}
    for answer in answers[1:]:
        theirs = {one.version: one.fingerprint for one in answer.peppers}
        known = {version: mark for version, mark in known.items() if theirs.get(version) == mark}
    near = [answer.near_storage for answer in answers if answer.HasField("near_storage")]
    return pb.DescribeKeyUseResponse(
        keys=[keys[key_id] for key_id in heapq.nsmallest(PAGE, keys)],
        more=any(answer.more for answer in answers) or len(keys) > PAGE,
        peppers=[pb.KnownPepper(version=version, fingerprint=known[version]) for version in sorted(known)],
        peppers_used=sorted({version for answer in answers for version in answer.peppers_used}),
        silent=sorted({broker for answer in answers for broker in answer.silent}),
        near_storage=near[0] if near else None,
    )
