"""The scores of packages as a table, and the survivors for people and for programs."""

from collections.abc import Mapping, Sequence
from typing import Any

from .running import Fate, Verdict

_ALIVE = (Fate.SURVIVED, Fate.UNREACHED)


def survivors(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """What no test has killed."""
    return [one for one in verdicts if one.fate in _ALIVE]


def score_percent(verdicts: Sequence[Verdict]) -> float:
    """Killed and timed out ones of all; a hundred when there were none."""
    return 100.0 if not verdicts else 100.0 * (1 - len(survivors(verdicts)) / len(verdicts))


def table(packages: Mapping[str, Sequence[Verdict]]) -> list[str]:
    """Rows of Markdown by package, and one for all of them."""
    rows = ["| package | mutants | killed | timed out | survived | score |", "|---|---|---|---|---|---|"]
    every = [one for verdicts in packages.values() for one in verdicts]
    for name, verdicts in [*packages.items(), ("all", every)]:
        counts = [
            sum(one.fate is Fate.KILLED for one in verdicts),
            sum(one.fate is Fate.TIMED_OUT for one in verdicts),
            len(survivors(verdicts)),
        ]
        numbers = " | ".join(str(count) for count in (len(verdicts), *counts))
        rows.append(f"| {name} | {numbers} | {score_percent(verdicts):.0f} % |")
    return rows


def described(verdict: Verdict, source: str) -> list[str]:
    """A survivor: where, what, and its difference."""
    mutant = verdict.mutant
    looked = ", no test enters it" if verdict.fate is Fate.UNREACHED else ""
    return [
        f"{mutant.file}:{mutant.line} {mutant.function} ({mutant.kind}{looked})",
        *(f"    {line}" for line in mutant.diff(source)),
    ]


def as_json(verdicts: Sequence[Verdict]) -> list[dict[str, Any]]:
    """Every verdict with what repeats it in `equivalents.toml`."""
    return [
        {
            "file": one.mutant.file,
            "line": one.mutant.line,
            "function": one.mutant.function,
            "text": one.mutant.text,
            "mutation": one.mutant.mutation,
            "fate": one.fate.value,
            "test": one.test,
            "seconds": round(one.seconds, 2),
        }
        for one in verdicts
    ]
