"""`penstock consume`: read messages and show them as text, as hex, as bare values or as JSON."""

from __future__ import annotations

import contextlib
import logging
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal

import click

from penstock.cli import display
from penstock.cli.connection import connect
from penstock.cli.invocation import Command, current
from penstock.cli.output import Bar, print_json, print_row, progress, say
from penstock.cli.positions import AtOffset, AtTime, Beginning, End, Position, read_position
from penstock.cli.waits import SECONDS
from penstock.contract.errors import OffsetOutOfRange, TimedOut

if TYPE_CHECKING:
    from penstock import Consumer, Message, SkippedBatch
    from penstock.contract.ids import NamedPartition

_POLL_S = 0.5
_POLL_MESSAGES = 5_000


@click.command(
    "consume",
    short_help="Read messages of a topic, alone or in a group.",
    cls=Command,
    examples=[
        "penstock consume orders --max 10",
        "penstock consume orders --from -15m --follow",
        "penstock consume orders --group billing --json",
    ],
)
@click.argument("topic")
@click.option(
    "--from",
    "position",
    default="beginning",
    show_default=True,
    callback=read_position,
    metavar="WHERE",
    help="beginning, end (and follow), an offset, a time (2026-01-31T12:00:00Z) or a time ago (-15m).",
)
@click.option("--partition", "partitions", type=int, multiple=True, help="Only this partition; repeatable.")
@click.option(
    "--group",
    "group",
    metavar="NAME",
    help="Share the partitions with the other members of this group, from where it has committed.",
)
@click.option(
    "--zone",
    metavar="NAME",
    help="Where this command runs, a zone or a host of the brokers: read from a replica in sync there.",
)
@click.option("--max", "most", type=click.IntRange(min=1), help="Stop after this many messages.")
@click.option("--follow", is_flag=True, help="Wait for further messages until Ctrl-C.")
@click.option(
    "--display",
    "form",
    type=click.Choice(["text", "hex", "values"]),
    default="text",
    show_default=True,
    help="values: only the values, byte for byte, one a line.",
)
@click.option(
    "--timeout",
    type=SECONDS,
    default=30.0,
    show_default=True,
    help="Seconds without a message that must be there.",
)
def consume(
    topic: str,
    position: Position,
    partitions: tuple[int, ...],
    group: str | None,
    zone: str | None,
    most: int | None,
    follow: bool,
    form: str,
    timeout: float,
) -> None:
    """Read a topic from the beginning, or from --from, up to its end at this moment.

    Batches whose records are not what their headers say are left out, and named on the standard error stream.

    With --group from what the group has committed (else --from), up to the end of what is assigned to this member.
    """
    logging.getLogger("penstock.malformed").disabled = True  # every such batch is printed below
    if group is not None:
        _consume_in_group(topic, position, partitions, group, zone, most, follow, form, timeout)
        return
    follow = follow or isinstance(position, End)
    reset: Literal["error", "earliest"] = "error" if isinstance(position, AtOffset) else "earliest"
    with (
        connect(zone) as client,
        client.consumer([topic], auto_offset_reset=reset, on_malformed=_say_skipped) as consumer,
    ):
        if partitions:
            consumer.assign([(topic, partition) for partition in sorted(set(partitions))])
        places = consumer.assignment(timeout=timeout)
        _go_to(consumer, topic, position, places, timeout)
        show = _printer(form)
        if follow:
            # Ctrl-C is how following ends.
            with contextlib.suppress(KeyboardInterrupt):
                _follow(consumer, show, most)
            return
        ends = consumer.end_offsets(timeout=timeout)
        if isinstance(position, AtOffset):
            _check_offset(position.offset, ends)
        with progress(f"Reading {topic}", total=1.0) if not sys.stdout.isatty() else _no_bar() as bar:
            _read_up_to(consumer, ends, show, most, timeout, bar)


def _consume_in_group(
    topic: str,
    position: Position,
    partitions: Sequence[int],
    group: str,
    zone: str | None,
    most: int | None,
    follow: bool,
    form: str,
    timeout: float,
) -> None:
    """What was shown is committed at the end, also by SIGTERM; a command that is interrupted shows its last messages
    again.
    """
    if partitions or not isinstance(position, Beginning | End):
        raise click.UsageError("--group assigns the partitions; --from is then beginning or end.")
    reset: Literal["earliest", "latest"] = "latest" if isinstance(position, End) else "earliest"
    show = _printer(form)
    with (
        contextlib.suppress(KeyboardInterrupt),
        connect(zone) as client,
        client.consumer([topic], group=group, auto_offset_reset=reset, on_malformed=_say_skipped) as consumer,
        _stopped_by_sigterm(consumer),
    ):
        left, shown_up_to = most, False
        deadline = time.monotonic() + timeout
        while (left is None or left > 0) and not shown_up_to and not consumer.stopped:
            count = _POLL_MESSAGES if left is None else min(left, _POLL_MESSAGES)
            skipped = consumer.skipped_messages
            messages = consumer.poll(max_messages=count, timeout=_POLL_S)
            for message in messages:
                show(message)
            sys.stdout.flush()
            left = None if left is None else left - len(messages)
            if messages or consumer.skipped_messages > skipped:
                deadline = time.monotonic() + timeout
            if not messages and not follow and not consumer.stopped:
                shown_up_to = _at_the_end(consumer, timeout)
                if not shown_up_to and time.monotonic() > deadline:
                    raise TimedOut(f"group {group}: nothing was assigned or read in {timeout:g} s")


