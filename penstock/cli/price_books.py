"""`penstock price-book …`: the prices for all tenants and for one; only operators publish, assign and preview."""

from pathlib import Path
from typing import Any

import click

from penstock.cli.cluster import operator_client, token_option
from penstock.cli.dry_run import ChangingCommand
from penstock.cli.invocation import Command, Group, current
from penstock.cli.invoice import moment, money
from penstock.cli.output import print_fact, print_json, print_table, say
from penstock.cli.waits import SECONDS
from penstock.contract import strict_json
from penstock.contract.errors import ConfigurationError, NotFound
from penstock.rest.client import segment
from penstock.rules.rating import unit_text

_ADDRESS = "/v1/price-books"
HASH_DIGITS_MIN = 6
"""Of a hash that names a price book."""
_timeout = click.option(
    "--timeout", type=SECONDS, default=15.0, show_default=True, help="Seconds to wait for an answer."
)


@click.group(name="price-book", cls=Group, path=("price-book",))
def price_book() -> None:
    """Prices, for operators: list, show, publish, assign to a tenant, preview what they would cost it."""


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
    "show",
    short_help="Show what a price book asks.",
    examples=["penstock price-book show standard", "penstock price-book show standard:2"],
)
@click.argument("book", metavar="BOOK")
@token_option
@_timeout
def price_book_show(book: str, token_file: Path | None, timeout: float) -> None:
    """Show the prices of a published book: NAME (its newest version), NAME:VERSION, or the beginning of its sha256."""
    with operator_client(token_file) as rest:
        found = found_book(list(rest.items(_ADDRESS, timeout_s=timeout)), book)
    if current().json:
        print_json(found)
        return
    document = found["document"]
    name, currency = f"{document['name']} {document['version']}", document["currency"]
    start = moment(found["effective_from"])
    print_fact(
        "price book", [name, currency, start, found["sha256"]], f"{name} in {currency}, valid from {start}"
    )
    print_table(
        ["meter", "price"],
        [
            *([meter["meter"], price_text_of(meter)] for meter in document["meters"]),
            *([name, then] for name, _, then in monthly_texts({}, document)),
        ],
    )


@price_book.command(
    "assign",
    cls=ChangingCommand,
    short_help="Give a tenant a price book of its own.",
    examples=[
        "penstock price-book assign tn_4fZ8 partner:3 --dry-run --token-file operator.token",
        "penstock price-book assign tn_4fZ8 --general --token-file operator.token",
    ],
)
@click.argument("tenant_id", metavar="TENANT")
@click.argument("book", metavar="[BOOK]", required=False)
@click.option("--general", is_flag=True, help="The book that is in effect for all.")
@token_option
@_timeout
def price_book_assign(
    tenant_id: str, book: str | None, general: bool, token_file: Path | None, timeout: float
) -> None:
    """Give a tenant a published book of its own, from its next period on.

    Its running period keeps its prices. A dry run says what its last invoiced period would have cost.
    """
    if general == (book is not None):
        raise click.UsageError("Name a price book, or --general for the one that is in effect for all")
    with operator_client(token_file) as rest:
        found = None if book is None else found_book(list(rest.items(_ADDRESS, timeout_s=timeout)), book)
        sha256 = None if found is None else found["sha256"]
        answer = rest.patch(terms_path(tenant_id), {"price_book_sha256": sha256}, timeout_s=timeout)
    if current().json:
        print_json(answer)
        return
    name = "the general price book" if found is None else _name(found)
    say(f"{tenant_id} has {name} from its next period on.")


@price_book.command(
    "preview",
    short_help="Show what a tenant's last periods would have cost.",
    examples=[
        "penstock price-book preview tn_4fZ8 prices.json --periods 3 --token-file operator.token",
        "penstock price-book preview tn_4fZ8 partner:3 --terms terms.json --token-file operator.token",
    ],
)
@click.argument("tenant_id", metavar="TENANT")
@click.argument("book", metavar="[BOOK]", required=False)
@click.option("--terms", "terms_file", type=click.Path(dir_okay=False, path_type=Path), help="Other terms.")
@click.option(
    "--periods",
    type=click.IntRange(1, 12),
    default=1,
    show_default=True,
    help="How many of the newest invoiced periods.",
)
@token_option
@_timeout
def price_book_preview(
    tenant_id: str,
    book: str | None,
    terms_file: Path | None,
    periods: int,
    token_file: Path | None,
    timeout: float,
) -> None:
    """Show what a tenant's last invoiced periods would have cost, line by line. It changes nothing.

    BOOK is a JSON file that need not be published, or a published book. Without it each period has its own.
    """
    body: dict[str, Any] = {"periods": periods}
    if terms_file is not None:
        body["terms"] = read_json(terms_file, "terms")
    with operator_client(token_file) as rest:
        if book is not None and Path(book).is_file():
            body["document"] = read_json(Path(book), "price book")
        elif book is not None:
            body["price_book_sha256"] = found_book(list(rest.items(_ADDRESS, timeout_s=timeout)), book)[
                "sha256"
            ]
        answer = rest.post(f"{terms_path(tenant_id)}/preview", body, timeout_s=timeout)
    if current().json:
        print_json(answer)
        return
    for period in answer["periods"]:
        start, end = moment(period["period_start"]), moment(period["period_end"])
        print_comparison(period, f"{period['invoice']}, {start} to {end}")


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
    document = read_json(file, "price book")
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


