"""The Rng port from a seed, with named branches that are taken on purpose and counted."""

import random
from dataclasses import dataclass


@dataclass(slots=True)
class Reached:
    """How often a named branch was offered and taken."""

    offered: int = 0
    taken: int = 0


class Chances:
    """Which named branches this seed takes, and how often: shared by all brokers of a simulation.

    Each name is on for a part of the seeds only, so that rare branches meet in many combinations.
    """

    def __init__(self, seed: str | int, *, on_chance: float = 0.5, taken_chance_max: float = 0.2) -> None:
        self._random = random.Random(f"{seed}/chances")
        self._on_chance = on_chance
        self._taken_chance_max = taken_chance_max
        self._taken_chance: dict[str, float] = {}
        self.reached: dict[str, Reached] = {}
        self.enabled = True
        """False: nothing is taken any more, for the time after the faults."""

    def take(self, name: str, draw: float) -> bool:
        """Whether the branch is taken for this draw from [0, 1)."""
        chance = self._taken_chance.get(name)
        if chance is None:
            on = self._random.random() < self._on_chance
            chance = self._random.random() * self._taken_chance_max if on else 0.0
            self._taken_chance[name] = chance
            self.reached[name] = Reached()
        reached = self.reached[name]
        reached.offered += 1
        if self.enabled and draw < chance:
            reached.taken += 1
            return True
        return False


class SimRng:
    """Randomness of one life of a broker or client."""

    def __init__(self, seed: str | int, chances: Chances | None = None) -> None:
        self._random = random.Random(f"{seed}/rng")
        self._chances = chances

    def random_bytes(self, count: int) -> bytes:
        return self._random.randbytes(count)

    def uniform(self, low: float, high: float) -> float:
        return self._random.uniform(low, high)

    def chance(self, name: str) -> bool:
        """Now and then True, for the names that this seed has on."""
        return self._chances is not None and self._chances.take(name, self._random.random())
