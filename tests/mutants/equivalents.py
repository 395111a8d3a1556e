"""Mutants that are argued away: what they change nobody can see. Each stands in `equivalents.toml` with its reason."""

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .mutations import Mutant

FILE = Path(__file__).with_name("equivalents.toml")


class Unmatched(Exception):
    """Entries that no mutant matches: the code under them has changed, so the argument must be made again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Equivalent:
    """One mutation of one line of one function. No line number: code above it may move."""

    file: str
    function: str
    line: str
    mutation: str
    reason: str

    def __post_init__(self) -> None:
        if len(self.reason.split()) < 4:
            raise ValueError(f"{self.file}, {self.line}: a reason is a sentence")

    def matches(self, mutant: Mutant) -> bool:
        found = (mutant.file, mutant.function, mutant.text, mutant.mutation)
        return found == (self.file, self.function, self.line, self.mutation)


def read(file: Path = FILE) -> tuple[Equivalent, ...]:
    """All entries. A key that is missing or unknown is a TypeError."""
    with file.open("rb") as opened:
        return tuple(Equivalent(**entry) for entry in tomllib.load(opened).get("equivalent", []))


def without(mutants: Sequence[Mutant], entries: Sequence[Equivalent]) -> list[Mutant]:
    """The mutants that no entry argues away. Every entry must match one of them."""
    idle = [one for one in entries if not any(one.matches(mutant) for mutant in mutants)]
    if idle:
        raise Unmatched("\n".join(f"{one.file}: {one.function}: {one.line}: {one.mutation}" for one in idle))
    return [mutant for mutant in mutants if not any(one.matches(mutant) for one in entries)]
