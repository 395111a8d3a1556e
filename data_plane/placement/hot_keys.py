"""Frequent keys of the partitions that a broker leads, as producers report them. Pure; no batch is opened for it.

    unknown --a report--> followed --reports--> followed --EXPIRES_MS without one--> unknown

A report is what its sender says. It is believed for no more messages than the broker itself took of the partition since
it is followed and that no other report has used up: all keys of a partition together have 100 % at most. A first report
begins the count, and nothing of it is believed. Counts forget exponentially: what was FORGETS_MS ago counts 1/e of what
is now. Times are monotonic milliseconds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from penstock.contract.errors import InvalidRequest
from penstock.contract.ids import TenantId, TopicId, TopicPartition

REPORTED_KEYS_MAX = 10
"""Keys of one partition in one report."""
KEY_BYTES_MAX = 256
"""Of one key; a producer cuts longer ones, and says how long they are."""
KEYS_MAX = 16
"""Keys that are kept of a partition."""
PARTITIONS_OF_TENANT_MAX = 128
"""Followed of one tenant; of more, those reported last."""
PARTITIONS_MAX = 2_048
"""Followed in all, some 15 MB when all of their keys are long; for more, the tenant that has most gives one up."""
EXPIRES_MS = 120_000.0
FORGETS_MS = 60_000.0


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyCount:
    """So many messages have this key."""

    key: bytes
    """Its first KEY_BYTES_MAX bytes at most."""
    size: int
    """Of the whole key, in bytes."""
    messages: int

    def __post_init__(self) -> None:
        if len(self.key) > KEY_BYTES_MAX:
            raise InvalidRequest(f"a reported key has {len(self.key)} bytes, at most {KEY_BYTES_MAX} allowed")
        if self.size < len(self.key):
            raise InvalidRequest(f"a reported key has {len(self.key)} bytes, and its size is {self.size}")
        if self.messages < 0:
            raise InvalidRequest(f"a reported key has {self.messages} messages, at least 0 required")


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyReport:
    """What one producer says of its messages to one partition in the last `over_ms`."""

    messages: int
    over_ms: int
    keys: tuple[KeyCount, ...]

    def __post_init__(self) -> None:
        if len(self.keys) > REPORTED_KEYS_MAX:
            raise InvalidRequest(
                f"{len(self.keys)} keys of one partition, at most {REPORTED_KEYS_MAX} allowed"
            )
        if len({one.key for one in self.keys}) < len(self.keys):
            raise InvalidRequest("a key is reported twice of one partition")
        if self.messages < 0:
            raise InvalidRequest(f"{self.messages} messages reported, at least 0 required")
        named = sum([one.messages for one in self.keys])
        if named > self.messages:
            raise InvalidRequest(f"the keys of a partition have {named} messages, of {self.messages} in all")


@dataclass(frozen=True, slots=True, kw_only=True)
class HotKeys:
    """The frequent keys of one partition, those with the largest share first."""

    messages: int
    """That the broker took in about the last minute."""
    keys: tuple[KeyCount, ...]

    @property
    def top_percent(self) -> int:
        """The first key's share."""
        return self.keys[0].messages * 100 // max(1, self.messages) if self.keys else 0


class _Kept:
    __slots__ = ("messages", "size")

    def __init__(self, size: int, messages: float) -> None:
        self.size = size
        self.messages = messages


