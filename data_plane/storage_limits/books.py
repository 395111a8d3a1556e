"""The controller's books of what each tenant keeps, over all partitions, for one term of office.

    WITHIN --its partitions together pass the limit--> FULL --at most 95 % of the limit are used--> WITHIN

    LEARNING --every registered broker has reported all, and no partition of a full tenant is unknown; or learn_ms have
    passed--> COMPLETE

Leaders report each partition's size under their leader epoch, and the highest epoch counts: a partition that moves is
never counted twice, and one whose leader is gone counts as it was reported last. While the books are learned they know
too little and never too much, so a tenant that passes its limit is full at once; one that brokers already refuse stays
so until the books are complete.
"""

from collections.abc import Callable, Container, Iterable, Mapping

from data_plane.storage_limits.reports import (
    NAMED_MAX,
    Full,
    Kept,
    NearLimit,
    Report,
    Use,
    has_cleared,
)
from penstock.contract.ids import BrokerId, TenantId, TopicId, TopicPartition
from penstock.rules.nearness import CLEAR_PERCENT, is_near

LOOK_MS = 1_000
"""Between looks at all tenants: a limit that was lowered, or a topic that was deleted, is then seen."""


class _Account:
    """Of one tenant."""

    __slots__ = ("topics", "used_bytes")

    def __init__(self) -> None:
        self.topics: dict[TopicId, dict[int, tuple[int, int]]] = {}
        """By topic and partition: leader epoch, bytes."""
        self.used_bytes = 0

    def take(self, kept: Kept) -> None:
        partitions = self.topics.setdefault(kept.where.topic_id, {})
        epoch, before = partitions.get(kept.where.partition, (-1, 0))
        if kept.leader_epoch >= epoch:
            partitions[kept.where.partition] = (kept.leader_epoch, kept.size_bytes)
            self.used_bytes += kept.size_bytes - before

    def forget_others(self, topics: Container[TopicId]) -> None:
        """Topics that are not among these are deleted."""
        for topic_id in [topic_id for topic_id in self.topics if topic_id not in topics]:
            for _, size_bytes in self.topics.pop(topic_id).values():
                self.used_bytes -= size_bytes

    def has(self, where: TopicPartition) -> bool:
        return where.partition in self.topics.get(where.topic_id, ())


class StorageBooks:
    """Answers alone: it sends nothing by itself, keeps no timer, and forgets everything with its seat."""

    def __init__(
        self,
        epoch: int,
        began_ms: float,
        *,
        learn_ms: float,
        limit: Callable[[TenantId], int],
        tenant_of: Callable[[TopicId], TenantId | None],
        counted: Callable[[Container[TenantId]], Iterable[TopicPartition]],
    ) -> None:
        """`limit`: of the tenant's quotas, 0 = none. `tenant_of`: whose topic it is, None = of none that exists.
        `counted`: all partitions of these tenants that count, those without a leader too.
        """
        self.epoch = epoch
        self._began_ms = began_ms
        self._learn_ms = learn_ms
        self._limit = limit
        self._tenant_of = tenant_of
        self._counted = counted
        self._accounts: dict[TenantId, _Account] = {}
        self._whole: dict[BrokerId, int] = {}
        """Registration under which each broker has reported all that it leads."""
        self._full: dict[TenantId, None] = {}
        self._named: dict[TenantId, None] = {}
        """From CLEAR_PERCENT on: who is below is no longer near."""
        self._looked_ms = float("-inf")
        self._complete = False

    @property
    def full(self) -> list[Full]:
        """Tenants that may produce no more, in order."""
        return [Full(tenant, self.used_bytes(tenant)) for tenant in sorted(self._full)]

    @property
    def near(self) -> int:
        """Tenants that are near their limit, full ones included."""
        return sum(is_near(self.used_bytes(tenant), self._limit(tenant)) for tenant in self._named)

    @property
    def named(self) -> NearLimit:
        """Those who are near their limit or may not be warned again yet, from CLEAR_PERCENT on; at most NAMED_MAX."""
        uses = [
            Use(tenant=tenant, used_bytes=self.used_bytes(tenant), limit=self._limit(tenant))
            for tenant in sorted(self._named)
            if self._limit(tenant)
        ]
        uses.sort(key=_share, reverse=True)
        return NearLimit(uses[:NAMED_MAX], self._complete and len(uses) <= NAMED_MAX)

    def used_bytes(self, tenant: TenantId) -> int:
        """Of one copy, as far as it was reported."""
        account = self._accounts.get(tenant)
        return 0 if account is None else account.used_bytes

    def reported(
        self, report: Report, registered: Mapping[BrokerId, int], topics: Container[TopicId], now_ms: float
    ) -> bool:
        """Take a report into the books. False: it is not for this controller, or of a broker that is not registered
        so. `registered`: the epoch of each registered broker. `topics`: all that exist.
        """
        if report.epoch != self.epoch or registered.get(report.broker) != report.registration:
            return False
        for refused in report.full:
            if not self._complete and self._limit(refused):
                self._full[refused] = None
        touched: dict[TenantId, None] = {}
        for kept in report.kept:
            tenant = self._tenant_of(kept.where.topic_id)
            if tenant is not None:
                self._account(tenant).take(kept)
                touched[tenant] = None
        if report.whole:
            self._whole[report.broker] = report.registration
        self._learn(registered, now_ms)
        if now_ms - self._looked_ms >= LOOK_MS:
            self._looked_ms = now_ms
            judged = [*self._accounts, *self._full]
            for account in self._accounts.values():
                account.forget_others(topics)
            self._accounts = {tenant: account for tenant, account in self._accounts.items() if account.topics}
            self._judge(judged)
        else:
            self._judge([*touched, *self._full])
        return True

    def _account(self, tenant: TenantId) -> _Account:
        account = self._accounts.get(tenant)
        if account is None:
            account = self._accounts[tenant] = _Account()
        return account

    def _learn(self, registered: Mapping[BrokerId, int], now_ms: float) -> None:
        if not self._complete:
            self._complete = now_ms - self._began_ms >= self._learn_ms or (
                all(self._whole.get(broker) == registration for broker, registration in registered.items())
                and all(map(self._knows, self._counted(self._full)))
            )

    def _knows(self, where: TopicPartition) -> bool:
        tenant = self._tenant_of(where.topic_id)
        account = None if tenant is None else self._accounts.get(tenant)
        return account is not None and account.has(where)

    def _judge(self, tenants: Iterable[TenantId]) -> None:
        for tenant in dict.fromkeys(tenants):
            limit, used_bytes = self._limit(tenant), self.used_bytes(tenant)
            if limit and used_bytes > limit:
                self._full[tenant] = None
            elif tenant in self._full and (limit == 0 or (self._complete and has_cleared(used_bytes, limit))):
                del self._full[tenant]
            if limit and used_bytes * 100 >= limit * CLEAR_PERCENT:
                self._named[tenant] = None
            else:
                self._named.pop(tenant, None)


def _share(use: Use) -> float:
    return use.used_bytes / use.limit
