"""The kinds of fault, and the order in which a run strikes with them: a seed fixes it."""

import random
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from enum import Enum

BROKERS = (1, 2, 3)
"""Those of the rounds, and of the short plan."""


class Kind(Enum):
    """What happens, by the name that tables and histories show."""

    KILL = "SIGKILL"
    PAUSE = "SIGSTOP"
    BOOT_KILL = "SIGKILL while booting"
    ALL_KILL = "SIGKILL of all brokers"
    ALL_PAUSE = "SIGSTOP of all brokers"
    CUT = "isolated"
    CUT_INWARDS = "isolated one-way, hears nothing"
    CUT_OUTWARDS = "isolated one-way, is not heard"
    LEADER_CUT = "leader isolated from the other brokers"
    STORE_CUT = "isolated from etcd"
    LOSS = "packet loss"
    DISK_FULL = "full disk"
    SYNC_ERROR = "fsync errors"
    SLOW_DISK = "slow disk"
    POWER_CUT_EXT4 = "power cut on ext4"
    POWER_CUT_XFS = "power cut on XFS"
    ALL_POWER_CUT = "power cut of all brokers"
    CLOCK_STEP = "clock step"
    STORE_KILL = "SIGKILL of an etcd node"
    STORE_PAUSE = "SIGSTOP of an etcd node"
    ALL_STORE_KILL = "SIGKILL of all etcd nodes"
    HOST_LOST = "host lost"
    ZONE_LOST = "zone lost, power cut of all its hosts"
    ZONE_CUT_INWARDS = "zone cut one-way, hears nothing"
    ZONE_CUT_OUTWARDS = "zone cut one-way, is not heard"
    DISK_PULLED = "disk pulled"
    CLOCKS_APART = "clocks apart"
    STORE_LEADER_CUT = "leader of etcd isolated"
    CERTIFICATES_RENEWED = "certificates renewed"
    CA_CHANGED = "authority changed"


NEED_ETCD = (Kind.STORE_CUT, Kind.STORE_KILL, Kind.STORE_PAUSE, Kind.ALL_STORE_KILL, Kind.STORE_LEADER_CUT)
NEED_POWER_CUTS = (Kind.ALL_POWER_CUT, Kind.ZONE_LOST, Kind.DISK_PULLED)
UNSYNCED_LOST = (
    *(Kind.KILL, Kind.BOOT_KILL, Kind.SYNC_ERROR, Kind.POWER_CUT_EXT4, Kind.POWER_CUT_XFS),
    *(Kind.HOST_LOST, Kind.ZONE_LOST, Kind.DISK_PULLED),
)
"""One replica may lose what it has not synced: a `replicated` topic bears it while all other replicas are in sync."""
ALL_UNSYNCED_LOST = (Kind.ALL_KILL, Kind.ALL_POWER_CUT)
"""Beyond what a `replicated` topic promises."""
COMPANIONS = (
    *(Kind.PAUSE, Kind.CUT, Kind.CUT_INWARDS, Kind.CUT_OUTWARDS, Kind.LOSS, Kind.CLOCK_STEP),
    *(Kind.STORE_KILL, Kind.STORE_PAUSE),
)
"""What may happen beside another fault: none of them loses anything."""


class Aim(Enum):
    """Which broker is hit, as found when the fault begins."""

    LEADER = "a leader"
    FOLLOWER = "a follower"
    CONTROLLER = "the controller"
    ANY = "any"


@dataclass(frozen=True, slots=True, kw_only=True)
class Strike:
    """One fault to come."""

    number: int
    kind: Kind
    aim: Aim
    pick: int
    """Chooses among those that fit the aim; of power cuts among those with such a disk."""
    seconds: float
    """How long it lasts."""
    strength: float
    """0 to 1: share of lost packets, time of a slow sync, how far a clock steps."""
    patient: bool
    """Wait until every replica is in sync again before the next one; else only until writes go on."""
    companion: Kind | None = None
    """Another fault at the same time."""

    def __str__(self) -> str:
        beside = "" if self.companion is None else f" with {self.companion.value}"
        return f"{self.number}: {self.kind.value}{beside}, {self.aim.value}, {self.seconds:.1f} s"


