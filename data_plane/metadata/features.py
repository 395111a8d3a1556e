"""Feature levels: what every broker of a cluster has to read before one of them may write it.

    level 1 --an operator raises it, once every registered broker supports level 2--> level 2 ...

A cluster of Penstock 0.1 has no level in its metadata, and its brokers register none: both are level 1. What a broker
that supports only a lower level could not read, whether in metadata, in a file or between brokers, is used only from
the level on that brings it. Until then the way back to the release before is open.

    /features             FeaturesRecord; absent at level 1
    /versions/<broker>    VersionRecord, written with the broker's registration and bound to its session like it; a
                          broker of Penstock 0.1 writes none
"""

import json
from dataclasses import asdict, dataclass
from typing import Any, Self

FEATURES_KEY = "/features"


def version_key(broker: int) -> str:
    return f"/versions/{broker:06d}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureLevel:
    """One step of what the brokers of a cluster have in common."""

    level: int
    release: str
    """The first release whose brokers support it."""
    brings: str
    """What is used from it on."""
    may_be_left: bool = False
    """Whether a cluster may go back to the level below: nothing is stored under it that the level below cannot read."""


LEVELS = (
    FeatureLevel(level=1, release="0.1", brings="what brokers of Penstock 0.1 read and write"),
    FeatureLevel(
        level=2,
        release="0.2",
        brings="brokers are registered with their hosts, and copies spread over them; a tenant's produce and"
        " consume rates are shared by demand; access lists, and keys with owners and other scopes than prefixes; a"
        " recycle bin for topics; peppers that are made while brokers run; brokers of 0.1 are refused",
    ),
)
"""All that this release knows, in order, from 1."""
HIGHEST = LEVELS[-1].level
HOSTS = 2
"""From this level on a broker's record names its host: before, it is as if each broker was alone on one."""
ACCESS_LISTS = 2
"""From this level on brokers obey access lists, owners of keys, and scopes that name a kind or one resource."""
BIN = 2
"""From this level on topics can lie in the recycle bin: before, a deleted topic is gone at once."""
LEASES = 2
"""From this level on brokers lease parts of a tenant's limits, of its consume rate too: before, each enforces the part
that it leads of a produce rate, and none of a consume rate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Supported:
    """What one version of the broker supports: levels from `lowest` to `highest`."""

    version: str = ""
    """Empty: it was not said."""
    lowest: int = 1
    highest: int = HIGHEST

    def supports(self, level: int) -> bool:
        return self.lowest <= level <= self.highest


CURRENT = Supported()
"""What this release supports, by whatever name."""
BEFORE_LEVELS = Supported(lowest=1, highest=1)
"""A broker of Penstock 0.1, which registers neither version nor levels."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FeaturesRecord:
    """The feature level in force."""

    level: int

    def encode(self) -> bytes:
        return json.dumps(asdict(self), separators=(",", ":"), sort_keys=True).encode()

    @classmethod
    def decode(cls, value: bytes) -> Self:
        """Later versions may add fields."""
        return cls(level=json.loads(value)["level"])


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionRecord:
    """What a registered broker runs and supports. It stands beside `BrokerRecord`, which brokers of Penstock 0.1 read
    by its exact fields."""

    incarnation: str
    """Of the registration that it belongs to."""
    version: str
    level_min: int
    level_max: int

    def encode(self) -> bytes:
        return json.dumps(asdict(self), separators=(",", ":"), sort_keys=True).encode()

    @classmethod
    def decode(cls, value: bytes) -> Self:
        """Later versions may add fields."""
        values: dict[str, Any] = json.loads(value)
        return cls(
            incarnation=values["incarnation"],
            version=values["version"],
            level_min=values["level_min"],
            level_max=values["level_max"],
        )

    @property
    def supported(self) -> Supported:
        return Supported(version=self.version, lowest=self.level_min, highest=self.level_max)


def known_level(level: int) -> FeatureLevel | None:
    """What this release knows of a level; None of one that came later, or of none."""
    return LEVELS[level - 1] if 1 <= level <= len(LEVELS) else None


def refusal(level: int, supported: Supported) -> str:
    """Why a broker takes no part in a cluster at `level`, and what to do; empty if it does."""
    if supported.supports(level):
        return ""
    remedy = (
        "start a newer version of the broker"
        if level > supported.highest
        else "start an older version, and raise the level with `penstock cluster features --raise` before this one"
    )
    return (
        f"the cluster is at feature level {level}, this broker, Penstock {supported.version}, supports"
        f" {supported.lowest} to {supported.highest}; {remedy}"
    )
