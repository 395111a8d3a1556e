"""A bootstrap name with several addresses of which some are dead, and a list of which half is wrong: both work."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from local import guardian
from tests.integration.brokers import Brokers, Tenant, brokers
from tests.integration.operations.certificates import make_certificate
from tests.waiting import PATIENCE_S

pytestmark = [pytest.mark.processes, pytest.mark.slow]

READER = Path(__file__).with_name("reading_by_name.py")
NAME = "brokers.test"
REFUSING, HANGING = "127.0.0.9", "127.0.0.8"
MESSAGES = 100


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    certificate = make_certificate(
        tmp_path_factory.mktemp("certificate"), "broker", names=(NAME, "other.test")
    )
    with brokers(tmp_path_factory.mktemp("cluster"), settings=certificate.settings) as running:
        yield running


@pytest.fixture(scope="module")
def tenant(cluster: Brokers) -> Tenant:
    tenant = cluster.tenant("tn_names")
    cluster.create_topic(tenant, "orders")
    with cluster.client(tenant) as client, client.producer() as producer:
        for number in range(MESSAGES):
            producer.send("orders", b"%d" % number)
        producer.flush()
    return tenant


@contextmanager
def never_accepting(port: int) -> Iterator[None]:
    """A listener whose queue is full: a connection to it is neither made nor refused."""
    with socket.socket() as listener:
        listener.bind((HANGING, port))
        listener.listen(0)
        waiting = [socket.socket() for _ in range(4)]
        try:
            for one in waiting:
                one.setblocking(False)
                one.connect_ex((HANGING, port))
            yield
        finally:
            for one in waiting:
                one.close()


def read_by(cluster: Brokers, tenant: Tenant, hosts: Path, bootstrap: list[str]) -> dict[str, Any]:
    """What the reader says, in a namespace with those hosts."""
    certificate = str(cluster.settings["tls_certificate_file"])
    command = [sys.executable, str(READER), str(hosts), ",".join(bootstrap), certificate, str(MESSAGES)]
    ended = subprocess.run(
        ["unshare", "--mount", *command],
        env={**os.environ, "PENSTOCK_API_KEY": tenant.api_key, **guardian.mark()},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert ended.returncode == 0, ended.stderr
    found: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    return found


def test_a_name_works_of_whose_addresses_one_refuses_and_one_never_answers(
    cluster: Brokers, tenant: Tenant, tmp_path: Path
) -> None:
    port = cluster.spec.brokers[0].client_port
    hosts = tmp_path / "hosts"
    hosts.write_text("".join(f"{address} {NAME}\n" for address in (REFUSING, HANGING, "127.0.0.1")))
    with never_accepting(port):
        found = read_by(cluster, tenant, hosts, [f"{NAME}:{port}"])
    assert found == {"addresses": 3, "read": MESSAGES, "log": []}


@pytest.mark.parametrize("wrong", ["nowhere.test", NAME], ids=["has no address", "has a dead address"])
def test_of_a_list_of_which_half_is_wrong_the_rest_works_and_one_line_names_the_wrong_one(
    cluster: Brokers, tenant: Tenant, tmp_path: Path, wrong: str
) -> None:
    port = cluster.spec.brokers[0].client_port
    hosts = tmp_path / "hosts"
    hosts.write_text(f"{REFUSING} {NAME}\n127.0.0.1 other.test\n")
    logs = []
    for _ in range(20):
        found = read_by(cluster, tenant, hosts, [f"{wrong}:{port}", f"other.test:{port}"])
        assert found["read"] == MESSAGES
        logs.append(found["log"])
        if found["log"]:
            break
    assert len(logs[-1]) == 1, "an address is chosen by chance: a wrong one is met first in half of the tries"
    assert f"{wrong}:{port}" in logs[-1][0]
