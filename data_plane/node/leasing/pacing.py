"""The paces of all tenants with a produce rate on one broker: demand is measured, and shares of the rate come back."""

from dataclasses import dataclass

from data_plane.leases.holder import LeaseHolder
from data_plane.leases.terms import LimitKey
from data_plane.metadata.features import LEASES
from data_plane.metadata.image import ClusterImage
from data_plane.throttling.pacing import Pace, part_led
from penstock.contract.ids import BrokerId, TenantId
from penstock.contract.limits import PRODUCE_BYTES_PER_S_MAX

PRODUCE_RATE = "produce_bytes_per_s"
SHARE_CHECK_MS = 1_000
"""Between looks at who leads a tenant's partitions."""
FLOOR = 25
"""All brokers together may use one part in so many of a limit without asking, each in proportion to what it leads."""
IDLE_MS = 2_000
"""A pace that was not used for so long is looked at no more, and its lease is given up."""
_HEADROOM, _MORE = 20, 4
"""One part in so many is wanted above what is used: while it suffices, and while something is delayed."""
_HOPE_MS = 1_000
"""While the first lease is awaited, batches are refused only as if it brought all of the rate; for so long at most."""
_DELAYED_MS, _BACKLOG_MS = 100.0, 500.0
"""With more delayed than the first a pace wants somewhat more, one large batch may be all of it. With more than the
second it could use all there is."""
_SMOOTHING = 0.3
"""The part of the last measurement in the mean: a second or so of bursts counts."""


@dataclass(slots=True)
class _Paced:
    pace: Pace
    key: LimitKey
    rate: int
    """The tenant's, over all brokers."""
    floor: int
    safe: int
    revision: int
    looked_ms: float
    valid_until_ms: float
    """When the share changes by itself."""
    used_ms: float
    measured_ms: float
    let_in: int
    """When it was measured last."""
    refused: int
    per_s: float = 0.0
    """Bytes let in, smoothed."""
    active: bool = False


