"""A program that forks with a client in use: `python -m tests.integration.sdk.forking BOOTSTRAP KEY`.

Prints what the child was told, then what the parent's own messages became.
"""

import os
import sys
from collections.abc import Callable

from penstock import Client, Consumer, PenstockError
from tests.waiting import PATIENCE_S


def main(bootstrap: str, key: str) -> None:
    client = Client(bootstrap=bootstrap, api_key=key)
    producer = client.producer(linger_ms=60_000)
    consumer = client.consumer("orders")
    producer.send("orders", b"parent", partition=0)
    producer.flush(PATIENCE_S)
    consumer.poll(timeout=PATIENCE_S)
    pending = producer.send("orders", b"pending", partition=0)
    uses: list[Callable[[], object]] = [
        lambda: producer.send("orders", b"child"),
        lambda: producer.flush(1),
        lambda: _stopped(consumer).poll(timeout=1),
        client.topics,
        client.producer,
        lambda: pending.result(1),
        lambda: Client(bootstrap=bootstrap, api_key=key).topics(),
    ]
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        said = [_said(use) for use in uses]
        client.close()
        os.write(writing, ",".join(said).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        print("child:", pipe.read(), flush=True)
    print("exit:", os.waitpid(child, 0)[1], flush=True)
    producer.flush(PATIENCE_S)
    print("parent:", pending.result(0).offset, flush=True)
    client.close()


def _stopped(consumer: Consumer) -> Consumer:
    consumer.stop()  # which needs no lock that stayed with a thread of the parent
    return consumer


def _said(use: Callable[[], object]) -> str:
    try:
        use()
    except PenstockError as error:
        return type(error).__name__
    return "nothing"


if __name__ == "__main__":
    main(*sys.argv[1:])
