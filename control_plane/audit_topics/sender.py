"""The process that produces audit logs into topics, with the SDK: a child of the worker, which asks it over a pipe.

The worker itself forks, and grpc does not survive that. This process has neither Django nor the database: it gets the
brokers' addresses, a key and messages, and says whether the topic has them. It ends when its standard input does.

A line of JSON on standard input:  {"id", "bootstrap", "api_key", "ca_file", "topic", "within_s", "messages": [...]}
                  a message:       {"key", "value", "headers": {name: text}}
A line on standard output:         {"id", "error": ""}; or why nothing is known to be in the topic
"""

import json
import logging
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TextIO

from penstock import Client
from penstock.contract.errors import PenstockError
from penstock.contract.limits import BATCH_BYTES_MAX_DEFAULT

AT_ONCE = 16
"""As many as the worker has couriers, of which each tenant has one: a slow tenant keeps no other one waiting here."""
_CLOSE_S = 2.0
_LINGER_MS = 10_000
"""Longer than it takes to put a page into a batch; `flush` sends it at once."""


def produced(asked: dict[str, Any]) -> str:
    """Put the messages into the topic as one batch, which it has whole or not at all; why not, empty: it has."""
    within_s = float(asked["within_s"])
    client = Client(bootstrap=asked["bootstrap"], api_key=asked["api_key"], ca_file=asked["ca_file"])
    try:
        producer = client.producer(
            acks="all",
            linger_ms=_LINGER_MS,
            batch_bytes=BATCH_BYTES_MAX_DEFAULT,
            delivery_timeout_ms=within_s * 1000,
            max_block_ms=within_s * 500,
        )
        sent = [
            producer.send(
                asked["topic"],
                message["value"].encode(),
                key=message["key"].encode(),
                headers={name: text.encode() for name, text in message["headers"].items()},
                partition=0,
            )
            for message in asked["messages"]
        ]
        producer.flush(within_s / 2)
        for delivery in sent:
            delivery.result(0)
    except PenstockError as error:
        return f"{type(error).__name__}: {error.message}"
    finally:
        client.close(_CLOSE_S)
    return ""


def serve(asked: TextIO, answers: TextIO) -> None:
    """Answer each line, several at a time, until there are no more."""
    writing = threading.Lock()

    def answer(line: str) -> None:
        request = json.loads(line)
        try:
            error = produced(request)
        except Exception as fault:
            logging.getLogger(__name__).exception("an audit log was not produced")
            error = f"{type(fault).__name__}: {fault}"
        with writing:
            answers.write(json.dumps({"id": request["id"], "error": error}) + "\n")
            answers.flush()

    with ThreadPoolExecutor(AT_ONCE) as threads:
        for line in asked:
            threads.submit(answer, line)


if __name__ == "__main__":
    try:
        serve(sys.stdin, sys.stdout)
    except (KeyboardInterrupt, BrokenPipeError):
        pass  # the worker's end
