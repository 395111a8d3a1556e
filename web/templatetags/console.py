"""Filters and tags of templates: numbers, sizes and times as text, and addresses of static files."""

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django import template
from django.templatetags.static import static
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString

from billing.running_costs import RunningCost
from control_plane.audit.models import AuditEntry
from penstock.contract.errors import (
    Belief,
    BrokerUnavailable,
    DeliveryTimeout,
    PenstockError,
    TimedOut,
    split_message,
)
from penstock.rules.currencies import minor_digits
from penstock.rules.meters import (
    BYTES_OTHER_ZONE,
    BYTES_OWN_ZONE,
    CONNECTIONS,
    GB_HOUR,
    HOUR_MINUTES,
    HOUR_MS,
    MESSAGES_OTHER_ZONE,
    MESSAGES_OWN_ZONE,
    PARTITIONS,
    REPLICATED,
    REQUESTS,
    RETAINED,
    SECOND_MS,
    THROTTLED,
    decimal_text,
    items_of,
)
from penstock.rules.payment_words import PAYMENT_WORDS
from penstock.rules.rating import change_text
from penstock.rules.timestamps import moment_of
from web import assets, charts, formats, navigation
from web.costs import PriceRow

register = template.Library()

register.filter("browser", formats.browser)
register.filter("count", formats.count)
register.filter("size", formats.size)
register.filter("binary_size", formats.binary_size)
register.filter("limit_size", formats.limit_size)
register.filter("rate", formats.rate)
register.filter("byte_rate", formats.byte_rate)
register.filter("span", formats.span)
register.filter("moment", formats.moment)
register.filter("time_of", formats.time_of)
register.filter("price", formats.price)
register.filter("short", charts.short)


@register.filter
def ago(at: datetime | None) -> SafeString | str:
    """`3 minutes ago`, with the time itself as its title."""
    if at is None:
        return "never"
    return format_html(
        '<time datetime="{}" title="{}">{}</time>',
        at.isoformat(),
        formats.moment(at),
        formats.ago(at, timezone.now()),
    )


@register.simple_tag
def money(micro: int, minor_digits: int, currency: str) -> str:
    return formats.amount(micro, minor_digits, currency)


@register.simple_tag
def about(micro: int, minor_digits: int, currency: str) -> SafeString | str:
    """Money rounded to the currency's smallest unit, where there is one of it, with the exact amount as its title."""
    exact = formats.amount(micro, minor_digits, currency)
    rounded = formats.rounded(micro, minor_digits)
    if rounded == micro or not rounded:
        return exact
    return format_html('<span title="{}">{}</span>', exact, formats.amount(rounded, minor_digits, currency))


@register.filter
def percent_of_points(basis_points: int) -> str:
    """Hundredths of a percent as percent: `12.5`."""
    return f"{basis_points / 100:g}"


@register.filter
def coin_digits(currency: str) -> int:
    """Digits of a currency's minor unit."""
    return minor_digits(currency)


@register.filter
def pretty(value: Any) -> str:
    """Plain JSON for people."""
    return json.dumps(value, indent=2, ensure_ascii=False, sort_keys=True)


@register.filter
def iso_moment(text: str | None) -> str:
    """A time that is given as ISO 8601."""
    return "" if text is None else formats.moment(datetime.fromisoformat(text))


@register.filter
def plural(number: int, word: str) -> str:
    """`1 topic`, `2 topics`."""
    return f"{number:,} {word}" if number == 1 else f"{number:,} {word}s"


@register.simple_tag
def asset(path: str) -> str:
    """A static file's address with a part that changes with its content, so that no browser keeps an old one."""
    return f"{static(path)}?v={assets.digest(path)}"


@register.simple_tag(takes_context=True)
def page_address(context: template.Context, number: int, name: str = "") -> str:
    """The address of another page of the list `name`; with a name, the address leads to that list on the page."""
    query = context["request"].GET.copy()
    query[name or "page"] = str(number)
    return f"?{query.urlencode()}{'#' if name else ''}{name}"


@register.filter
def unreachable(error: PenstockError) -> bool:
    """Whether no broker answered: the message is then about connections only."""
    return isinstance(error, (BrokerUnavailable, TimedOut, DeliveryTimeout))


@register.filter
def believed(error: PenstockError) -> str:
    """What is known about the request's outcome."""
    if error.belief is Belief.UNKNOWN:
        return "It is not known whether your request was done: check before you send it again."
    return "Nothing was changed."


@register.filter
def sentence(text: str) -> str:
    """A refusal's text as a sentence."""
    _, rest = split_message(text)
    return f"{text[:1].upper()}{text[1:]}" + ("" if rest.endswith((".", "!", "?")) else ".")


@register.filter
def subject(entry: AuditEntry) -> str:
    """The name of an audit entry's object, if it has one."""
    return str(entry.after.get("name") or entry.before.get("name") or "")


@register.filter
def absolute(number: int) -> int:
    return abs(number)


_METERS = {
    "messages_in": "Messages in",
    "bytes_in": "Bytes in",
    "messages_out": "Messages out",
    "bytes_out": "Bytes out",
    RETAINED: "Stored",
    REPLICATED: "Stored with all copies",
    PARTITIONS: "Partition time",
    REQUESTS: "Requests",
    MESSAGES_OWN_ZONE: "Messages out in their zone",
    BYTES_OWN_ZONE: "Bytes out in their zone",
    MESSAGES_OTHER_ZONE: "Messages out to other zones",
    BYTES_OTHER_ZONE: "Bytes out to other zones",
    CONNECTIONS: "Connection time",
    THROTTLED: "Time delayed by limits",
}


