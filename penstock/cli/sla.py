"""`penstock sla`: a month's service level with what it credits, and the check of its numbers."""

import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from penstock.cli.cluster import operator_client, token_option
from penstock.cli.exit_codes import ExitCode
from penstock.cli.invocation import Group, current
from penstock.cli.invoice import moment, money
from penstock.cli.output import print_fact, print_json, print_part, print_table, say
from penstock.cli.rest import patient_client
from penstock.cli.waits import SECONDS
from penstock.rest.client import segment
from penstock.rules.allocation import month_of
from penstock.rules.service_levels import WHOLE, percent
from penstock.rules.timestamps import read_moment

_DOCUMENT_S = 120.0
"""The document of a bad month is megabytes, and so is that of a large invoice."""
_EXCLUSIONS = "/v1/billing/sla-exclusions"
_WORST_SHOWN = 10
_timeout = click.option(
    "--timeout", type=SECONDS, default=30.0, show_default=True, help="Seconds to wait for an answer."
)


@click.group(name="sla", cls=Group, path=("sla",))
def sla() -> None:
    """Service levels: how much of what you asked for was done."""


@sla.command(
    "show",
    short_help="A month by several formulas, and its credit.",
    examples=["penstock sla show", "penstock sla show 2026-10", "penstock sla show 2026-10 --json"],
)
@click.argument("month", metavar="[MONTH]", required=False)
@_timeout
def sla_show(month: str | None, timeout: float) -> None:
    """Show a UTC month's service level: your own requests, judged in five-minute windows by several formulas.

    MONTH is as 2026-10; without it the running month, which is provisional. A window with fewer than 20 requests is
    judged by probes; what nothing measured counts neither way and is shown. With --json the evidence is there too.
    """
    asked = month or f"{datetime.now(UTC):%Y-%m}"
    with patient_client() as rest:
        found = rest.get(f"/v1/sla/{segment(asked)}", timeout_s=timeout)
    if current().json:
        print_json(found)
        return
    state = "provisional" if found["provisional"] else "posted"
    binding, target = percent(found["binding_parts"]), percent(found["target_parts"])
    print_fact(
        "sla", [found["month"], binding, target, state], f"{found['month']}  {binding} of {target}, {state}"
    )
    credit, charge = money(found, found["credit_micro"]), money(found, found["charge_micro"])
    share = f"{found['basis_points'] / 100:g} %"
    print_fact("credit", [credit, share, charge], f"Credit  {credit}: {share} of {charge}")
    promised = found["document"]["level"]
    level = [promised["name"], promised["version"]]
    print_fact("level", level, f"Level  {level[0]} {level[1]}, of the plan at the beginning")
    objective = found.get("latency")  # a server of the release before knows none
    if objective is not None:
        share, wanted = percent(objective["parts"]), percent(objective["target_parts"])
        counts = [objective[name] for name in ("within_ms", "judged", "missed")]
        print_fact(
            "in time",
            [share, wanted, *counts],
            f"In time  {share} of {wanted}: {counts[2]} of {counts[1]} windows had over 1 % of produce requests"
            f" above {counts[0]} ms",
        )
    operations = found["document"]["operations"]
    print_part(
        "formulas",
        ["operation", "requests", "failed", "mean of windows", "minutes", "runs of 60 s", "longest run"],
        [
            [
                one["operation"],
                one["valid"],
                one["bad"],
                *(percent(one[f"{name}_parts"]) for name in ("mean", "minutes", "runs")),
                f"{max((run['until_s'] - run['from_s'] for run in one['runs']), default=0)} s",
            ]
            for one in operations
        ],
    )
    names = ("own", "probe", "few", "nothing", "excluded")
    print_part(
        "windows judged by",
        ["operation", "own requests", "probes", "few requests", "nothing", "excluded"],
        [[one["operation"], *(one["windows"][name] for name in names)] for one in operations],
    )
    if found["latencies"]:
        print_part(
            "latency in ms",
            ["operation", "requests", "50 %", "95 %", "99 %", "99.9 %"],
            [
                [
                    one["operation"],
                    one["requests"],
                    *(f"{one[name] / 1_000:.2f}" for name in ("p50_us", "p95_us", "p99_us", "p999_us")),
                ]
                for one in found["latencies"]
            ],
        )
    if found.get("leaderless"):
        print_part(
            "without a leader",
            ["topic", "seconds of its partitions"],
            [[one["topic"], one["seconds"]] for one in found["leaderless"]],
        )
    # A server of the release before knows none.
    if found.get("leaderless_partitions"):
        print_part(
            "partitions without a leader",
            ["partition", "seconds"],
            [
                [f"{one['topic']}-{one['partition']}", one["seconds"]]
                for one in found["leaderless_partitions"]
            ],
        )
    slow = _slowest(found["document"].get("latency", {}).get("missed", []))
    if slow:
        print_part("slowest windows", ["from", "good requests", "too slow", "in time"], slow)
    worst = _worst(operations)
    if worst:
        print_part("worst windows", ["from", "operation", "judged by", "requests", "failed", "good"], worst)
    for one in found["document"]["excluded"]:
        since = _moment(one["announced_s"]) if "announced_s" in one else "-"
        said = [_moment(one["from_s"]), _moment(one["until_s"]), one["reason"], since]
        print_fact("excluded", said, f"Excluded  {said[0]} to {said[1]}, announced {since}: {one['reason']}")
    for one in found.get("announced", ()):  # a server of the release before has none
        said = [moment(one["from_at"]), moment(one["until_at"]), one["reason"]]
        print_fact("announced", said, f"To come  {said[0]} to {said[1]} will be excluded: {one['reason']}")