@contextlib.contextmanager
def _stopped_by_sigterm(consumer: Consumer) -> Iterator[None]:
    before = signal.signal(signal.SIGTERM, lambda *_: consumer.stop())
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _at_the_end(consumer: Consumer, timeout: float) -> bool:
    """Something is assigned, and all of it is read."""
    places = consumer.assignment(timeout=timeout)
    ends = consumer.end_offsets(timeout=timeout) if places else {}
    return bool(ends) and all(consumer.position(*tp, timeout=timeout) >= end for tp, end in ends.items())


def _no_bar() -> contextlib.AbstractContextManager[Bar]:
    """Messages on a terminal show the progress themselves."""
    return contextlib.nullcontext(Bar(None, None))


def _go_to(
    consumer: Consumer, topic: str, position: Position, places: Sequence[NamedPartition], timeout: float
) -> None:
    match position:
        case Beginning():
            return
        case End():
            consumer.seek(topic, to="end", timeout=timeout)
            for _, partition in places:
                consumer.position(topic, partition, timeout=timeout)
        case AtTime(timestamp_ms):
            consumer.seek(topic, timestamp_ms=timestamp_ms, timeout=timeout)
        case AtOffset(offset):
            if len(places) > 1:
                raise click.UsageError(
                    f"{topic} has {len(places)} partitions; an offset is a tp in one: add --partition."
                )
            consumer.seek(topic, offset=offset, timeout=timeout)


def _check_offset(offset: int, ends: dict[NamedPartition, int]) -> None:
    for (topic, partition), end in ends.items():
        if offset > end:
            raise OffsetOutOfRange(f"{topic}-{partition}: ends at offset {end}, and {offset} is beyond it")


def _follow(consumer: Consumer, show: Callable[[Message], None], most: int | None) -> None:
    left = most
    while left is None or left > 0:
        count = _POLL_MESSAGES if left is None else min(left, _POLL_MESSAGES)
        messages = consumer.poll(max_messages=count, timeout=_POLL_S)
        for message in messages:
            show(message)
        sys.stdout.flush()
        left = None if left is None else left - len(messages)


def _read_up_to(
    consumer: Consumer,
    ends: dict[NamedPartition, int],
    show: Callable[[Message], None],
    most: int | None,
    timeout: float,
    bar: Bar,
) -> None:
    """Show what lies below `ends`. Raises `TimedOut` when nothing comes although something must."""
    starts = {tp: consumer.position(*tp, timeout=timeout) for tp in sorted(ends)}
    total = sum(max(0, end - starts[tp]) for tp, end in ends.items())
    waiting = {tp: end for tp, end in ends.items() if starts[tp] < end}
    shown = 0
    last_news = time.monotonic()
    while waiting and (most is None or shown < most):
        skipped = consumer.skipped_messages
        messages = consumer.poll(max_messages=_POLL_MESSAGES, timeout=_POLL_S)
        for message in messages:
            if message.offset < ends[message.topic, message.partition] and (most is None or shown < most):
                show(message)
                shown += 1
        positions = {tp: consumer.position(*tp, timeout=timeout) for tp in waiting}
        if messages or consumer.skipped_messages > skipped:
            last_news = time.monotonic()
        elif time.monotonic() - last_news > timeout:
            (topic, partition), end = next(iter(waiting.items()))
            at = positions[topic, partition]
            raise TimedOut(
                f"{topic}-{partition}: no message in {timeout:g} s at {at}, though it ends at {end}"
            )
        waiting = {tp: end for tp, end in waiting.items() if positions[tp] < end}
        bar.to(shown / total, f"{shown:,} messages")


def _say_skipped(skipped: SkippedBatch) -> None:
    say(display.line(f"penstock: {skipped}"))


def _printer(form: str) -> Callable[[Message], None]:
    if current().json:
        return lambda message: print_json(_as_json(message, as_hex=form == "hex"))
    if form == "values":
        return _print_value
    shown: Callable[[bytes], str] = bytes.hex if form == "hex" else display.text
    if not sys.stdout.isatty():
        return lambda message: print_row(_as_row(message, shown))
    return lambda message: print(_as_line(message, shown))


def _print_value(message: Message) -> None:
    sys.stdout.buffer.write((message.value or b"") + b"\n")


def _as_line(message: Message, shown: Callable[[bytes], str]) -> str:
    line = f"{message.topic}-{message.partition} @ {message.offset}  {display.moment(message.timestamp_ms)}  "
    key = "" if message.key is None else f"[{shown(message.key)}] "
    value = "(no value)" if message.value is None else shown(message.value)
    headers = _headers(message, shown)
    return line + key + value + (f"  {{{headers}}}" if headers else "")


def _as_row(message: Message, shown: Callable[[bytes], str]) -> list[object]:
    """A missing value is shown as empty; JSON distinguishes the two."""
    return [
        message.partition,
        message.offset,
        display.moment(message.timestamp_ms),
        "" if message.key is None else shown(message.key),
        "" if message.value is None else shown(message.value),
        _headers(message, shown),
    ]


def _headers(message: Message, shown: Callable[[bytes], str]) -> str:
    return ", ".join(
        f"{display.text(name.encode())}={'' if content is None else shown(content)}"
        for name, content in message.headers
    )


def _as_json(message: Message, *, as_hex: bool) -> dict[str, Any]:
    return {
        "topic": message.topic,
        "partition": message.partition,
        "offset": message.offset,
        "timestamp_ms": message.timestamp_ms,
        "timestamp": display.moment(message.timestamp_ms),
        **display.json_field("key", message.key, as_hex=as_hex),
        **display.json_field("value", message.value, as_hex=as_hex),
        "headers": display.json_headers(message.headers, as_hex=as_hex),
    }
