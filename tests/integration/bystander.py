"""A producer and a consumer, open all the while, that must notice nothing of what befalls others."""

import json
import time
from typing import Self

from penstock import Consumer, Producer
from tests.integration.brokers import Brokers
from tests.waiting import PATIENCE_S

_TOPIC = "bystander"
_PARTITIONS = 3


class Bystander:
    """Its own tenant, topic and long-lived client. A context manager."""

    def __init__(self, cluster: Brokers) -> None:
        self._cluster = cluster
        self.tenant = cluster.tenant("tn_bystander")
        self.topic_id = cluster.create_topic(self.tenant, _TOPIC, _PARTITIONS)
        self._client = cluster.client(self.tenant)
        self._producer = self._client.producer(linger_ms=0)
        self._consumer = self._client.consumer([_TOPIC])
        self._sent: list[list[bytes]] = [[] for _ in range(_PARTITIONS)]
        self._read: list[list[bytes]] = [[] for _ in range(_PARTITIONS)]

    def __enter__(self) -> Self:
        self.check()
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def check(self, *, newcomer: bool = True) -> None:
        """Everything sent so far has been read once and in order, new messages pass, and a newcomer is served too."""
        self._send(self._producer)
        self._read_all(self._consumer, self._read)
        if newcomer:
            self._check_newcomer()

    def _check_newcomer(self) -> None:
        with self._cluster.client(self.tenant) as client, client.consumer([_TOPIC]) as consumer:
            self._send(client.producer(linger_ms=0))
            self._read_all(consumer, [[] for _ in range(_PARTITIONS)])

    def _send(self, producer: Producer[bytes, bytes]) -> None:
        deliveries = []
        for partition, values in enumerate(self._sent):
            values.append(b"%d-%d" % (partition, len(values)))
            deliveries.append(producer.send(_TOPIC, values[-1], partition=partition))
        for delivery in deliveries:
            delivery.result(PATIENCE_S)

    def _read_all(self, consumer: Consumer, read: list[list[bytes]]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while sum(map(len, read)) < sum(map(len, self._sent)) and time.monotonic() < deadline:
            for message in consumer.poll(timeout=1.0):
                read[message.partition].append(message.value or b"")
        assert read == self._sent, self._cluster.last_words()


class Unharmed:
    """Within the block no broker ends, restarts, or writes anything but lines of its log below `error`.

    `but` names what the log may say besides.
    """

    def __init__(self, cluster: Brokers) -> None:
        self._cluster = cluster

    def __enter__(self) -> Self:
        self._pids = self._cluster.pids()
        self._written = {number: len(self._cluster.output(number)) for number in self._cluster.ids}
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is not None:
            return
        assert self._cluster.pids() == self._pids, self._cluster.last_words()
        for number in self._cluster.ids:
            for line in self._cluster.output(number)[self._written[number] :].splitlines():
                assert json.loads(line)["level"] in ("info", "warning"), f"broker {number} wrote: {line}"
