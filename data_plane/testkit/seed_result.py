"""What became of one seed."""

from dataclasses import dataclass, field


@dataclass(slots=True, kw_only=True)
class SeedResult:
    """What became of one seed. `violated` is an invariant's name, empty when everything held."""

    seed: int
    violated: str = ""
    explanation: str = ""
    trace_hash: str = ""
    steps: int = 0
    virtual_s: float = 0.0
    wall_s: float = 0.0
    reached: dict[str, int] = field(default_factory=dict)
    activities: dict[str, int] = field(default_factory=dict)
    """What was done besides producing and reading."""
    missed: list[str] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    refusals: dict[str, int] = field(default_factory=dict)
    chances: dict[str, int] = field(default_factory=dict)
    store_faults: dict[str, int] = field(default_factory=dict)
    """What went wrong on the way to the metadata store and back."""
    harms: dict[int, str] = field(default_factory=dict)
    """What the nemesis did, by number."""
    timeline: list[str] = field(default_factory=list)
    """Only of a failure."""

    @property
    def passed(self) -> bool:
        return not self.violated
