"""A program that runs on the SDK of either release: idempotent producers and a member of a group, until its standard
input ends; then it waits for all outcomes, reads on until it has read what was acknowledged, and prints what it saw.

Usage: python traffic.py '{"topic", "group", "producers", and what `Client` takes}'

    -> a line "flowing" after the first message was read
    -> at the end {"version", "acknowledged": [[producer, number, partition, offset]], "read": [[partition, offset]],
       "errors": [text]}
"""

import json
import sys
import threading
from typing import Any

import penstock
from penstock import Client, PenstockError

PAUSE_S = 0.25
AT_ONCE = 4


class Traffic:
    """What one client sends and reads."""

    def __init__(self, client: Client, topic: str, group: str) -> None:
        self.client = client
        self.topic = topic
        self.group = group
        self.ending = threading.Event()
        self.acknowledged: list[tuple[int, int, int, int]] = []
        self.read: list[tuple[int, int]] = []
        self.errors: list[str] = []
        self.sent_all = threading.Event()

    def produce(self, producer_number: int) -> None:
        """Numbers in order, by key: those of one key stay in one partition."""
        deliveries: list[tuple[int, Any]] = []
        try:
            with self.client.producer(linger_ms=1) as producer:
                number = 0
                while not self.ending.wait(PAUSE_S):
                    for _ in range(AT_ONCE):
                        value = b"%d %d" % (producer_number, number)
                        deliveries.append(
                            (number, producer.send(self.topic, value, key=b"%d" % (number % 7)))
                        )
                        number += 1
                for number, delivery in deliveries:
                    try:
                        receipt = delivery.result(None)
                    except PenstockError as error:
                        self.errors.append(f"message {number}: {error!r}")
                    else:
                        place = receipt.partition, receipt.offset
                        self.acknowledged.append((producer_number, number, *place))
        except Exception as error:
            self.errors.append(f"producer {producer_number}: {error!r}")

    def consume(self) -> None:
        """Until everything that was acknowledged is read."""
        try:
            with self.client.consumer(
                [self.topic], group=self.group, auto_offset_reset="earliest"
            ) as consumer:
                flowing = False
                while not (self.sent_all.is_set() and self.has_read_all()):
                    messages = consumer.poll(timeout=0.5)
                    self.read += [(message.partition, message.offset) for message in messages]
                    if messages and not flowing:
                        flowing = True
                        print("flowing", flush=True)
        except Exception as error:
            self.errors.append(f"consumer: {error!r}")

    def has_read_all(self) -> bool:
        read = set(self.read)
        return all((partition, offset) in read for _, _, partition, offset in self.acknowledged)


def main(topic: str, group: str, producers: int, **connection: Any) -> None:
    """Runs until standard input ends."""
    with Client(**connection) as client:
        traffic = Traffic(client, topic, group)
        sending = [threading.Thread(target=traffic.produce, args=(number,)) for number in range(producers)]
        reading = threading.Thread(target=traffic.consume)
        for thread in (*sending, reading):
            thread.start()
        sys.stdin.read()
        traffic.ending.set()
        for thread in sending:
            thread.join()
        traffic.sent_all.set()
        reading.join()
    report = {
        "version": penstock.__version__,
        "acknowledged": traffic.acknowledged,
        "read": traffic.read,
        "errors": traffic.errors,
    }
    print(json.dumps(report), flush=True)


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