def read_json(file: Path, what: str) -> Any:
    """The document in the file. Raises `ConfigurationError`."""
    try:
        return strict_json.parse(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"{what}: {file}: {error}") from error


def terms_path(tenant_id: str) -> str:
    """The address of a tenant's terms."""
    return f"/v1/tenants/{segment(tenant_id)}/terms"


def _name(book: dict[str, Any]) -> str:
    return f"{book['document']['name']} {book['document']['version']}"


def found_book(books: list[dict[str, Any]], asked: str) -> dict[str, Any]:
    """The book of NAME, NAME:VERSION or the beginning of a hash. Raises `NotFound`."""
    name, _, version = asked.partition(":")
    named = [
        book
        for book in books
        if book["document"]["name"] == name and version in ("", str(book["document"]["version"]))
    ]
    if named:
        return max(named, key=lambda book: int(book["document"]["version"]))
    hashed = [book for book in books if len(asked) >= HASH_DIGITS_MIN and book["sha256"].startswith(asked)]
    if len(hashed) == 1:
        return hashed[0]
    raise NotFound(
        f"price book {asked!r}: not found; penstock price-book list shows those that are published"
    )


def print_comparison(period: dict[str, Any], title: str) -> None:
    """A period's lines by the prices that it has and by others."""
    billed, then = (
        {"minor_digits": period["minor_digits"], "currency": period[name]}
        for name in ("billed_currency", "currency")
    )
    same = period["difference_micro"] is not None
    print_table(
        ["line", "billed", "then", "difference"],
        [
            *(
                [
                    " ".join(
                        dict.fromkeys(part for part in (one["kind"], one["name"], one["meter"]) if part)
                    ),
                    money(billed, one["billed_micro"]),
                    money(then, one["preview_micro"]),
                    _difference(then, one["difference_micro"]) if same else "",
                ]
                for one in period["lines"]
            ),
            [
                "total",
                money(billed, period["billed_micro"]),
                money(then, period["preview_micro"]),
                _difference(then, period["difference_micro"]) if same else "other currency",
            ],
        ],
        title=title,
    )


@price_book.command(
    "what-if",
    cls=Command,
    short_help="Show what a book would change for every tenant.",
    examples=["penstock price-book what-if partner:3 --token-file operator.token"],
)
@click.argument("book", metavar="BOOK")
@token_option
@click.option(
    "--timeout", type=SECONDS, default=120.0, show_default=True, help="Seconds to wait for an answer."
)
def price_book_what_if(book: str, token_file: Path | None, timeout: float) -> None:
    """Show what each tenant's last invoiced period would have cost by a published book, with the tenant's own terms.

    It changes nothing. The tenant that would pay most more comes first.
    """
    with operator_client(token_file) as rest:
        asked = found_book(list(rest.items(_ADDRESS, timeout_s=timeout)), book)
        query = {"price_book_sha256": asked["sha256"]}
        found = rest.get("/v1/billing/what-if", query, timeout_s=timeout)
    if current().json:
        print_json(found)
        return
    billed = {"minor_digits": found["minor_digits"]}
    print_table(
        ["tenant", "name", "billed", "then", "difference"],
        [
            [
                *(one["tenant"], one["name"]),
                money({**billed, "currency": one["billed_currency"]}, one["billed_micro"]),
                money(found, one["preview_micro"]),
                "other currency"
                if one["difference_micro"] is None
                else _difference(found, one["difference_micro"]),
            ]
            for one in found["tenants"]
        ],
        empty="No tenant has an invoice yet.",
    )
    changed = f"{found['dearer']} would pay more, {found['cheaper']} less"
    say(f"{changed}; together {_difference(found, found['difference_micro'])}.")
    if found["left_out"]:
        say(f"{found['left_out']:,} tenants with smaller invoices are left out.")


def _difference(then: dict[str, Any], amount_micro: int) -> str:
    return f"{'+' if amount_micro > 0 else ''}{money(then, amount_micro)}"


def _print_changes(before: dict[str, Any] | None, after: dict[str, Any]) -> None:
    """Each meter's prices by the book before and by this one."""
    old = {} if before is None else {meter["meter"]: meter for meter in before["meters"]}
    new = {meter["meter"]: meter for meter in after["meters"]}
    print_table(
        ["meter", "now", "then"],
        [
            *(
                [meter, price_text_of(old.get(meter)), price_text_of(new.get(meter))]
                for meter in sorted({*old, *new})
            ),
            *monthly_texts({} if before is None else before, after),
        ],
    )


def monthly_texts(before: dict[str, Any], after: dict[str, Any]) -> list[list[str]]:
    """Rows of fees and the minimum, where one of the books has them."""
    rows = []
    old, new = ({fee["fee"]: fee["month"] for fee in book.get("fees", ())} for book in (before, after))
    old["minimum"], new["minimum"] = before.get("minimum_month", "0"), after.get("minimum_month", "0")
    for name in sorted({*old, *new}):
        now, then = _price(old.get(name, "0")), _price(new.get(name, "0"))
        if (now, then) != ("0", "0"):
            rows.append([name if name == "minimum" else f"fee {name}", f"{now} a month", f"{then} a month"])
    return rows


def price_text_of(meter: dict[str, Any] | None) -> str:
    """What a meter costs, by its entry in a price book."""
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
