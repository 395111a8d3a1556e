"""Plans: versions of limits that tenants are given; those shipped with the service. Pure.

A version never changes: another set of limits is the next version of its plan, and tenants stay on theirs until they
are given it. Version 1 of each shipped plan is here, later ones are rows (`quotas.models.PlanVersion`).
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import msgspec

from penstock.contract import documents
from penstock.contract.errors import InvalidRequest
from penstock.contract.invariant import InvariantBroken
from penstock.contract.limits import (
    DAY_MS,
    GIB,
    MIB,
)
from penstock.contract.resources import LIMITS
from penstock.contract.service_level_documents import Level
from penstock.rules.names import check_printable_name
from penstock.rules.service_level_months import level_document, level_of
from penstock.rules.service_levels import SHIPPED_LEVELS, STANDARD_1, ServiceLevel

PLAN_NAME_LENGTH_MAX = 32
REST_PROCESSOR_BURST_S = 5
"""For so long what was not used of it may be made up: clients work in bursts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a tenant may use, as `penstock.contract.resources.quotas` describes each limit."""

    produce_bytes_per_s: int
    partitions_max: int
    topics_max: int = 0
    retention_ms_max: int = 0
    message_bytes_max: int = 0
    service_accounts_max: int = 0
    bin_days: int = 0
    keys_max: int = 0
    consume_bytes_per_s: int = 0
    rest_calls_per_s: int = 0
    rest_processor_ms_per_s: int = 0
    connections_max: int = 0
    groups_max: int = 0
    requests_per_s: int = 0
    connection_attempts_per_s: int = 0
    rate_burst_ms: int = 0
    rate_floor_percent: int = 0
    storage_bytes_max: int = 0
    partition_changes_per_hour: int = 0
    broker_processor_ms_per_s: int = 0

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= HIGHEST[name]:
                raise InvalidRequest(f"{name}: {value} is not within 0 to {HIGHEST[name]}")


HIGHEST: dict[str, int] = {limit.name: limit.high for limit in LIMITS if limit.high is not None}
"""The highest value of each limit."""
LIMIT_NAMES = tuple(limit.name for limit in LIMITS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One version of a plan."""

    name: str
    version: int
    limits: Limits
    service_level: ServiceLevel = STANDARD_1
    """Of months that begin while a tenant is on the plan."""

    @property
    def label(self) -> str:
        return f"{self.name} (version {self.version})"


def limits_from(document: Mapping[str, int]) -> Limits:
    """The limits named, and no limit, and no recycle bin, for the others. Raises `InvalidRequest`."""
    unknown = [name for name in document if name not in LIMIT_NAMES]
    if unknown:
        raise InvalidRequest(f"limits: {unknown[0][:64]!r} is none of {', '.join(LIMIT_NAMES)}")
    return Limits(**{name: document.get(name, 0) for name in LIMIT_NAMES})


OWN_LEVEL_PREFIX = "plan/"
"""Of names of levels that are a plan's own, so that none has the name of a shipped one."""


def level_from(plan_name: str, document: Mapping[str, Any]) -> ServiceLevel:
    """What a plan's service level is: `{"name": …}` of a shipped one, or `target_parts`, `tiers`, and if wanted
    `latency_ms` and `latency`, of one of the plan's own. Raises `InvalidRequest`.
    """
    if "name" in document:
        found = [one for one in SHIPPED_LEVELS if one.name == document["name"]]
        if not found or len(document) > 1:
            names = ", ".join(one.name for one in SHIPPED_LEVELS)
            raise InvalidRequest(
                f"service_level: {str(document['name'])[:40]!r}; a name alone of {names} required, or a level of the"
                " plan's own without a name"
            )
        return found[-1]
    own = {"name": OWN_LEVEL_PREFIX + plan_name, "version": 1, "latency_ms": None, **document}
    return stored_level(own)


def level_of_version(level: ServiceLevel, version: int) -> ServiceLevel:
    """A plan's own level has the version of its plan; a shipped one keeps its own."""
    return replace(level, version=version) if level.name.startswith(OWN_LEVEL_PREFIX) else level


def stored_level(document: object) -> ServiceLevel:
    """Raises `InvalidRequest`."""
    try:
        return level_of(documents.read_document(document, Level, "service_level"))
    except InvariantBroken as error:
        raise InvalidRequest(f"service_level: {error}") from None


def level_plain(level: ServiceLevel) -> dict[str, Any]:
    """As it is stored and shown."""
    plain: dict[str, Any] = msgspec.to_builtins(level_document(level))
    return plain


def check_plan_name(name: str) -> None:
    """Raises `InvalidRequest` unless a plan can be called so."""
    check_printable_name("plan", name, PLAN_NAME_LENGTH_MAX)


STANDARD = Limits(
    produce_bytes_per_s=64 * MIB,
    partitions_max=1_000,
    bin_days=7,
    consume_bytes_per_s=192 * MIB,
    rest_calls_per_s=500,
    rest_processor_ms_per_s=1_000,
    connections_max=1_000,
    requests_per_s=20_000,
    connection_attempts_per_s=200,
    storage_bytes_max=1_024 * GIB,
    partition_changes_per_hour=20_000,
    broker_processor_ms_per_s=1_000,
)
"""Three consumers of all that is produced, as in the other plans."""
SYSTEM = Limits(produce_bytes_per_s=0, partitions_max=0)
DEFAULT = Plan(name="pay-as-you-go", version=1, limits=STANDARD)
"""Of tenants that were given no other."""
SHIPPED: tuple[Plan, ...] = (
    Plan(
        name="free",
        version=1,
        limits=Limits(
            produce_bytes_per_s=1 * MIB,
            partitions_max=30,
            topics_max=10,
            retention_ms_max=7 * DAY_MS,
            message_bytes_max=1 * MIB,
            service_accounts_max=5,
            bin_days=3,
            keys_max=20,
            consume_bytes_per_s=3 * MIB,
            rest_calls_per_s=20,
            rest_processor_ms_per_s=100,
            connections_max=100,
            groups_max=20,
            requests_per_s=500,
            connection_attempts_per_s=20,
            storage_bytes_max=5 * GIB,
            partition_changes_per_hour=300,
            broker_processor_ms_per_s=250,
        ),
    ),
    DEFAULT,
    Plan(
        name="committed",
        version=1,
        limits=Limits(
            produce_bytes_per_s=256 * MIB,
            partitions_max=10_000,
            bin_days=30,
            consume_bytes_per_s=768 * MIB,
            rest_calls_per_s=1_000,
            rest_processor_ms_per_s=2_000,
            requests_per_s=100_000,
            connection_attempts_per_s=1_000,
            rate_burst_ms=5_000,
            rate_floor_percent=8,
            storage_bytes_max=10_240 * GIB,
            partition_changes_per_hour=100_000,
            broker_processor_ms_per_s=1_000,
        ),
    ),
    Plan(name="dedicated", version=1, limits=Limits(produce_bytes_per_s=0, partitions_max=0, bin_days=30)),
)
"""Examples that can be used as they are."""