@sla.command(
    "verify",
    short_help="Check a month's numbers and its credit.",
    examples=["penstock sla verify 2026-10", "penstock sla verify 2026-10 --json"],
)
@click.argument("month", metavar="MONTH")
@_timeout
@click.pass_context
def sla_verify(context: click.Context, month: str, timeout: float) -> None:
    """Compute a month's shares, tier and credit again from its evidence, and compare invoices and grant with the
    billing chain. An altered number is named.

    What brokers counted is believed: a request that failed is in no log. Compare it with what your clients counted.

    Exit code 0: everything follows. 10: nothing is wrong, and something cannot be shown yet, as before the running
    period ends. 5: something is wrong.
    """
    # Imported here: no other command must wait for it.
    from penstock.verification.findings import Verdict
    from penstock.verification.service_level_check import ShownInvoice, check_service_level

    codes = {Verdict.PROVEN: ExitCode.OK, Verdict.PARTLY: ExitCode.PARTLY, Verdict.WRONG: ExitCode.REFUSED}
    with patient_client() as rest:
        found = rest.get(f"/v1/sla/{segment(month)}", timeout_s=_DOCUMENT_S)
        chain = list(rest.items("/v1/billing/chain", timeout_s=_DOCUMENT_S))
        invoices = [
            ShownInvoice(
                document=rest.get(f"/v1/invoices/{segment(one['id'])}/evidence", timeout_s=_DOCUMENT_S)[
                    "document"
                ],
                void_at=one.get("void_at"),  # a service of the release before does not say it
            )
            for one in rest.items("/v1/invoices", timeout_s=timeout)
            if one["status"] == "issued" and _is_in(month, one)
        ]
    proof = check_service_level(found, chain, invoices)
    if current().json:
        print_json(
            {
                "month": proof.month,
                "verdict": proof.verdict.value,
                "credit_micro": proof.credit_micro,
                "excluded": list(proof.excluded),
                "wrong": list(proof.wrong),
                "missing": list(proof.missing),
            }
        )
    else:
        for kind, texts in (
            ("excluded", proof.excluded),
            ("wrong", proof.wrong),
            ("not shown", proof.missing),
        ):
            for text in texts:
                print_fact(kind, [text], f"{kind}: {text}")
        print_fact("verdict", [proof.verdict.value], f"{month}: {proof.verdict.value}")
        if not proof.wrong:
            say(
                "Requests were counted by the brokers; what follows from the counts was computed here. "
                "Percentiles of latencies credit nothing, and no evidence has them."
            )
    if proof.verdict is not Verdict.PROVEN:
        sys.stdout.flush()
        context.exit(int(codes[proof.verdict]))


