"""`penstock produce`: send messages from arguments, a file or the standard input, and show what was
acknowledged.
"""

import sys
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from penstock.cli import sources
from penstock.cli.arguments import Bytes
from penstock.cli.connection import connect
from penstock.cli.display import counted, moment, text
from penstock.cli.invocation import Command, current
from penstock.cli.output import Bar, print_json, progress, say
from penstock.cli.sources import Item
from penstock.cli.waits import SECONDS
from penstock.contract.errors import Belief, PenstockError

if TYPE_CHECKING:
    from penstock import Delivery, Producer, Receipt

_OUTSTANDING_MAX = 50_000
"""Deliveries not yet looked at; bounds the memory that a long input takes."""
_BAR_EVERY = 256


@click.command(
    "produce",
    short_help="Send messages from arguments, a file or a pipe.",
    cls=Command,
    examples=[
        'penstock produce orders "one book" --key anna',
        "penstock produce orders --file lines.txt --key-separator :",
    ],
)
@click.argument("topic")
@click.argument("values", nargs=-1, type=Bytes())
@click.option(
    "--file", "stream", type=click.File("rb"), help="One message a line from this file; - = standard input."
)
@click.option("--key", type=Bytes(), help="Key of every message: equal keys go to one partition, in order.")
@click.option(
    "--key-separator",
    "separator",
    type=Bytes(),
    help="What divides key and value in each message, such as ':'.",
)
@click.option(
    "--header",
    "headers",
    type=Bytes(),
    multiple=True,
    metavar="NAME=VALUE",
    help="A header of every message; repeatable.",
)
@click.option("--partition", type=int, help="Send everything to this partition.")
@click.option("--acks", type=click.Choice(["all", "1", "0"]), default="all", show_default=True)
@click.option(
    "--compression",
    type=click.Choice(["none", "gzip", "snappy", "lz4", "zstd"]),
    default="zstd",
    show_default=True,
)
@click.option(
    "--timeout",
    type=SECONDS,
    default=30.0,
    show_default=True,
    help="Seconds until a message counts as failed.",
)
@click.option(
    "--receipts/--summary", default=None, help="Print each receipt, or only the sum (default for lines)."
)
def produce(
    topic: str,
    values: tuple[bytes, ...],
    stream: BinaryIO | None,
    key: bytes | None,
    separator: bytes | None,
    headers: tuple[bytes, ...],
    receipts: bool | None,
    timeout: float,
    **options: Any,
) -> None:
    """Send messages: VALUES, or the lines of --file or of the standard input when there are none.

    It stops at the first message that fails. Everything it reports as acknowledged is stored.
    """
    if values and stream is not None:
        raise click.UsageError("VALUES and --file exclude each other.")
    if key is not None and separator is not None:
        raise click.UsageError("--key and --key-separator exclude each other.")
    separator = separator or None
    if values:
        items, size = sources.from_arguments(values, separator), None
    else:
        source = stream if stream is not None else _standard_input()
        items, size = sources.from_lines(source, separator), sources.size_of(source)
    fields = _Fields(
        topic=topic,
        key=key,
        headers=[_header(header) for header in headers],
        partition=options["partition"],
    )
    show = bool(values) if receipts is None else receipts
    sending = _Sending(fields, timeout, show=show)
    with connect() as client:
        producer = client.producer(
            acks=options["acks"], compression=options["compression"], delivery_timeout_ms=timeout * 1000
        )
        try:
            with producer, progress(f"Sending to {topic}", total=size) as bar:
                sending.run(producer, items, bar)
        finally:
            if not show:
                sending.tell_sum()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fields:
    """What all messages of one call share."""

    topic: str
    key: bytes | None
    headers: list[tuple[str, bytes]]
    partition: int | None


