"""What attackers without a key do to a listener: connections that say nothing, too little, or something else.

The same table is held against every listener of the service, each with few places.
"""

import contextlib
import socket
import threading
from collections.abc import Iterator, Sequence

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))
"""Of HTTP/2, with an empty frame of settings: gRPC takes it for a client that has not called yet."""
TLS_HELLO = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500)
"""Begins like one, and never ends."""
SAYINGS = {
    "nothing": b"",
    "half a request line": b"GET /healt",
    "a byte now and then": b"",
    "the preface of HTTP/2 alone": PREFACE,
    "a TLS hello alone": TLS_HELLO,
}
DRIPPING = "a byte now and then"
HOSTS = {
    "one address": ("127.0.2.1",),
    "nine addresses": tuple(f"127.0.2.{number}" for number in range(1, 10)),
}
_DRIP_S = 0.05
REOPENED_AT_ONCE = 5
"""A hundred in a second: as many as a listener of these tests has places."""


@contextlib.contextmanager
def attack(address: tuple[str, int], saying: str, hosts: Sequence[str], connections: int) -> Iterator[None]:
    """So many connections, which are held until the block ends; one that is closed is opened again."""
    ended = threading.Event()

    def hold(number: int) -> socket.socket | None:
        attacker = socket.socket()
        try:
            attacker.bind((hosts[number % len(hosts)], 0))
            attacker.settimeout(5.0)
            attacker.connect(address)
            attacker.sendall(SAYINGS[saying])
            attacker.setblocking(False)
        except OSError:
            attacker.close()
            return None
        return attacker

    held = [hold(number) for number in range(connections)]

    def go_on() -> None:
        while not ended.wait(_DRIP_S):
            again = REOPENED_AT_ONCE
            for number, attacker in enumerate(held):
                if attacker is None or _is_over(attacker):
                    if not again:
                        continue
                    again -= 1
                    if attacker is not None:
                        attacker.close()
                    held[number] = hold(number)
                elif saying == DRIPPING:
                    with contextlib.suppress(OSError):
                        attacker.send(b"G")

    going_on = threading.Thread(target=go_on, name="attack")
    going_on.start()
    try:
        yield
    finally:
        ended.set()
        going_on.join()
        for attacker in held:
            if attacker is not None:
                attacker.close()


def _is_over(attacker: socket.socket) -> bool:
    try:
        return not attacker.recv(65_536)
    except BlockingIOError:
        return False
    except OSError:
        return True