SECONDS: dict[Kind, tuple[float, float]] = {
    Kind.KILL: (0.5, 5.0),
    Kind.PAUSE: (0.5, 9.0),
    Kind.BOOT_KILL: (0.05, 1.5),
    Kind.ALL_KILL: (0.0, 2.0),
    Kind.ALL_PAUSE: (1.0, 6.0),
    Kind.DISK_FULL: (3.0, 8.0),
    Kind.SYNC_ERROR: (3.0, 6.0),
    Kind.ALL_POWER_CUT: (0.0, 2.0),
    Kind.POWER_CUT_EXT4: (0.0, 3.0),
    Kind.POWER_CUT_XFS: (0.0, 3.0),
    Kind.ALL_STORE_KILL: (1.0, 6.0),
    Kind.HOST_LOST: (0.5, 8.0),
    Kind.ZONE_LOST: (0.5, 8.0),
    Kind.CERTIFICATES_RENEWED: (1.0, 3.0),
    Kind.CA_CHANGED: (2.0, 4.0),
}
_SECONDS_ELSE = (2.0, 9.0)
"""Beyond the suspicion of 1.2 s and, now and then, the session of 6 s."""
_PATIENT_CHANCE = 0.7
_COMPANION_CHANCE = 0.25
"""From the second deck on: by then each kind was met alone."""


class Plan(Enum):
    """Which faults a run is made of."""

    ALL = "all"
    """Whatever works here, in shuffled decks, each kind once a deck, until the time is up."""
    SHORT = "short"
    """Five kinds once: what the test suite has time for."""
    ZONES = "zones"
    """What befalls hosts and zones, each once: what the test suite has time for."""
    ROUNDS = "rounds"
    """30 rounds: each broker in turn killed or stopped, three times all of them at once."""


_SHORT = (Kind.KILL, Kind.PAUSE, Kind.CUT, Kind.CUT_OUTWARDS, Kind.POWER_CUT_EXT4)
_OF_ZONES = (
    *(Kind.HOST_LOST, Kind.ZONE_LOST, Kind.ZONE_CUT_INWARDS, Kind.ZONE_CUT_OUTWARDS),
    *(Kind.STORE_LEADER_CUT, Kind.CERTIFICATES_RENEWED),
)
_IN_ROUNDS = (Kind.KILL, Kind.PAUSE, Kind.ALL_KILL, Kind.ALL_PAUSE)
_ROUNDS = 30
_ALL_AT_ONCE = 3
_ROUND_S = 5.0


def kinds_of(plan: Plan) -> tuple[Kind, ...]:
    """The kinds that a plan is made of, as far as they work."""
    return {Plan.ALL: tuple(Kind), Plan.SHORT: _SHORT, Plan.ZONES: _OF_ZONES, Plan.ROUNDS: _IN_ROUNDS}[plan]


def brokers_of(plan: Plan) -> tuple[int, ...]:
    """The brokers of a run: two on each host, or one where each is to be met alone."""
    return tuple(range(1, 7)) if plan is Plan.ALL else BROKERS


def strikes(plan: Plan, seed: int, available: Collection[Kind]) -> Iterator[Strike]:
    """The faults in their order; of `Plan.ALL` without end."""
    rng = random.Random(f"{seed}/faults")
    if plan is Plan.ROUNDS:
        yield from _rounds()
        return
    number = 0
    beside: list[Kind] = []
    while True:
        deck = [kind for kind in kinds_of(plan) if kind in available]
        rng.shuffle(deck)
        for kind in deck:
            number += 1
            low, high = SECONDS.get(kind, _SECONDS_ELSE)
            if plan in (Plan.SHORT, Plan.ZONES):
                high = min(high, max(low, 2.5))
            others = [other for other in beside if other is not kind]
            accompanied = rng.random() < _COMPANION_CHANCE and others
            yield Strike(
                number=number,
                kind=kind,
                companion=rng.choice(others) if accompanied else None,
                aim=rng.choice((Aim.LEADER, Aim.LEADER, Aim.FOLLOWER, Aim.CONTROLLER, Aim.ANY)),
                pick=rng.randrange(1_000),
                seconds=rng.uniform(low, high),
                strength=rng.random(),
                patient=rng.random() < _PATIENT_CHANCE,
            )
        if plan in (Plan.SHORT, Plan.ZONES) or not deck:
            return
        beside = [kind for kind in COMPANIONS if kind in available]


def _rounds() -> Iterator[Strike]:
    """Killed and stopped alternately, so that each broker meets both; all at once at even distances."""
    together = [_ROUNDS * (index + 1) // (_ALL_AT_ONCE + 1) for index in range(_ALL_AT_ONCE)]
    singles = 0
    for number in range(1, _ROUNDS + 1):
        if number in together:
            kind = Kind.ALL_PAUSE if together.index(number) == 1 else Kind.ALL_KILL
            pick = 0
        else:
            turn, pick = divmod(singles, len(BROKERS))
            kind = Kind.PAUSE if (turn + pick) % 2 else Kind.KILL
            singles += 1
        yield Strike(
            number=number, kind=kind, aim=Aim.ANY, pick=pick, seconds=_ROUND_S, strength=0.0, patient=True
        )
