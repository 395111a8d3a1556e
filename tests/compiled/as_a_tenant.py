"""What an installed SDK makes of given batches, of mistakes and of messages to a broker, as one JSON object.

`test_compiled_wheel.py` runs this file in environments that hold a wheel and no test. Arguments: a folder of frozen
batches, and the address of a broker with an empty topic `orders`, whose key is in PENSTOCK_API_KEY.
"""

import json
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from penstock import Client, Producer
from penstock.build import CORES
from penstock.records.batch import Compression, check_batch, placed, split_batches
from penstock.records.build import BatchBuilder
from penstock.records.malformed import what_is_malformed
from penstock.records.parse import records_of
from penstock.rules.partitioner import partition_of
from penstock.rules.timestamps import read_moment

PATIENCE_S = 600
"""Against hanging alone."""
CODECS = [codec.name.lower() for codec in Compression]


def built(frozen: bytes) -> Iterator[tuple[str, str]]:
    """By codec, a batch of the frozen one's messages at its place."""
    header, messages = check_batch(frozen), records_of(frozen)
    for codec in Compression:
        builder = BatchBuilder(codec)
        for message in messages:
            builder.append(message.timestamp_ms, message.key, message.value, message.headers)
        made = builder.build(header.base_sequence, header.producer_id, header.producer_epoch)
        stored = placed(made, header.base_offset, header.leader_epoch)
        yield codec.name.lower(), b"".join(stored).hex()


def said(call: Callable[[], object]) -> str:
    """The error of a call, as its user reads it."""
    try:
        return f"no error: {type(call()).__name__}"
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def mistakes_with_bytes(frozen: bytes) -> Iterator[str]:
    """Of batches, times, keys and settings that cannot be."""
    for damaged in (b"", frozen[:40], frozen[:-1], frozen[:-1] + b"\1", frozen[:16] + b"\1" + frozen[17:]):
        yield said(partial(check_batch, damaged))
        yield said(partial(records_of, damaged))
        yield said(partial(what_is_malformed, damaged))
        yield said(partial(split_batches, damaged))
    builder = BatchBuilder()
    yield said(lambda: builder.append(-1, None, b""))
    yield said(lambda: builder.append(0, None, "text"))  # type: ignore[arg-type]
    yield said(lambda: partition_of(b"anna", 0))
    yield said(lambda: read_moment("yesterday"))


def mistakes_with_settings() -> Iterator[str]:
    """Of addresses, keys and arguments that cannot be."""
    key = "not a key"
    connections: list[dict[str, Any]] = [
        {"bootstrap": "nowhere", "api_key": key},
        {"bootstrap": 7, "api_key": key},
        {"bootstrap": ["127.0.0.1:1", None], "api_key": key},
        {"bootstrap": "127.0.0.1:1", "api_key": key},
        {"bootstrap": "127.0.0.1:1", "api_key": 7},
        {"bootstrap": "127.0.0.1:1", "api_key": b"bytes"},
        {"bootstrap": "192.0.2.1:1", "api_key": key},
        {"bootstrap": "127.0.0.1:1", "api_key": key, "ca_file": "/nowhere"},
        {"bootstrap": "127.0.0.1:1", "api_key": key, "api_url": 7},
    ]
    for connection in connections:
        yield said(partial(Client, **connection))


