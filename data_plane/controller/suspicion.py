"""Suspicion of peers by silence, and who takes over from a suspected controller.

A suspicion only starts a decision, which a compare-and-set then makes (RL8); a wrong one is harmless. Times
are monotonic milliseconds of one clock.
"""

from data_plane.metadata.image import ClusterImage
from penstock.contract.ids import BrokerId

SUSPECT_AFTER_MS = 1_200
"""Of silence: four heartbeats missed."""
TAKEOVER_STEP_MS = 100
"""Between brokers that would take over, so that normally only the first one tries."""


def is_due(*, last_heard_ms: float, lost: bool, now_ms: float, timeout_ms: int) -> bool:
    """Is a peer suspected? At once when its connection was reset, else after `timeout_ms` of silence."""
    return lost or now_ms - last_heard_ms >= timeout_ms


class Suspicion:
    """Watches peers. A peer is watched from the first `heard` or `lost` until `forget`."""

    def __init__(self, timeout_ms: int = SUSPECT_AFTER_MS) -> None:
        self.timeout_ms = timeout_ms
        self._heard: dict[BrokerId, float] = {}
        self._lost: dict[BrokerId, bool] = {}

    def heard(self, peer: BrokerId, now_ms: float) -> None:
        """The peer is there; any suspicion ends."""
        self._heard[peer] = max(now_ms, self._heard.get(peer, now_ms))
        self._lost[peer] = False

    def lost(self, peer: BrokerId, now_ms: float) -> None:
        """The connection to the peer was reset or refused: it is due at once."""
        self._heard.setdefault(peer, now_ms)
        self._lost[peer] = True

    def forget(self, peer: BrokerId) -> None:
        """Watch it no longer: it is fenced, or another broker watches it."""
        self._heard.pop(peer, None)
        self._lost.pop(peer, None)

    def due(self, now_ms: float) -> tuple[BrokerId, ...]:
        """Suspected peers, lowest id first. They stay due until heard or forgotten."""
        return tuple(
            peer
            for peer in sorted(self._heard)
            if is_due(
                last_heard_ms=self._heard[peer],
                lost=self._lost[peer],
                now_ms=now_ms,
                timeout_ms=self.timeout_ms,
            )
        )


def takeover_delay_ms(image: ClusterImage, me: BrokerId) -> int | None:
    """How long `me` waits before it takes over from a suspected or missing controller: 0 for the lowest id
    among the active brokers besides that controller, then 100 ms more for each. None = `me` is not active.
    """
    able = [
        b for b in sorted(image.brokers) if image.brokers[b].active and (b == me or b != image.controller_id)
    ]
    return able.index(me) * TAKEOVER_STEP_MS if me in able else None
