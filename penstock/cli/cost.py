"""`penstock cost`: whose costs are whose, what the month will hold and cost, and days unlike others."""

from typing import Any

import click

from penstock.cli.cost_reports import cost_show, cost_tag, cost_tags
from penstock.cli.invocation import Group, current
from penstock.cli.invoice import moment, money
from penstock.cli.output import print_fact, print_json, print_part, print_table, say
from penstock.cli.price_books import found_book, print_comparison
from penstock.cli.rest import rest_client
from penstock.cli.waits import SECONDS

_BASES = {
    "weekdays": "weekdays",
    "level": "level",
    "run_rate": "too little history: the mean day so far",
}
_timeout = click.option(
    "--timeout", type=SECONDS, default=15.0, show_default=True, help="Seconds to wait for an answer."
)


@click.group(name="cost", cls=Group, path=("cost",))
def cost() -> None:
    """What is used and what it costs: by topic, day, tag; forecast, anomalies, what-if."""


cost.add_command(cost_show)
cost.add_command(cost_tags)
cost.add_command(cost_tag)


@cost.command(
    "forecast",
    short_help="Usage and cost at the month's end.",
    examples=["penstock cost forecast", "penstock cost forecast --json"],
)
@_timeout
def cost_forecast(timeout: float) -> None:
    """Show what the running month will hold and cost at its end: low, as expected, and high.

    Four of five months should lie between low and high. With less than two weeks of use it is the mean day so far, and
    the interval is a guess.
    """
    with rest_client() as rest:
        found = rest.get("/v1/usage/forecast", timeout_s=timeout)
    if current().json:
        print_json(found)
        return
    begins, ends = moment(found["begins"]), moment(found["ends"])
    print_fact("period", [begins, ends], f"From {begins} to {ends}")
    print_part(
        "usage",
        ["meter", "so far", "low", "expected", "high", "made from"],
        [
            [
                one["meter"],
                one["so_far"],
                *(one["total"][name] for name in ("low", "expected", "high")),
                f"{_BASES.get(one['basis'], one['basis'])}, {one['history_days']} days",
            ]
            for one in found["meters"]
        ],
    )
    if found["cost"] is not None:
        print_part("cost", ["line", "low", "expected", "high"], _cost_rows(found["cost"]))
    if found["too_little_history"]:
        days = found["history_days_min"]
        say(f"Too little history: an interval that means something needs {days} whole days of use.")


@cost.command(
    "anomalies",
    short_help="Days unlike others, and why.",
    examples=["penstock cost anomalies", "penstock cost anomalies --days 90"],
)
@click.option(
    "--days", type=click.IntRange(1, 92), default=31, show_default=True, help="Whole days before today."
)
@_timeout
def cost_anomalies(days: int, timeout: float) -> None:
    """Show days whose usage lies outside what the days before them said, with the topics that made the difference."""
    with rest_client() as rest:
        found = rest.get("/v1/usage/anomalies", {"days": days}, timeout_s=timeout)
    if current().json:
        print_json(found)
        return
    print_table(
        ["day", "meter", "quantity", "expected", "usual from", "to", "why"],
        [
            [
                one["day"],
                one["meter"],
                one["quantity"],
                one["expected"],
                one["low"],
                one["high"],
                one["reason"],
            ]
            for one in found["anomalies"]
        ],
        empty=f"No day stands out. A day needs {found['history_days_min']} days of use before it.",
    )


@cost.command(
    "what-if",
    short_help="The month by another price book.",
    examples=["penstock cost what-if standard:3", "penstock cost what-if standard:3 --last"],
)
@click.argument("book", metavar="BOOK")
@click.option("--last", is_flag=True, help="The last invoiced period instead of the running one.")
@_timeout
def cost_what_if(book: str, last: bool, timeout: float) -> None:
    """Show what the running month would cost at its end by another published price book, line by line.

    BOOK is NAME (its newest version), NAME:VERSION, or the beginning of its sha256. Discounts, credit and tax stay
    yours.
    """
    with rest_client() as rest:
        asked = found_book(list(rest.items("/v1/price-books", timeout_s=timeout)), book)
        found = rest.get(
            "/v1/usage/what-if",
            {"price_book_sha256": asked["sha256"], "period": "last" if last else "running"},
            timeout_s=timeout,
        )
    if current().json:
        print_json(found)
        return
    until = f"{moment(found['period_start'])} to {moment(found['period_end'])}"
    print_comparison(found, f"{until}, {'invoiced' if last else 'as it is expected'}")
    if found["too_little_history"]:
        say("Too little history: the month's use is the mean day so far.")


def _cost_rows(cost: dict[str, Any]) -> list[list[object]]:
    """A line that is not in all three is 0 where it is not."""
    rows: dict[str, dict[str, int]] = {}
    for name in ("low", "expected", "high"):
        priced = cost[name]
        for line in priced["lines"]:
            rows.setdefault(line["meter"], {})[name] = line["amount_micro"]
        for charge in priced["charges"]:
            what = (charge["kind"], charge["name"], charge["meter"])
            key = " ".join(dict.fromkeys(part for part in what if part))
            rows.setdefault(key, {})[name] = charge["amount_micro"]
    total = {name: cost[name]["total_micro"] for name in ("low", "expected", "high")}
    return [
        [line, *(money(cost, amounts.get(name, 0)) for name in ("low", "expected", "high"))]
        for line, amounts in [*rows.items(), ("total", total)]
    ]