PRODUCERS: list[dict[str, Any]] = [
    {"acks": 7},
    {"acks": None},
    {"compression": "rar"},
    {"compression": 7},
    {"linger_ms": -1},
    {"linger_ms": "5"},
    {"batch_bytes": 0},
    {"batch_bytes": "many"},
    {"batch_bytes": 1.5},
    {"batch_messages": None},
    {"idempotent": "yes"},
    {"delivery_timeout_ms": 0},
    {"buffer_bytes": 1},
    {"buffer_bytes": 2.5},
    {"on_full": "wait"},
    {"max_attempts": 0},
    {"max_attempts": "1"},
    {"retry_backoff_ms": 2_000},
    {"partitioner": "random"},
]
CONSUMERS: list[dict[str, Any]] = [
    {"topics": 7},
    {"topics": ["orders", 7]},
    {"topics": [], "group": "g"},
    {"topics": "orders", "group": 7},
    {"topics": "orders", "group": ""},
    {"topics": "orders", "auto_commit": True},
    {"topics": "orders", "auto_offset_reset": "never"},
    {"topics": "orders", "fetch_bytes": 0},
    {"topics": "orders", "fetch_bytes": "many"},
    {"topics": "orders", "malformed": "ignore"},
]
MESSAGES: list[dict[str, Any]] = [
    {"topic": 7, "value": b""},
    {"topic": "", "value": b""},
    {"topic": "nothing", "value": b""},
    {"topic": "orders", "value": "text"},
    {"topic": "orders", "value": 7},
    {"topic": "orders", "value": b"", "key": "anna"},
    {"topic": "orders", "value": b"", "key": 7},
    {"topic": "orders", "value": b"", "headers": "trace"},
    {"topic": "orders", "value": b"", "headers": {7: b""}},
    {"topic": "orders", "value": b"", "headers": {"trace": 7}},
    {"topic": "orders", "value": b"", "timestamp_ms": -1},
    {"topic": "orders", "value": b"", "timestamp_ms": "now"},
    {"topic": "orders", "value": b"", "timestamp_ms": 1.5},
    {"topic": "orders", "value": b"", "timestamp_ms": 2**70},
    {"topic": "orders", "value": b"", "partition": 9},
    {"topic": "orders", "value": b"", "partition": "0"},
    {"topic": "orders", "value": b"", "partition": 2**70},
    {"topic": "orders", "value": bytes(2**21)},
]


def sent(producer: "Producer[Any, Any]", **message: Any) -> object:
    """What became of one message."""
    return producer.send(**message).result(timeout=PATIENCE_S)


def mistakes_with_calls(client: Client, producer: "Producer[Any, Any]") -> Iterator[str]:
    """Of the arguments of what a program calls most."""
    for arguments in PRODUCERS:
        yield said(partial(client.producer, **arguments))
    for arguments in CONSUMERS:
        yield said(partial(client.consumer, **arguments))
    for arguments in MESSAGES:
        yield said(partial(sent, producer, **arguments))
    yield said(lambda: producer.send_many("orders", "text"))
    yield said(lambda: producer.send_many("orders", [b"", "text"]))
    yield said(lambda: producer.send_many("orders", [b""], keys=[]))


def session(bootstrap: str) -> tuple[list[Any], list[str]]:
    """What is read of messages that went there by each codec, and what is said of mistakes on the way."""
    with Client(bootstrap) as client:
        for codec in CODECS:
            with client.producer(compression=codec) as producer:
                for number in range(3):
                    producer.send("orders", b"%d" % number, b"anna", {"codec": codec.encode()}, partition=0)
        with client.producer() as producer:
            mistakes = list(mistakes_with_calls(client, producer))
        read: list[Any] = []
        with client.consumer("orders") as consumer:
            while len(read) < 3 * len(CODECS):
                read += [
                    [message.offset, str(message.value), str(message.headers)]
                    for message in consumer.poll(timeout=PATIENCE_S)
                    if message.key is not None
                ]
    return read, mistakes


def main() -> None:
    frozen = {codec: (Path(sys.argv[1]) / f"batch-{codec}.bin").read_bytes() for codec in CODECS}
    plain = frozen["none"]
    messages, mistakes = session(sys.argv[2])
    report = {
        "cores": CORES,
        "batches": dict(built(plain)),
        "frozen batches": [str(records_of(batch)) for batch in frozen.values()],
        "messages": messages,
        "mistakes": [*mistakes_with_bytes(plain), *mistakes_with_settings(), *mistakes],
    }
    print(json.dumps(report))


if __name__ == "__main__":
    main()
