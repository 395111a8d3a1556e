"""Five users as greenlets, as Locust runs them: `python -m gevent.monkey under_gevent.py BOOTSTRAP KEY`.

Prints how many messages were sent and read, and how often another greenlet ran meanwhile.
"""

import sys

import gevent

from penstock import Client
from tests.waiting import PATIENCE_S

MESSAGES = 200
USERS = 5
_turns = 0


def _bystander() -> None:
    global _turns
    while True:
        gevent.sleep(0.001)
        _turns += 1


def _user(client: Client, number: int) -> tuple[int, int]:
    with client.producer(linger_ms=1) as producer:
        deliveries = [producer.send("orders", b"%d:%d" % (number, message)) for message in range(MESSAGES)]
        sent = sum(delivery.result(PATIENCE_S).offset >= 0 for delivery in deliveries)
    read = 0
    with client.consumer("orders") as consumer:
        while read < MESSAGES:
            found = consumer.poll(timeout=PATIENCE_S)
            if not found:
                break
            read += sum((message.value or b"").startswith(b"%d:" % number) for message in found)
    return sent, read


def main(bootstrap: str, key: str) -> None:
    gevent.spawn(_bystander)
    with Client(bootstrap=bootstrap, api_key=key) as client:
        users = [gevent.spawn(_user, client, number) for number in range(USERS)]
        gevent.joinall(users, timeout=PATIENCE_S)
        print("sent", sum(user.value[0] for user in users), "read", sum(user.value[1] for user in users))
    print("others ran" if _turns > 10 else f"others ran only {_turns} times")


if __name__ == "__main__":
    main(*sys.argv[1:])
