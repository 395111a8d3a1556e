"""Reads a topic by a bootstrap name, in a mount namespace whose `/etc/hosts` is the caller's.

`python reading_by_name.py HOSTS BOOTSTRAP CA_FILE COUNT`, under `unshare --mount`; the key is in the environment.
Prints how many addresses the last name has, how many messages were read, and what the SDK logged.
"""

import json
import logging
import socket
import subprocess
import sys

from penstock import Client


class Lines(logging.Handler):
    """What was logged."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


def main(hosts: str, bootstrap: str, ca_file: str, count: str) -> None:
    subprocess.run(["mount", "--bind", hosts, "/etc/hosts"], check=True)
    lines = Lines()
    logging.getLogger("penstock").addHandler(lines)
    name, _, port = bootstrap.split(",")[-1].rpartition(":")
    found = socket.getaddrinfo(name, int(port), type=socket.SOCK_STREAM)
    read = 0
    with Client(bootstrap=bootstrap, ca_file=ca_file) as client, client.consumer(["orders"]) as consumer:
        while read < int(count):
            read += len(consumer.poll(timeout=60))
    print(json.dumps({"addresses": len({one[4][0] for one in found}), "read": read, "log": lines.lines}))


if __name__ == "__main__":
    main(*sys.argv[1:])
