"""`penstock margins`: what a month cost the service, whose cost it is, and what stays of what was billed."""

from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import click

from penstock.cli.cluster import operator_client, token_option
from penstock.cli.invocation import Command, current
from penstock.cli.output import print_json, print_part, print_table
from penstock.cli.waits import SECONDS
from penstock.rules.rating import grouped_amount

_COLUMNS = [
    *("of", "name", "messages", "direct", "idle", "overhead", "unborne", "cost", "billed", ""),
    *("margin", "a million messages", "a GiB in"),
]
_PAGE = 1_000


@click.command(
    "margins",
    cls=Command,
    short_help="What a month cost, by plan and tenant, for operators.",
    examples=[
        "penstock margins 2026-11 --token-file operator.token",
        "penstock margins 2026-11 --topics tn_4fZ8 --token-file operator.token",
    ],
)
@click.argument("month", metavar="MONTH")
@click.option("--currency", default="", help="As USD; needed where the month has costs in several.")
@click.option(
    "--idle", type=click.Choice(["spread", "kept"]), default="spread", show_default=True, help="Who bears it."
)
@click.option("--topics", "tenant", metavar="TENANT", help="The topics of one tenant instead, by its id.")
@token_option
@click.option(
    "--timeout", type=SECONDS, default=60.0, show_default=True, help="Seconds to wait for an answer."
)
def margins(
    month: str, currency: str, idle: str, tenant: str | None, token_file: Path | None, timeout: float
) -> None:
    """Show what a UTC month, as 2026-11, cost the service and each plan and tenant, beside what was billed."""
    asked = {"period": month, "idle": idle, "limit": str(_PAGE)} | (
        {"currency": currency} if currency else {}
    )
    if tenant is not None:
        _show_topics({**asked, "tenant": tenant}, token_file, timeout)
        return
    tenants: list[dict[str, Any]] = []
    with operator_client(token_file) as rest:
        found = rest.get(f"/v1/margins?{urlencode(asked)}", timeout_s=timeout)
        tenants += found["items"]
        after = found["next"]
        while after is not None:
            page = rest.get(f"/v1/margins?{urlencode({**asked, 'cursor': after})}", timeout_s=timeout)
            tenants += page["items"]
            after = page["next"]
    if current().json:
        sums = {name: value for name, value in found.items() if name not in ("items", "next")}
        print_json({**sums, "tenants": tenants})
        return
    tenants.sort(key=lambda one: (-one["cost_micro"], one["tenant"]))
    print_part(
        "asset",
        ["asset", "kind", "driver", "cost", "direct", "idle", "overhead", "unspread"],
        [
            [
                *(one["name"], one["kind"], one["driver"]),
                *(
                    _money(one[f"{name}_micro"])
                    for name in ("cost", "direct", "idle", "overhead", "unspread")
                ),
            ]
            for one in found["assets"]
        ],
    )
    print_part(
        "margin",
        _COLUMNS,
        [
            _row("total", found["currency"], found["total"]),
            *(_row("plan", one["plan"], one) for one in found["plans"]),
            *(_row(one["tenant"], one["name"], one) for one in tenants),
        ],
    )


def _show_topics(asked: dict[str, str], token_file: Path | None, timeout: float) -> None:
    with operator_client(token_file) as rest:
        topics = list(rest.items("/v1/margins/topics", asked, timeout_s=timeout))
    if current().json:
        print_json({"topics": topics})
        return
    topics.sort(key=lambda one: (-one["cost_micro"], one["topic"]))
    amounts = ("direct", "idle", "overhead", "cost", "billed", "margin")
    print_table(
        ["topic", "messages", *amounts, "a million messages"],
        [
            [
                *(one["topic"] or "(no topic)", one["messages_in"]),
                *(_money(one[f"{name}_micro"]) for name in amounts),
                _money(one["cost_micro_per_million_messages"]),
            ]
            for one in topics
        ],
        empty="Nothing was used or billed in this month.",
    )


def _row(of: str, name: str, one: dict[str, Any]) -> list[object]:
    parts = ("direct", "idle", "overhead", "unborne", "cost", "billed")
    return [
        *(of, name, one["messages_in"], *(_money(one[f"{part}_micro"]) for part in parts), one["billing"]),
        _money(one["margin_micro"]),
        _money(one["cost_micro_per_million_messages"]),
        _money(one["cost_micro_per_gib_in"]),
    ]


def _money(micro: int | None) -> str:
    return "-" if micro is None else grouped_amount(micro, 2)