class _Sending:
    """Sends items and takes the outcomes of their deliveries in order. Stops at the first failure, but counts what is
    under way.
    """

    def __init__(self, fields: _Fields, timeout: float, *, show: bool) -> None:
        self._fields = fields
        self._timeout = timeout
        self._show = show
        self._outstanding: deque[tuple[Delivery, Item]] = deque()
        self._failure: PenstockError | None = None
        self._started = time.monotonic()
        self.sent = self.acknowledged = self.duplicates = self.refused = self.unknown = self.value_bytes = 0

    def run(self, producer: "Producer[bytes, bytes]", items: Iterator[Item], bar: Bar) -> None:
        """Send all items. Raises the first failure once every delivery under way has ended."""
        fields = self._fields
        try:
            for item in items:
                key = fields.key if item.key is None else item.key
                delivery = producer.send(
                    fields.topic, item.value, key=key, headers=fields.headers, partition=fields.partition
                )
                self.sent += 1
                self._outstanding.append((delivery, item))
                if self.sent % _BAR_EVERY == 0:
                    bar.to(item.consumed, f"{self.acknowledged:,} acknowledged")
                self._collect_ended()
                if self._failure is not None:
                    break
        except PenstockError as error:
            self._failure = self._failure or error
        except KeyboardInterrupt as stopped:
            self._note_on_their_way(stopped)
            raise
        producer.flush(timeout=self._timeout)
        while self._outstanding:
            self._collect(*self._outstanding.popleft())
        if self._failure is not None:
            raise self._failure

    def _note_on_their_way(self, stopped: KeyboardInterrupt) -> None:
        self._collect_ended()
        count = len(self._outstanding)
        if count:
            stopped.add_note(f"{counted(count, 'message')} without an answer yet may be stored.")

    def _collect_ended(self) -> None:
        waiting = self._outstanding
        while waiting and (waiting[0][0].done() or len(waiting) > _OUTSTANDING_MAX):
            self._collect(*waiting.popleft())

    def _collect(self, delivery: "Delivery", item: Item) -> None:
        try:
            receipt = delivery.result(timeout=self._timeout)
        except PenstockError as error:
            if error.belief is Belief.UNKNOWN:
                self.unknown += 1
            else:
                self.refused += 1
            self._failure = self._failure or error
            return
        self.acknowledged += 1
        self.duplicates += receipt.duplicate
        self.value_bytes += len(item.value)
        if self._show:
            _tell_receipt(receipt)

    def tell_sum(self) -> None:
        """Print what became of all messages."""
        seconds = time.monotonic() - self._started
        if current().json:
            print_json(
                {
                    "topic": self._fields.topic,
                    "sent": self.sent,
                    "acknowledged": self.acknowledged,
                    "duplicates": self.duplicates,
                    "not_applied": self.refused,
                    "unknown": self.unknown,
                    "value_bytes": self.value_bytes,
                    "seconds": round(seconds, 3),
                }
            )
            return
        rate = self.acknowledged / seconds if seconds else 0
        click.echo(
            f"{self._fields.topic}: {self.acknowledged:,} acknowledged ({self.value_bytes:,} bytes) "
            f"in {seconds:.1f} s, {rate:,.0f} a second"
        )
        if self.refused or self.unknown:
            say(f"{self.refused:,} not applied, {self.unknown:,} of unknown outcome")


def _tell_receipt(receipt: "Receipt") -> None:
    if current().json:
        print_json(
            {
                "topic": receipt.topic,
                "partition": receipt.partition,
                "offset": receipt.offset,
                "timestamp_ms": receipt.timestamp_ms,
                "duplicate": receipt.duplicate,
            }
        )
        return
    note = "  duplicate of the first one" if receipt.duplicate else ""
    click.echo(
        f"{receipt.topic}-{receipt.partition} @ {receipt.offset}  {moment(receipt.timestamp_ms)}{note}"
    )


def _header(header: bytes) -> tuple[str, bytes]:
    name, sign, content = header.partition(b"=")
    if not sign or not name:
        raise click.BadParameter(f"{text(header)!r} is not NAME=VALUE", param_hint="--header")
    try:
        return name.decode(), content
    except UnicodeDecodeError:
        raise click.BadParameter(f"{text(name)!r} is no UTF-8 text", param_hint="--header") from None


def _standard_input() -> BinaryIO:
    if sys.stdin.isatty():
        say("One message a line; end with Ctrl-D.")
    return sys.stdin.buffer
