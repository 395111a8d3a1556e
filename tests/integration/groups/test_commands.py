"""`penstock group` and `penstock consume --group` on real brokers."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.brokers import Brokers, Tenant
from tests.waiting import PATIENCE_S

pytestmark = [pytest.mark.processes, pytest.mark.slow]


class Shell:
    def __init__(self, cluster: Brokers, tenant: Tenant, home: Path) -> None:
        self._environment = {
            **os.environ,
            "PENSTOCK_BOOTSTRAP": ",".join(cluster.bootstrap),
            "PENSTOCK_API_KEY": tenant.api_key,
            "HOME": str(home),
            "XDG_CONFIG_HOME": str(home),
        }

    def __call__(self, *arguments: str, code: int = 0) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "penstock.cli", *arguments],
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout if code == 0 else done.stderr


def test_a_group_is_read_looked_at_reset_and_forgotten(cluster: Brokers, tmp_path: Path) -> None:
    tenant = cluster.tenant("shell")
    cluster.create_topic(tenant, "orders", 2)
    penstock = Shell(cluster, tenant, tmp_path)
    with cluster.client(tenant) as client, client.producer() as producer:
        for number in range(10):
            producer.send("orders", b"%d" % number, partition=number % 2)
        producer.flush(PATIENCE_S)

    first = penstock("consume", "orders", "--group", "readers", "--max", "4", "--display", "values")
    rest = penstock("consume", "orders", "--group", "readers", "--display", "values")
    assert sorted((first + rest).split(), key=int) == [str(number) for number in range(10)]
    assert len(first.split()) == 4
    assert penstock("consume", "orders", "--group", "readers", "--display", "values") == ""

    listed = json.loads(penstock("group", "list", "--json"))["groups"]
    assert [(group["group"], group["state"], group["members"]) for group in listed] == [
        ("readers", "empty", 0)
    ]
    with cluster.client(tenant) as client, client.producer() as producer:
        producer.send("orders", b"late", partition=0).result(PATIENCE_S)
    described = json.loads(penstock("group", "describe", "readers", "--json"))
    assert described["lag"] == 1
    assert [(p["partition"], p["committed"], p["end"], p["lag"]) for p in described["partitions"]] == [
        (0, 5, 6, 1),
        (1, 5, 5, 0),
    ]
    plain = [line.split("\t") for line in penstock("group", "describe", "readers").splitlines()]
    assert (plain[0][:3], plain[0][-1]) == (["group", "readers", "empty"], "1")
    assert plain[1:] == [
        ["partition", "orders", "0", "5", "6", "1", "-"],
        ["partition", "orders", "1", "5", "5", "0", "-"],
    ]

    preview = json.loads(penstock("group", "reset", "readers", "--to", "earliest", "--dry-run", "--json"))
    assert preview["applied"] is False
    assert [(row["committed"], row["new"], row["change"]) for row in preview["partitions"]] == [
        (5, 0, -5),
        (5, 0, -5),
    ]
    one = ("--topic", "orders", "--partition", "1")
    penstock("group", "reset", "readers", "--to", "2", *one, "--yes")
    penstock("group", "reset", "readers", "--to", "latest", "--topic", "orders", "--partition", "0", "--yes")
    again = penstock("consume", "orders", "--group", "readers", "--display", "values")
    assert again.split() == ["5", "7", "9"]
    penstock("group", "reset", "readers", "--to", "-1h", "--yes")
    assert json.loads(penstock("group", "describe", "readers", "--json"))["lag"] == 11

    assert "holds 0 to 6, and 99 is not in it" in penstock(
        "group", "reset", "readers", "--to", "99", "--yes", code=5
    )
    assert "--yes or --dry-run" in penstock("group", "reset", "readers", "--to", "latest", "--json", code=2)
    penstock("group", "delete", "readers", "--yes")
    assert "GROUP_NOT_FOUND" in penstock("group", "describe", "readers", code=3)


def test_a_group_with_members_is_described_and_not_reset(cluster: Brokers, tmp_path: Path) -> None:
    tenant = cluster.tenant("busy-shell")
    cluster.create_topic(tenant, "orders", 2)
    penstock = Shell(cluster, tenant, tmp_path)
    with cluster.client(tenant) as client, client.producer() as producer:
        producer.send("orders", b"one", partition=0).result(PATIENCE_S)
        with client.consumer("orders", group="readers", instance_id="desk") as consumer:
            assert consumer.poll(timeout=PATIENCE_S)
            consumer.commit()
            described = json.loads(penstock("group", "describe", "readers", "--json"))
            assert (described["state"], len(described["members"])) == ("stable", 1)
            (member,) = described["members"]
            assert (member["instance"], member["partitions"]) == ("desk", ["orders-0", "orders-1"])
            assert {p["member"] for p in described["partitions"]} == {member["member"]}
            assert "GROUP_NOT_EMPTY" in penstock(
                "group", "reset", "readers", "--to", "earliest", "--yes", code=5
            )
            assert "--group assigns the partitions" in penstock(
                "consume", "orders", "--group", "readers", "--partition", "1", code=2
            )
