"""The last hour's flow as two charts with their labels: messages and bytes, in and out."""

from dataclasses import dataclass

from web import charts
from web.recent import Hour
from web.usage_tail import tail

MARKS = ("1 h ago", "45 min", "30 min", "15 min", "now")
_NARROW_MARKS = ("1 h ago", "30 min", "now")
_PER_S_FROM = 600
"""Per minute: from here on a chart counts per second, and below it per minute, in whole numbers."""
_HEIGHT = 150


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowChart:
    """`unit` is the unit of the numbers at the left, such as `messages a minute`."""

    unit: str
    lines: tuple[charts.LineChart, ...]
    taken: int
    given: int
    sizes: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Flows:
    """`charts` is empty if nothing flowed."""

    charts: tuple[FlowChart, ...]
    bytes_in_per_s: float
    """In the last whole minute."""


def flows(tenant: str, topic_id: str | None = None) -> Flows | None:
    """The flow of a tenant (a public id) or of one of its topics (hex); None while the hour is not read yet."""
    hour = tail.hour(tenant, topic_id)
    return None if hour is None else drawn(hour)


def drawn(hour: Hour) -> Flows:
    """The hour as charts."""
    total = hour.total
    found = []
    if total.messages_in or total.messages_out:
        found = [
            _chart(
                "messages",
                [one.messages_in for one in hour.minutes],
                [one.messages_out for one in hour.minutes],
                total.messages_in,
                total.messages_out,
            ),
            _chart(
                "bytes",
                [one.bytes_in for one in hour.minutes],
                [one.bytes_out for one in hour.minutes],
                total.bytes_in,
                total.bytes_out,
            ),
        ]
    return Flows(charts=tuple(found), bytes_in_per_s=hour.last.bytes_in / 60)


def _chart(what: str, taken: list[int], given: list[int], in_all: int, out_all: int) -> FlowChart:
    by_second = max(*taken, *given) >= _PER_S_FROM
    series = [[value / 60 if by_second else value for value in values] for values in (taken, given)]
    return FlowChart(
        unit=f"{what} a {'second' if by_second else 'minute'}",
        lines=(
            charts.lines(series, MARKS, width=charts.HALF, height=_HEIGHT, name="broad"),
            charts.lines(series, _NARROW_MARKS, width=charts.NARROW, height=_HEIGHT, name="narrow"),
        ),
        taken=in_all,
        given=out_all,
        sizes=what == "bytes",
    )
