"""A group member as a process of its own, which can be killed: tells on its output what it is given and reads.

Usage: python -m tests.integration.groups.member ADDRESSES KEY TOPIC GROUP SESSION_MS. Ends with SIGTERM.
"""

import json
import signal
import sys

from penstock import Client


def tell(**what: object) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def main(addresses: str, key: str, topic: str, group: str, session_timeout_ms: str) -> None:
    with (
        Client(bootstrap=addresses, api_key=key) as client,
        client.consumer(
            topic,
            group=group,
            auto_commit_interval_ms=100,
            session_timeout_ms=int(session_timeout_ms),
            on_assigned=lambda places: tell(event="assigned", partitions=[p for _, p in places]),
            on_revoked=lambda places: tell(event="revoked", partitions=[p for _, p in places]),
        ) as consumer,
    ):
        signal.signal(signal.SIGTERM, lambda *_: consumer.stop())
        tell(event="ready", partitions=[])
        while not consumer.stopped:
            read: dict[int, list[int]] = {}
            for message in consumer.poll(timeout=None):
                read.setdefault(message.partition, []).append(message.offset)
            if read:
                tell(event="read", offsets=read)


if __name__ == "__main__":
    main(*sys.argv[1:])
