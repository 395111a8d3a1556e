"""What a run or a replayed history came to, for people: kinds of fault, and the verdict."""

from collections.abc import Collection, Mapping
from pathlib import Path

from chaos.faults import Kind
from chaos.judgement import Verdict
from penstock.cli.output import print_table

_VIOLATIONS_MAX = 20


def print_kinds(wanted: Collection[Kind], unavailable: Mapping[Kind, str]) -> None:
    """Which faults this machine allows, and what failed for each that it does not."""
    rows = [
        (kind.value, "no" if kind in unavailable else "yes", unavailable.get(kind, "")) for kind in wanted
    ]
    print_table(("fault", "works here", "command that failed, and its message"), rows)


def print_verdict(verdict: Verdict, history: Path) -> None:
    """Everything that was counted; what was violated stands last."""
    rows = [(kind, count, f"{silence:.1f}") for kind, (count, silence) in verdict.faults.items()]
    print_table(("fault", "times", "longest silence, s"), rows, empty="no fault was struck")
    about = verdict.about
    print(f"seed {about.get('seed')}, metadata in {about.get('metadata')}, history {history}")
    never = [kind for kind in about.get("available", []) if kind not in verdict.faults]
    if never:
        print(f"not struck: {', '.join(never)}")
    print(
        f"{verdict.acknowledged} acknowledged writes checked: lost {verdict.lost}, doubled {verdict.doubled},"
        f" out of order {verdict.reordered}; unknown outcomes {verdict.unknown} (of which applied"
        f" {verdict.unknown_applied}), refused {verdict.refused}; {verdict.read} messages read"
    )
    print(
        f"{sum(count for count, _ in verdict.faults.values())} faults; longest time without an acknowledgement"
        f" {verdict.silence_s:.1f} s"
    )
    if verdict.canaries:
        canaries = verdict.canaries
        searched = ", ".join(f"{count} of {surface}" for surface, count in canaries["searched"].items())
        print(
            f"{canaries['planted']} canaries of {canaries['tenants']} tenants, who sent {canaries['sent']} messages and"
            f" were refused {canaries['refused']} times; searched: {searched}"
        )
    for violation in verdict.violations[:_VIOLATIONS_MAX]:
        print(f"VIOLATED {violation}")
    if len(verdict.violations) > _VIOLATIONS_MAX:
        print(f"... and {len(verdict.violations) - _VIOLATIONS_MAX} more")
    print("all invariants held" if verdict.passed else "FAILED")
