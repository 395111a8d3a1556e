"""`penstock price-book list` and `publish`: the prices for all tenants; only operators publish."""

from pathlib import Path
from typing import Any

import click

from penstock.cli.cluster import operator_client, token_option
from penstock.cli.invocation import Group, current
from penstock.cli.invoice import moment
from penstock.cli.output import print_json, print_table, say
from penstock.contract import strict_json
from penstock.contract.errors import ConfigurationError
from penstock.rules.rating import unit_text

_ADDRESS = "/v1/price-books"
_timeout = click.option(
    "--timeout", type=float, default=15.0, show_default=True, help="Seconds to wait for an answer."
)


@click.group(name="price-book", cls=Group, path=("price-book",))
def price_book() -> None:
    """Prices, for operators: list, publish."""


@price_book.command("list", examples=["penstock price-book list --token-file operator.token"])
@token_option
@_timeout
def price_book_list(token_file: Path | None, timeout: float) -> None:
    """List every price book that was published, with the time from which it holds."""
    with operator_client(token_file) as rest:
        books = list(rest.items(_ADDRESS, timeout_s=timeout))
    if current().json:
        print_json({"price_books": books})
        return
    print_table(
        ["price book", "version", "from", "currency", "sha256"],
        [
            [
                book["document"]["name"],
                book["document"]["version"],
                moment(book["effective_from"]),
                book["document"]["currency"],
                book["sha256"],
            ]
            for book in books
        ],
        empty="No prices yet: the first round of billing publishes them.",
    )


@price_book.command(
    "publish",
    short_help="Publish prices for periods that begin later.",
    examples=[
        "penstock price-book publish prices.json --effective-from 2027-01-01T00:00:00Z --dry-run",
        "penstock price-book publish prices.json --effective-from 2027-01-01T00:00:00Z",
    ],
)
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "--effective-from",
    required=True,
    metavar="MOMENT",
    help="Periods that begin then or later are rated with it. Not before now.",
)
@click.option("--dry-run", is_flag=True, help="Only show what would change.")
@token_option
@_timeout
def price_book_publish(
    file: Path, effective_from: str, dry_run: bool, token_file: Path | None, timeout: float
) -> None:
    """Publish a price book: a JSON file with the version counted up.

    A period that runs keeps its prices. Each tenant gets the new ones when its running period ends at that time or
    later, and its billing chain says so.
    """
    try:
        document = strict_json.parse(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"price book: {file}: {error}") from error
    body = {"document": document, "effective_from": effective_from, "dry_run": dry_run}
    with operator_client(token_file) as rest:
        known = list(rest.items(_ADDRESS, timeout_s=timeout))
        answer = rest.post(_ADDRESS, body, timeout_s=timeout)
    if current().json:
        print_json(answer)
        return
    document = answer["document"]
    name = f"{document['name']} {document['version']}"
    same = next((book for book in known if book["sha256"] == answer["sha256"]), None)
    if same is not None:
        say(f"{name} was published before; it is valid from {moment(same['effective_from'])}.")
        return
    before = [book for book in known if book["effective_from"] < answer["effective_from"]]
    _print_changes(before[-1]["document"] if before else None, document)
    if dry_run:
        say(f"{name} would be valid from {moment(answer['effective_from'])}.")
    else:
        say(f"{name} is valid from {moment(answer['effective_from'])}; sha256 {answer['sha256']}.")


def _print_changes(before: dict[str, Any] | None, after: dict[str, Any]) -> None:
    """Each meter's prices by the book before and by this one."""
    old = {} if before is None else {meter["meter"]: meter for meter in before["meters"]}
    new = {meter["meter"]: meter for meter in after["meters"]}
    print_table(
        ["meter", "now", "then"],
        [
            *([meter, _prices(old.get(meter)), _prices(new.get(meter))] for meter in sorted({*old, *new})),
            *_monthly({} if before is None else before, after),
        ],
    )


def _monthly(before: dict[str, Any], after: dict[str, Any]) -> list[list[str]]:
    """Rows of fees and the minimum, where one of the books has them."""
    rows = []
    old, new = ({fee["fee"]: fee["month"] for fee in book.get("fees", ())} for book in (before, after))
    old["minimum"], new["minimum"] = before.get("minimum_month", "0"), after.get("minimum_month", "0")
    for name in sorted({*old, *new}):
        now, then = _price(old.get(name, "0")), _price(new.get(name, "0"))
        if (now, then) != ("0", "0"):
            rows.append([name if name == "minimum" else f"fee {name}", f"{now} a month", f"{then} a month"])
    return rows


def _prices(meter: dict[str, Any] | None) -> str:
    if meter is None:
        return "not billed"
    tiers = [
        f"{_price(tier['unit_price'])}{'' if tier['up_to'] is None else ' up to ' + format(tier['up_to'], ',')}"
        for tier in meter["tiers"]
    ]
    unit = unit_text(str(meter["meter"]), str(meter["unit"]), int(meter["unit_size"]))
    free = f"{int(meter['free']):,} free, then " if int(meter["free"]) else ""
    model = meter.get("model")
    how = {"volume": ", by the whole volume", "package": ", begun ones whole"}.get(str(model), "")
    return f"{free}{', '.join(tiers)} each {unit}{how}"


def _price(text: str) -> str:
    return (text.rstrip("0").rstrip(".") or "0") if "." in text else text