class Pacing:
    """By the image and the leases of this broker. `begun` says that a pace is used which was not looked at before."""

    def __init__(self, image: ClusterImage, broker: BrokerId, holder: LeaseHolder) -> None:
        self._image, self._broker, self._holder = image, broker, holder
        self._paces: dict[TenantId, _Paced] = {}
        self._active: dict[TenantId, None] = {}
        self.begun = False

    @property
    def is_active(self) -> bool:
        """Whether some pace is to be looked at."""
        return bool(self._active)

    def of(self, tenant: TenantId, now_ms: float) -> Pace | None:
        """The tenant's pace, None = no limit."""
        known = self._image.tenants.get(tenant)
        rate = 0 if known is None else known.quotas.produce_bytes_per_s
        if rate == 0:
            gone = self._paces.pop(tenant, None) if self._paces else None
            if gone is not None:
                self._active.pop(tenant, None)
                # What is still delayed goes at once.
                gone.pace.change(PRODUCE_BYTES_PER_S_MAX, now_ms)
            return None
        paced = self._paces.get(tenant)
        if paced is None:
            paced = self._paces[tenant] = _Paced(
                Pace(1), LimitKey(tenant, PRODUCE_RATE), rate, 0, 0, -1, now_ms, now_ms, now_ms, now_ms, 0, 0
            )
            self._look(paced, rate, now_ms)
            # A new pace begins with the burst of its own rate.
            paced.pace = Pace(self._share(paced, now_ms))
        elif paced.rate != rate or (
            paced.revision != self._image.revision and now_ms - paced.looked_ms >= SHARE_CHECK_MS
        ):
            self._look(paced, rate, now_ms)
            self._set_rate(paced, now_ms)
        elif now_ms >= paced.valid_until_ms:
            self._set_rate(paced, now_ms)
        if not paced.active:
            self._begin(tenant, paced, now_ms)
        return paced.pace

    def wants(self, now_ms: float) -> dict[LimitKey, int]:
        """What this broker could use of each limit, as measured since it was asked last. Forgets what is idle."""
        wanted: dict[LimitKey, int] = {}
        for tenant in list(self._active):
            if self.of(tenant, now_ms) is None:
                continue  # the limit was lifted; what it delayed goes, though no more may come
            paced = self._paces[tenant]
            amount = self._wanted(paced, now_ms)
            if amount:
                wanted[paced.key] = amount
            elif now_ms - paced.used_ms > IDLE_MS:
                paced.active = False
                del self._active[tenant]
        return wanted

    def take_shares(self, now_ms: float) -> None:
        """Leases have changed: every pace that is used goes at its share."""
        for tenant in self._active:
            paced = self._paces[tenant]
            self._set_rate(paced, now_ms)
            if not self._holder.is_awaited(paced.key, now_ms):
                paced.pace.hope(0, now_ms)

    def safe_share(self, broker: BrokerId, key: LimitKey) -> int:
        """A broker's part of a limit by what it leads."""
        mine, led = part_led(self._image, broker, key.tenant)
        return self.limit(key) * mine // max(1, led)

    def limit(self, key: LimitKey) -> int:
        """0 = there is none."""
        known = self._image.tenants.get(key.tenant)
        return 0 if known is None or key.name != PRODUCE_RATE else known.quotas.produce_bytes_per_s

    @property
    def limits_are_leased(self) -> bool:
        """Whether all brokers of the cluster can lease parts of a limit; else each enforces its safe share."""
        return self._image.level >= LEASES

    def _begin(self, tenant: TenantId, paced: _Paced, now_ms: float) -> None:
        """It was idle: what it wants is to be asked for at once."""
        if not self.limits_are_leased:
            return
        paced.active, self.begun = True, True
        paced.used_ms = paced.measured_ms = now_ms
        paced.let_in, paced.refused, paced.per_s = paced.pace.let_in, paced.pace.refused, 0.0
        self._set_rate(paced, now_ms)
        if self._holder.is_awaited(paced.key, now_ms):
            paced.pace.hope(paced.rate, now_ms + _HOPE_MS)
        self._active[tenant] = None

    def _wanted(self, paced: _Paced, now_ms: float) -> int:
        pace = paced.pace
        passed_ms = now_ms - paced.measured_ms
        used = pace.let_in - paced.let_in
        if used:
            paced.used_ms = now_ms
        if passed_ms > 0:
            paced.per_s += (used * 1000 / passed_ms - paced.per_s) * _SMOOTHING
            paced.measured_ms, paced.let_in = now_ms, pace.let_in
        delayed_ms = pace.clears_in_ms(now_ms)
        is_short = pace.refused != paced.refused or delayed_ms > _BACKLOG_MS
        paced.refused = pace.refused
        if is_short:
            paced.used_ms = now_ms
            return paced.rate
        if paced.per_s <= paced.floor / 2 and delayed_ms <= _DELAYED_MS:
            return 0
        more = _MORE if delayed_ms > _DELAYED_MS else _HEADROOM
        return min(paced.rate, int(max(paced.per_s, paced.floor) * (more + 1) / more) + 1)

    def _look(self, paced: _Paced, rate: int, now_ms: float) -> None:
        mine, led = part_led(self._image, self._broker, paced.key.tenant)
        paced.rate, paced.revision, paced.looked_ms = rate, self._image.revision, now_ms
        paced.safe = rate * max(1, mine) // max(1, led)
        paced.floor = paced.safe // FLOOR

    def _share(self, paced: _Paced, now_ms: float) -> int:
        if not self.limits_are_leased:
            paced.valid_until_ms = float("inf")
            return max(1, paced.safe)
        share = self._holder.share(paced.key, floor=paced.floor, safe=paced.safe, now_ms=now_ms)
        paced.valid_until_ms = share.until_ms
        return max(1, min(paced.rate, share.amount))

    def _set_rate(self, paced: _Paced, now_ms: float) -> None:
        paced.pace.change(self._share(paced, now_ms), now_ms)
