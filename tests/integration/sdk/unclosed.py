"""Programs that end without closing their client: `python -m tests.integration.sdk.unclosed ENDING BOOTSTRAP RECEIPTS`.

Each sends 10 messages that linger for a minute, keeps receipts, and is over.
"""

import asyncio
import atexit
import gc
import multiprocessing
import os
import sys
import threading
from collections.abc import Callable

import penstock
import penstock.asyncio

COUNT = 10
LINGER_MS = 60_000


def send(bootstrap: str, delivery_timeout_ms: float = 20_000) -> penstock.Client:
    client = penstock.Client(bootstrap=bootstrap, api_key="key")
    producer = client.producer(
        linger_ms=LINGER_MS, delivery_timeout_ms=delivery_timeout_ms, receipts=sys.argv[3]
    )
    for number in range(COUNT):
        producer.send("orders", b"%d" % number, partition=0)
    return client


def at_the_end(bootstrap: str) -> None:
    globals()["kept"] = send(bootstrap)


def let_go(bootstrap: str) -> None:
    send(bootstrap)
    gc.collect()


def in_a_thread_that_outlives_the_main_one(bootstrap: str) -> None:
    def run() -> None:
        threading.main_thread().join()
        globals()["kept"] = send(bootstrap)

    threading.Thread(target=run).start()


def in_a_function_called_at_exit(bootstrap: str) -> None:
    atexit.register(at_the_end, bootstrap)


def beside_a_forked_child(bootstrap: str) -> None:
    at_the_end(bootstrap)
    child = os.fork()
    if child == 0:
        sys.exit()
    os.waitpid(child, 0)


def in_a_child_of_multiprocessing(bootstrap: str) -> None:
    child = multiprocessing.get_context("fork").Process(target=at_the_end, args=(bootstrap,))
    child.start()
    child.join()


def by_an_exception(bootstrap: str) -> None:
    at_the_end(bootstrap)
    raise SystemExit("the program failed")


def by_an_interrupt(bootstrap: str) -> None:
    at_the_end(bootstrap)
    raise KeyboardInterrupt


def refused(bootstrap: str) -> None:
    """The brokers refuse everything for now."""
    globals()["kept"] = send(bootstrap, delivery_timeout_ms=3_000)


async def _awaited(bootstrap: str, delivery_timeout_ms: float = 20_000) -> None:
    client = penstock.asyncio.Client(bootstrap=bootstrap, api_key="key")
    producer = client.producer(
        linger_ms=LINGER_MS, delivery_timeout_ms=delivery_timeout_ms, receipts=sys.argv[3]
    )
    for number in range(COUNT):
        await producer.send("orders", b"%d" % number, partition=0)


def asyncio_run(bootstrap: str) -> None:
    asyncio.run(_awaited(bootstrap))


def asyncio_run_refused(bootstrap: str) -> None:
    asyncio.run(_awaited(bootstrap, delivery_timeout_ms=3_000))


def asyncio_in_a_daemon_thread(bootstrap: str) -> None:
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, daemon=True).start()
    asyncio.run_coroutine_threadsafe(_awaited(bootstrap), loop).result()


def asyncio_loop_that_stopped(bootstrap: str) -> None:
    loop = asyncio.new_event_loop()
    globals()["kept"] = loop
    loop.run_until_complete(_awaited(bootstrap))


ENDINGS: dict[str, Callable[[str], None]] = {
    ending.__name__: ending
    for ending in (
        at_the_end,
        let_go,
        in_a_thread_that_outlives_the_main_one,
        in_a_function_called_at_exit,
        beside_a_forked_child,
        in_a_child_of_multiprocessing,
        by_an_exception,
        by_an_interrupt,
        refused,
        asyncio_run,
        asyncio_run_refused,
        asyncio_in_a_daemon_thread,
        asyncio_loop_that_stopped,
    )
}

if __name__ == "__main__":
    ENDINGS[sys.argv[1]](sys.argv[2])