class _Followed:
    """One partition."""

    __slots__ = ("at_ms", "began_ms", "believed", "end_offset", "keys", "tenant", "took")

    def __init__(self, tenant: TenantId, end_offset: int, now_ms: float) -> None:
        self.tenant = tenant
        self.end_offset = end_offset
        self.took = self.believed = 0.0
        """Messages that the broker took, and those of reports that it believed; both forget."""
        self.keys: dict[bytes, _Kept] = {}
        self.began_ms = self.at_ms = now_ms

    def add(self, report: KeyReport, end_offset: int, now_ms: float) -> None:
        left = math.exp((self.at_ms - now_ms) / FORGETS_MS)
        self.took *= left
        self.believed *= left
        for kept in self.keys.values():
            kept.messages *= left
        self.took += max(0, end_offset - self.end_offset)
        # What the producer sent before the partition was followed is not among what was counted.
        since = min(1.0, (now_ms - self.began_ms) / max(1, report.over_ms))
        believed = min(report.messages * since, max(0.0, self.took - self.believed))
        self.end_offset = end_offset
        self.at_ms = now_ms
        if not report.messages or believed <= 0:
            return
        self.believed += believed
        for one in report.keys:
            self._add_key(one, one.messages * (believed / report.messages))

    def _add_key(self, one: KeyCount, messages: float) -> None:
        kept = self.keys.get(one.key)
        if kept is not None:
            kept.messages += messages
            kept.size = one.size
            return
        if len(self.keys) >= KEYS_MAX:
            # Space-saving would hand its count on; a key that is there by that alone is not to be shown.
            least = min(self.keys, key=lambda key: (self.keys[key].messages, key))
            if self.keys[least].messages >= messages:
                return
            del self.keys[least]
        self.keys[one.key] = _Kept(one.size, messages)


class HotKeyTable:
    """Of one broker."""

    def __init__(self) -> None:
        # In the order of their last reports, both.
        self._followed: dict[TopicPartition, _Followed] = {}
        self._of_tenants: dict[TenantId, dict[TopicPartition, None]] = {}

    def __len__(self) -> int:
        return len(self._followed)

    def take(
        self, where: TopicPartition, tenant: TenantId, report: KeyReport, end_offset: int, now_ms: float
    ) -> bool:
        """A producer reports of a partition that is led here and whose log ends there. True: another partition was
        given up for it."""
        gave_up = False
        self._expire(now_ms)
        followed = self._followed.get(where)
        if followed is None or end_offset < followed.end_offset:
            if followed is None:
                gave_up = self._make_space(tenant)
            followed = _Followed(tenant, end_offset, now_ms)
        else:
            followed.add(report, end_offset, now_ms)
        self._forget(where)
        self._followed[where] = followed
        self._of_tenants.setdefault(tenant, {})[where] = None
        return gave_up

    def keys_of(self, where: TopicPartition, now_ms: float) -> HotKeys | None:
        """As of the last report; None = none came lately."""
        followed = self._followed.get(where)
        if followed is None or now_ms - followed.at_ms >= EXPIRES_MS:
            return None
        keys = [
            KeyCount(key=key, size=kept.size, messages=round(kept.messages))
            for key, kept in followed.keys.items()
            if kept.messages >= 0.5
        ]
        keys.sort(key=_largest_first)
        return HotKeys(messages=round(followed.took), keys=tuple(keys))

    def partitions_of(self, topic_id: TopicId) -> list[TopicPartition]:
        """Those of a topic that are followed, by number."""
        return sorted([where for where in self._followed if where.topic_id == topic_id])

    def _make_space(self, tenant: TenantId) -> bool:
        """For one more of the tenant: what was reported longest ago goes, of its own if it has all it may have or as
        many as any other, else of the tenant that has most. So a few with many leave space for all."""
        own = self._of_tenants.get(tenant, {})
        if len(own) >= PARTITIONS_OF_TENANT_MAX:
            self._forget(next(iter(own)))
            return True
        if len(self._followed) >= PARTITIONS_MAX:
            most = max(self._of_tenants.values(), key=len)
            self._forget(next(iter(own if len(own) == len(most) else most)))
            return True
        return False

    def _expire(self, now_ms: float) -> None:
        while self._followed:
            where = next(iter(self._followed))
            if now_ms - self._followed[where].at_ms < EXPIRES_MS:
                return
            self._forget(where)

    def _forget(self, where: TopicPartition) -> None:
        followed = self._followed.pop(where, None)
        if followed is None:
            return
        own = self._of_tenants[followed.tenant]
        del own[where]
        if not own:
            del self._of_tenants[followed.tenant]


def _largest_first(one: KeyCount) -> tuple[int, bytes]:
    return -one.messages, one.key
