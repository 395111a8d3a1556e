"""What the demo tells its two client processes, and what they tell back, one JSON document a line."""

import json
import os
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from demo.tenants import Tenant
from penstock.private_file import write_private

GROUP = "desk"
MEMBERS = 2
ALL = "all"
"""Of the flights, or of the carriers."""
NUMBER_HEADER = "n"
"""Header that carries a flight's place in the order of all flights."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The whole run: who, where, how much and how fast."""

    bootstrap: tuple[str, ...]
    tenants: tuple[Tenant, ...]
    total: int
    """How many flights."""
    seconds: float
    """How long producing them takes at least."""

    def write(self, file: Path) -> None:
        write_private(file, json.dumps(asdict(self)) + "\n")

    @classmethod
    def read(cls, file: Path) -> Self:
        values = json.loads(file.read_text())
        values["bootstrap"] = tuple(values["bootstrap"])
        values["tenants"] = tuple(Tenant(**tenant) for tenant in values["tenants"])
        return cls(**values)


def tell(**what: Any) -> None:
    """One line to the demo."""
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def abandoned(parent: int) -> bool:
    """Whether the demo itself is gone, so that no process reads the output."""
    return os.getppid() != parent
