"""A program that produces with receipts until it is killed:
`python -m tests.integration.sdk.keeping_receipts SURFACE BOOTSTRAP KEY TOPIC PATH`.

Prints a line a message once its outcome is known: partition, offset and when it was told (ms of CLOCK_MONOTONIC).
"""

import asyncio
import os
import sys
import time

import penstock
import penstock.asyncio
from penstock import Receipt
from tests.waiting import PATIENCE_S

MESSAGES_A_ROUND = 20


def _tell(receipts: list[Receipt]) -> None:
    now = time.monotonic() * 1000
    lines = "".join(f"{receipt.partition} {receipt.offset} {now:.3f}\n" for receipt in receipts)
    os.write(1, lines.encode())


def blocking(bootstrap: str, key: str, topic: str, path: str) -> None:
    with penstock.Client(bootstrap=bootstrap, api_key=key) as client:
        producer = client.producer(receipts=path, linger_ms=1)
        while True:
            deliveries = [
                producer.send(topic, os.urandom(9) * (1 + number), partition=number % 2)
                for number in range(MESSAGES_A_ROUND)
            ]
            _tell([delivery.result(PATIENCE_S) for delivery in deliveries])


async def awaited(bootstrap: str, key: str, topic: str, path: str) -> None:
    async with penstock.asyncio.Client(bootstrap=bootstrap, api_key=key) as client:
        producer = client.producer(receipts=path, linger_ms=1)
        while True:
            deliveries = [
                await producer.send(topic, os.urandom(9) * (1 + number), partition=number % 2)
                for number in range(MESSAGES_A_ROUND)
            ]
            _tell([await asyncio.wait_for(delivery, PATIENCE_S) for delivery in deliveries])


if __name__ == "__main__":
    if sys.argv[1] == "blocking":
        blocking(*sys.argv[2:])
    else:
        asyncio.run(awaited(*sys.argv[2:]))