@register.filter
def meter(name: str) -> str:
    """A meter's name for people."""
    return _METERS.get(name, name.replace("_", " ").capitalize())


@register.filter
def payment_state(state: str) -> str:
    """A receivable's state in the words of invoices on paper and in e-mails."""
    return PAYMENT_WORDS[state]


@register.filter
def negative(amount: int) -> int:
    """The amount with the other sign."""
    return -amount


@register.filter
def charge_change(change: Mapping[str, Any]) -> str:
    """What a credit note's change of a charge means."""
    return change_text(str(change["kind"]), int(change["amount_micro"]))


@register.filter
def points(basis_points: int) -> str:
    """`1900` as `19 %`."""
    return f"{basis_points // 100}.{basis_points % 100:02d}".rstrip("0").rstrip(".") + " %"


@register.filter
def day_of_ms(at_ms: int) -> str:
    """The UTC day of a time in ms."""
    return f"{moment_of(at_ms):%Y-%m-%d}"


@register.filter
def rest_of(rests: Mapping[str, int], grant: str) -> int:
    """What is left of a grant of credit."""
    return rests.get(grant, 0)


@register.filter
def items(meter_name: str) -> str:
    """What a meter counts."""
    return items_of(meter_name)


@register.filter
def gb_hours(byte_minutes: int) -> str:
    return decimal_text(byte_minutes, GB_HOUR)


@register.filter
def hours(minutes: int) -> str:
    return decimal_text(minutes, HOUR_MINUTES)


@register.filter
def hours_of_ms(milliseconds: int) -> str:
    return decimal_text(milliseconds, HOUR_MS)


@register.filter
def seconds_of_ms(milliseconds: int) -> str:
    return decimal_text(milliseconds, SECOND_MS)


@register.filter
def used(quantity: int, meter_name: str) -> str:
    """A meter's quantity with its unit, where it is not a number of items: `1.2 GB`, `1.25 GBh`, `24 h`."""
    if meter_name in (RETAINED, REPLICATED):
        return f"{gb_hours(quantity)} GBh"
    if meter_name == PARTITIONS:
        return f"{hours(quantity)} h"
    if meter_name == CONNECTIONS:
        return f"{hours_of_ms(quantity)} h"
    if meter_name == THROTTLED:
        return f"{seconds_of_ms(quantity)} s"
    return formats.size(quantity) if meter_name.startswith("bytes") else formats.count(quantity)


@register.filter
def price_span(row: PriceRow) -> str:
    """The part of a period's quantity that a price is for."""

    def form(quantity: int) -> str:
        return str(used(quantity, row.meter))

    if row.by_volume and (row.after or row.up_to is not None):
        ends = [f"over {form(row.after)}"] * bool(row.after)
        ends += [] if row.up_to is None else [f"up to {form(row.up_to)}"]
        return f"all, if {' '.join(ends)}"
    if row.up_to is None:
        return "any" if row.after == 0 else f"over {form(row.after)}"
    return (
        f"the first {form(row.up_to)}"
        if row.after == 0
        else f"over {form(row.after)} up to {form(row.up_to)}"
    )


@register.filter
def reading_is_free(rows: list[PriceRow]) -> bool:
    return not any("_out" in row.meter for row in rows)


@register.filter
def storing_is_free(rows: list[PriceRow]) -> bool:
    return not any(row.meter in (RETAINED, REPLICATED, PARTITIONS) for row in rows)


@register.filter
def metered(cost: RunningCost, name: str) -> int:
    """What a meter counted since the last invoice."""
    return next((line.quantity for line in cost.rated.lines if line.meter == name), 0)


@register.filter
def percent(ratio: str | None) -> str:
    """`0.999876` as `99.9876 %`, never rounded up."""
    if ratio is None:
        return "no requests"
    digits = ratio.replace(".", "")
    decimals = digits[3:].rstrip("0")
    return f"{int(digits[:3])}{'.' + decimals if decimals else ''} %"


@register.inclusion_tag("web/parts/pipe.html")
def lead_pipe(leaders: int, most: int) -> dict[str, Any]:
    return {"pipe": charts.pipe(leaders, leaders, most, f"{leaders} leaders", gate=False)}


@register.inclusion_tag("web/parts/nav.html", takes_context=True)
def pages_of_tenant(context: template.Context) -> dict[str, Any]:
    """The navigation of the tenant's pages, with the page that is shown or is above it."""
    match = context["request"].resolver_match
    page = "" if match is None or match.url_name is None else match.url_name
    here = str(context.get("here", ""))
    return {
        "tenant": context["tenant"],
        "is_overview": page == "overview",
        "groups": [
            (group.heading, [(item, item.is_current(page, here)) for item in group.items])
            for group in navigation.groups_for(context["rights"])
        ],
    }


@register.simple_tag
def sorting(column: Mapping[str, str], kind: str = "") -> SafeString:
    """The heading of a column that sorts its table."""
    direction = column["direction"]
    arrow = {"ascending": " ↑", "descending": " ↓"}.get(direction, "")
    return format_html(
        '<th scope="col" class="{}"{}><a class="sorts" href="{}">{}{}</a></th>',
        kind,
        format_html(' aria-sort="{}"', direction) if direction else "",
        column["address"],
        column["label"],
        arrow,
    )
