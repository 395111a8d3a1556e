"""How far it scales, reckoned from measured figures: the tables of docs/benchmarks/scale.md.

    python -m benchmarks.scale

Each figure names the page that it was measured on and what stands there; a test holds both to the pages, and the tables
to this reckoning.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

DAY_S = 86_400
MICRO = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A measured number, or what follows from one by the formula that `said` quotes."""

    what: str
    value: float
    unit: str
    page: str
    said: str
    """Text of that page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assumption:
    """A number that was not measured here."""

    what: str
    value: float
    unit: str


FIGURES: Final = {
    "batch": Figure(
        what="brokers, a batch of one message over 1,000 partitions",
        value=228,
        unit="µs",
        page="peers.md",
        said="| batches of one message, 1,000 partitions | 228 + 36.6 |",
    ),
    "batch_1": Figure(
        what="brokers, a batch of one message of 100 B over 10 partitions",
        value=124,
        unit="µs",
        page="curves.md",
        said="A batch of one message takes 124 µs",
    ),
    "batch_100": Figure(
        what="the same of a hundred messages",
        value=372,
        unit="µs",
        page="curves.md",
        said="of a hundred 372",
    ),
    "metered": Figure(
        what="brokers, a small batch",
        value=287,
        unit="µs",
        page="metering.md",
        said="3.3 % (3.3 to 4.0) of 287 µs",
    ),
    "followed": Figure(
        what="the same with a consumer that reads along",
        value=321,
        unit="µs",
        page="metering.md",
        said="1.6 % (1.0 to 1.7) of 321 µs",
    ),
    "read": Figure(
        what="brokers, a message of 100 B read in bulk",
        value=0.19,
        unit="µs",
        page="peers.md",
        said="| read 100 B | 0.19 + 0.95 |",
    ),
    "disk_1": Figure(
        what="to disk, three copies, a message of 100 B alone in its batch",
        value=1_684,
        unit="B",
        page="curves.md",
        said="| 11,982 | 124 | 18.3 | 1,684 | 340 |",
    ),
    "disk_10": Figure(
        what="the same with ten in a batch",
        value=755,
        unit="B",
        page="curves.md",
        said="| 109,214 | 14.5 | 1.73 | 755 | 230 |",
    ),
    "peers_1": Figure(
        what="between brokers, a message of 100 B alone in its batch",
        value=340,
        unit="B",
        page="curves.md",
        said="| 11,982 | 124 | 18.3 | 1,684 | 340 |",
    ),
    "peers_10": Figure(
        what="the same with ten in a batch",
        value=230,
        unit="B",
        page="curves.md",
        said="| 109,214 | 14.5 | 1.73 | 755 | 230 |",
    ),
    "disk_100": Figure(
        what="the same with a hundred in a batch",
        value=668,
        unit="B",
        page="curves.md",
        said="| 470,923 | 3.72 | 0.232 | 668 | 220 |",
    ),
    "peers_100": Figure(
        what="between brokers, a hundred in a batch",
        value=220,
        unit="B",
        page="curves.md",
        said="| 470,923 | 3.72 | 0.232 | 668 | 220 |",
    ),
    "replica": Figure(
        what="memory of a replica at rest",
        value=15,
        unit="KB",
        page="many-partitions.md",
        said="The last run took 15 KB each",
    ),
    "rest": Figure(
        what="processor time at rest of 30,000 replicas",
        value=3.1,
        unit="% of a core",
        page="many-partitions.md",
        said="| idle, the broker that takes most | 4.7 % of a core | 3.1 % |",
    ),
    "broker": Figure(
        what="memory of a broker without topics",
        value=67,
        unit="MB",
        page="many-partitions.md",
        said="A broker without topics takes some 67 MB",
    ),
    "fail_over": Figure(
        what="fail-over of 10,000 led partitions out of 30,000, p99",
        value=2.6,
        unit="s",
        page="many-partitions.md",
        said="| fail-over, p50 and p99 | 2.7, 4.7 s | 1.4, 2.6 s |",
    ),
    "elected": Figure(
        what="controller, failing over 10,000 leaders, five partitions a topic",
        value=4.3,
        unit="s",
        page="metadata.md",
        said="| failing over 10,000 leaders, CPU of the controller | 2.6 s | 4.3 s |",
    ),
    "stored": Figure(
        what="keys and values of a partition, ten a topic",
        value=104.5,
        unit="B",
        page="scale.md",
        said="| keys and values of a partition, ten a topic | 104.5 B |",
    ),
    "image": Figure(
        what="memory of a partition in the metadata that each broker holds",
        value=535,
        unit="B",
        page="scale.md",
        said="| memory of a partition in each broker's image of the metadata | 535 B |",
    ),
    "client": Figure(
        what="memory of brokers for a client at rest",
        value=185,
        unit="KB",
        page="scale.md",
        said="| memory of three brokers for a consumer at rest | 185 KB |",
    ),
    "client_rest": Figure(
        what="processor time of brokers for a client at rest",
        value=51,
        unit="µs/s",
        page="scale.md",
        said="| processor time of three brokers for a consumer at rest | 51 µs a second |",
    ),
    "connections": Figure(
        what="connections of a client at rest",
        value=3,
        unit="",
        page="scale.md",
        said="| its connections | 3 |",
    ),
    "round": Figure(
        what="usage pipeline, a round over 604,794 readings",
        value=492,
        unit="s",
        page="README.md",
        said="| `usage_round_10_days_s` | 743 s (at rest 31 s) | 492 s |",
    ),
}
READINGS_OF_ROUND = 604_794
REPLICAS_AT_REST = 30_000
LEADERS_FAILED_OVER = 10_000

TARGET: Final = {
    "producers": Assumption(what="producers", value=1e6, unit=""),
    "consumers": Assumption(what="consumers", value=10e6, unit=""),
    "peak": Assumption(what="messages a second at the peak", value=5e6, unit=""),
    "topics": Assumption(what="topics", value=100_000, unit=""),
    "day": Assumption(what="bytes a day", value=500e9, unit="B"),
}
ASSUMED: Final = {
    "size": Assumption(what="a message", value=100, unit="B"),
    "partitions": Assumption(what="partitions a topic", value=10, unit=""),
    "copies": Assumption(what="copies", value=3, unit=""),
    "fan_out": Assumption(what="times that each message is read", value=2, unit=""),
    "used": Assumption(what="share of a core that is used at the peak", value=0.5, unit=""),
    "days": Assumption(what="retention", value=7, unit="days"),
    "reading": Assumption(what="between two readings of a partition that is written to", value=10, unit="s"),
    "core_hour": Assumption(what="a core with 4 GB for an hour", value=0.04, unit="$"),
    "disk_month": Assumption(what="a GB of SSD for a month", value=0.08, unit="$"),
    "transfer": Assumption(what="a GB from one zone to another", value=0.02, unit="$"),
    "month": Assumption(what="a month", value=730, unit="hours"),
}
PARTITIONS_MEASURED = 30_000
"""The most that one cluster was measured with."""
BATCHES: Final = (1, 5, 100)
"""Messages a batch."""
_MEASURED: Final = {1: 1, 5: 10, 100: 100}
"""Bytes are those of the nearest number that was measured."""


def _f(name: str) -> float:
    return FIGURES[name].value


def _t(name: str) -> float:
    return TARGET[name].value


def _a(name: str) -> float:
    return ASSUMED[name].value


def partitions() -> float:
    return _t("topics") * _a("partitions")


def batch_us(messages: int) -> float:
    """Processor time of all brokers for a batch with three copies, over many partitions."""
    return _f("batch") + (_f("batch_100") - _f("batch_1")) / 99 * (messages - 1)


def producing_cores(messages: int) -> float:
    """Busy with what comes in at the peak."""
    return _t("peak") / messages * batch_us(messages) * MICRO


def delivering_cores(messages: int) -> float:
    """Busy with what goes out at the peak: a credit returns for each batch of each reader."""
    batches = _t("peak") * _a("fan_out") / messages * (_f("followed") - _f("metered"))
    return (batches + _t("peak") * _a("fan_out") * _f("read")) * MICRO


def resting_cores() -> float:
    """Busy with clients and replicas that do nothing."""
    clients = (_t("producers") + _t("consumers")) * _f("client_rest") * MICRO
    return clients + partitions() * _a("copies") / REPLICAS_AT_REST * _f("rest") / 100


def brokers(messages: int) -> float:
    """Processes of one core each."""
    return (producing_cores(messages) + delivering_cores(messages) + resting_cores()) / _a("used")


def client_memory_gb() -> float:
    return (_t("producers") + _t("consumers")) * _f("client") / 1e6


def replica_memory_gb() -> float:
    return partitions() * _a("copies") * _f("replica") / 1e6


def image_gb() -> float:
    """In each broker, when all partitions are in one cluster."""
    return partitions() * _f("image") / 1e9


def memory_gb(messages: int, cells: float = 1.0) -> float:
    """Of all brokers together, without the page cache."""
    each = _f("broker") / 1e3 + image_gb() / cells
    return client_memory_gb() + replica_memory_gb() + brokers(messages) * each


def connections_a_broker(messages: int) -> float:
    return (_t("producers") + _t("consumers")) * _f("connections") / brokers(messages)


def kept_tb() -> float:
    return _t("day") * _a("days") * _a("copies") / 1e12


def disk_gb_s(messages: int) -> float:
    """Written at the peak by all brokers."""
    return _t("peak") * _f(f"disk_{_MEASURED[messages]}") / 1e9


def peers_gb_s(messages: int) -> float:
    """Sent between brokers at the peak."""
    return _t("peak") * _f(f"peers_{_MEASURED[messages]}") / 1e9


def peers_tb_month(messages: int) -> float:
    """Between brokers in a month, by the bytes of a day."""
    a_byte = _f(f"peers_{_MEASURED[messages]}") / _a("size")
    return _t("day") * a_byte * _a("month") / 24 / 1e12


def stored_mb() -> float:
    return partitions() * _f("stored") / 1e6


def watch_gb() -> float:
    """What the metadata store sends to all brokers when one of them is lost, in one cluster: three changed blocks for
    each partition that it led, to each broker. How many brokers there are makes no difference.
    """
    return 3 * partitions() * _f("stored") * _a("partitions") / 1e9


def zone_elections_s() -> float:
    """Processor time of the one controller when a third of all leaders is lost, in one cluster."""
    return partitions() / 3 / LEADERS_FAILED_OVER * _f("elected")


def cells() -> float:
    return -(-partitions() // PARTITIONS_MEASURED)


def readings_a_second() -> float:
    return partitions() / _a("reading")


def folding_cores() -> float:
    """Busy with the readings of the present alone, each folded once. Rounds fold all of bronze."""
    return readings_a_second() * _f("round") / READINGS_OF_ROUND


def round_of_a_day_h() -> float:
    """Rounds fold all of bronze each time, so this is what every round of the second day takes at least."""
    return readings_a_second() * DAY_S * _f("round") / READINGS_OF_ROUND / 3_600


def money(messages: int) -> dict[str, float]:
    """Dollars a month, by what they are for."""
    month = {
        "brokers": brokers(messages) * _a("month") * _a("core_hour"),
        "disks": kept_tb() * 1_000 * _a("disk_month"),
        "between zones, three copies": peers_tb_month(messages) * 1_000 * _a("transfer"),
        "metadata: three cores for each cell": cells() * 3 * _a("month") * _a("core_hour"),
    }
    return month | {"together": sum(month.values())}


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def number(value: float) -> str:
    """Two digits that count, or whole where it is larger."""
    if value == 0:
        return "0"
    if abs(value) >= 100:
        digits = len(str(int(abs(value))))
        return f"{round(value, 2 - digits) if digits > 2 else value:,.0f}"
    return f"{value:.2g}"


def figures_table() -> str:
    rows = [
        (figure.what, f"{figure.value:,g} {figure.unit}".strip(), f"[{figure.page}]({figure.page})")
        for figure in FIGURES.values()
        if figure.page != "scale.md"
    ]
    return table(("figure", "measured", "page"), rows)


def assumptions_table() -> str:
    rows = [(one.what, f"{one.value:,g} {one.unit}".strip()) for one in (*TARGET.values(), *ASSUMED.values())]
    return table(("assumed", ""), rows)


def load_table() -> str:
    """The columns are messages a batch."""

    def row(what: str, of: str, reckoned: "Sequence[float]", unit: str) -> tuple[str, ...]:
        return (what, of, *(f"{number(value)} {unit}".strip() for value in reckoned))

    rows = [
        row(
            "taking messages in, three copies",
            "`producing_cores`",
            [producing_cores(n) for n in BATCHES],
            "cores",
        ),
        row("giving them out", "`delivering_cores`", [delivering_cores(n) for n in BATCHES], "cores"),
        row("clients and replicas at rest", "`resting_cores`", [resting_cores() for _ in BATCHES], "cores"),
        row("brokers, one core each, half used", "`brokers`", [brokers(n) for n in BATCHES], ""),
        row("connections a broker", "`connections_a_broker`", [connections_a_broker(n) for n in BATCHES], ""),
        row("written to disk at the peak", "`disk_gb_s`", [disk_gb_s(n) for n in BATCHES], "GB/s"),
        row("between brokers at the peak", "`peers_gb_s`", [peers_gb_s(n) for n in BATCHES], "GB/s"),
        row("kept on disks", "`kept_tb`", [kept_tb() for _ in BATCHES], "TB"),
        row("memory, one cluster", "`memory_gb`", [memory_gb(n) for n in BATCHES], "GB"),
        row("memory, in cells", "`memory_gb`", [memory_gb(n, cells()) for n in BATCHES], "GB"),
    ]
    head = ("", "function", *(f"{n} a batch" for n in BATCHES))
    return table(head, rows)


def limits_table() -> str:
    """What one cluster would have to do, and each of the cells that it would be parted into."""
    whole = (
        ("partitions", "`partitions`", partitions(), ""),
        ("brokers, five messages a batch", "`brokers`", brokers(5), ""),
        ("keys and values in the metadata store", "`stored_mb`", stored_mb(), "MB"),
        ("the metadata in the memory of each broker", "`image_gb`", image_gb() * 1e3, "MB"),
        ("sent by the store when one broker is lost", "`watch_gb`", watch_gb() * 1e3, "MB"),
        ("controller, when one zone of three is lost", "`zone_elections_s`", zone_elections_s(), "s"),
        ("readings of usage a second", "`readings_a_second`", readings_a_second(), ""),
        ("folding each of them once", "`folding_cores`", folding_cores(), "cores"),
        ("a round over one day of them", "`round_of_a_day_h`", round_of_a_day_h(), "hours of a core"),
    )
    rows = [
        (what, of, f"{number(value)} {unit}".strip(), f"{number(value / cells())} {unit}".strip())
        for what, of, value, unit in whole
    ]
    return table(("", "function", "one cluster", f"each of {number(cells())} cells"), rows)


def money_table() -> str:
    columns = [money(n) for n in BATCHES]
    rows = [(what, *(f"${number(column[what])}" for column in columns)) for what in columns[0]]
    return table(("a month", *(f"{n} a batch" for n in BATCHES)), rows)


def tables() -> list[str]:
    """As they stand on the page, in order."""
    return [figures_table(), assumptions_table(), load_table(), limits_table(), money_table()]


if __name__ == "__main__":
    print("\n\n".join(tables()))
