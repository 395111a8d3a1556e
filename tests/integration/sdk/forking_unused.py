"""A program that makes clients at its import and forks before it uses them, as gunicorn and celery do:
`python -m tests.integration.sdk.forking_unused BOOTSTRAP`.

Prints what each process got, children first.
"""

import asyncio
import os
import sys

import penstock
import penstock.asyncio
from tests.waiting import PATIENCE_S

CHILDREN = 2


def main(bootstrap: str) -> None:
    client = penstock.Client(bootstrap=bootstrap, api_key="key")
    producer, consumer = client.producer(), client.consumer("orders")
    awaited = penstock.asyncio.Client(bootstrap=bootstrap, api_key="key")

    async def send() -> int:
        async with awaited:
            return (await (await awaited.producer().send("orders", b"awaited", partition=0))).offset

    def use(name: str) -> None:
        sent = producer.send("orders", name.encode(), partition=0).result(PATIENCE_S).offset
        read = consumer.poll(timeout=PATIENCE_S)[0].offset
        print(name, sent, read, asyncio.run(send()), flush=True)

    for number in range(CHILDREN):
        child = os.fork()
        if child == 0:
            use(f"child {number}")
            sys.exit()
        print("exit", os.waitpid(child, 0)[1], flush=True)
    use("parent")
    if os.fork() == 0:
        try:
            producer.send("orders", b"too late")
        except penstock.UsedAfterFork as error:
            print(error, flush=True)
        sys.exit()
    os.wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
