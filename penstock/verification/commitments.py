"""What is known of a tenant's billing from outside of its documents: what brokers keep, and what this machine noted."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from penstock.contract.ids import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainPoint:
    """A person saw this entry of the billing chain; its hash stands for all entries up to it."""

    sequence: int
    hash: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptCut:
    """The end of a period as the brokers keep it, [start_ms, end_ms); `start_ms` 0 = the tenant's first."""

    cut_id: str
    start_ms: int
    end_ms: int
    sha256: str
    """Of where every partition stood (penstock/records/cut.py)."""
    billing: ChainPoint | None
    """The chain's newest entry when the cut was asked for."""
    kept_ms: int
    """When that was, by a broker's clock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptLoss:
    """A declared loss: what the partition held from `offset` on before this log generation is lost."""

    where: TopicPartition
    log_generation: int
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Commitments:
    """What the brokers tell the tenant's key."""

    tenant: str
    """Whose key it is."""
    cuts: tuple[KeptCut, ...]
    """By end."""
    losses: tuple[KeptLoss, ...] = ()

    def losses_of(self, where: TopicPartition) -> list[KeptLoss]:
        """By log generation."""
        found = [loss for loss in self.losses if loss.where == where]
        return sorted(found, key=lambda loss: loss.log_generation)


@dataclass(frozen=True, slots=True, kw_only=True)
class Notes:
    """What this machine noted of one tenant when it verified before."""

    billing: ChainPoint | None = None
    """The newest entry of the billing chain that was seen."""
    invoices: Mapping[int, str] = field(default_factory=dict)
    """SHA-256 of the document of each invoice that was proven, by number."""


NOTHING_NOTED = Notes()