def _is_in(month: str, invoice: Mapping[str, Any]) -> bool:
    """Whether a part of its period is in the month."""
    bounds = month_of(month)
    return (
        bounds is not None
        and read_moment(str(invoice["period_start"])) < bounds[1]
        and read_moment(str(invoice["period_end"])) > bounds[0]
    )


@sla.command("exclusions", examples=["penstock sla exclusions --token-file operator.token"])
@token_option
@_timeout
def sla_exclusions(token_file: Path | None, timeout: float) -> None:
    """Operators: list the time that was taken out of service levels."""
    with operator_client(token_file) as rest:
        found = list(rest.items(_EXCLUSIONS, timeout_s=timeout))
    if current().json:
        print_json({"exclusions": found})
        return
    _show(found)


@sla.command(
    "exclude",
    short_help="Announce time out of service levels, for operators.",
    examples=[
        "penstock sla exclude --from 2026-11-05T02:00:00Z --until 2026-11-05T03:00:00Z"
        " --reason 'announced maintenance' --token-file operator.token"
    ],
)
@click.option("--from", "from_at", required=True, metavar="MOMENT", help="From then on.")
@click.option("--until", "until_at", required=True, metavar="MOMENT", help="Before that.")
@click.option("--reason", required=True, help="Tenants see it in their reports.")
@click.option("--tenant", help="The id of one; without it all.")
@token_option
@_timeout
def sla_exclude(
    from_at: str, until_at: str, reason: str, tenant: str | None, token_file: Path | None, timeout: float
) -> None:
    """Operators: announce that a time to come is taken out of service levels. Each five-minute window that it touches
    counts neither way. Every tenant that it is about sees it at once in its audit log and its reports. It begins after
    the service's notice, and at most eight hours of a month are taken out.
    """
    body = {"tenant": tenant, "from_at": from_at, "until_at": until_at, "reason": reason}
    with operator_client(token_file) as rest:
        made = rest.post(_EXCLUSIONS, body, timeout_s=timeout)
    if current().json:
        print_json(made)
        return
    _show([made])


@sla.command("withdraw", examples=["penstock sla withdraw exc_... --token-file operator.token"])
@click.argument("exclusion", metavar="EXCLUSION")
@token_option
@_timeout
def sla_withdraw(exclusion: str, token_file: Path | None, timeout: float) -> None:
    """Operators: withdraw an exclusion. Months that were posted with it keep it."""
    with operator_client(token_file) as rest:
        ended = rest.delete(f"{_EXCLUSIONS}/{segment(exclusion)}", timeout_s=timeout)
    if current().json:
        print_json(ended)
        return
    _show([ended])


def _show(found: list[dict[str, Any]]) -> None:
    print_table(
        ["exclusion", "tenant", "from", "until", "withdrawn", "reason"],
        [
            [
                one["id"],
                one["tenant"] or "all",
                moment(one["from_at"]),
                moment(one["until_at"]),
                "-" if one["withdrawn_at"] is None else moment(one["withdrawn_at"]),
                one["reason"],
            ]
            for one in found
        ],
        empty="Nothing was taken out.",
    )


def _worst(operations: list[dict[str, Any]]) -> list[list[object]]:
    windows = [
        ((one["valid"] - one["bad"]) * WHOLE // one["valid"], one["window_s"], operation["operation"], one)
        for operation in operations
        for one in operation["imperfect"]
    ]
    windows.sort(key=lambda row: row[:3])
    return [
        [_moment(second), operation, one["source"], one["valid"], one["bad"], percent(parts)]
        for parts, second, operation, one in windows[:_WORST_SHOWN]
    ]


def _slowest(missed: list[dict[str, Any]]) -> list[list[object]]:
    ordered = sorted(missed, key=lambda one: (-one["slow"] * WHOLE // one["good"], one["window_s"]))
    return [
        [
            _moment(one["window_s"]),
            one["good"],
            one["slow"],
            percent((one["good"] - one["slow"]) * WHOLE // one["good"]),
        ]
        for one in ordered[:_WORST_SHOWN]
    ]


def _moment(second: int) -> str:
    return f"{datetime.fromtimestamp(second, UTC):%Y-%m-%d %H:%M}"
