"""A service of the release before is upgraded while it is used, taken back, upgraded again, and bound to this release.
Every third run, by its seed, takes it back; all of them under FULL=1.

Clients on the SDK of each release send and read all the time. The one of this release asks for the nearest replica,
which brokers of the release before cannot give.
"""

import json
import random
import re
from collections import defaultdict
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from penstock import Client
from penstock.cli.exit_codes import ProcessEnd
from penstock.contract.ids import SYSTEM_TENANT
from penstock.rest.client import RestClient
from tests.waiting import PATIENCE_S, wait_until

from .cluster import HERE, Cluster, cluster
from .release import CURRENT, Release, previous_release
from .traffic_process import judge, traffic

pytestmark = [pytest.mark.processes, pytest.mark.slow, pytest.mark.timeout(2 * PATIENCE_S)]

PARTITIONS = 3


class Tenant:
    """A tenant of the service with one key, and a topic for each SDK that is used."""

    def __init__(self, service: Cluster) -> None:
        self._service = service
        with RestClient(service.api_url) as rest:
            made = rest.post(
                "/v1/sign-up",
                {"email": "anna@example.com", "password": "a horse, a battery", "tenant": "acme"},
            )
        self.id = str(made["tenant"]["id"])
        with RestClient(service.api_url, made["token"], tenant=self.id) as rest:
            self.api_key = str(rest.post("/v1/keys", {"name": "app"})["key"])
            for name in ("orders-before", "orders-now"):
                rest.post("/v1/topics", {"name": name, "partitions": PARTITIONS})

    def traffic(self, release: Release, name: str, folder: Path, **connection: str) -> Any:
        service = self._service
        return traffic(
            release,
            folder,
            bootstrap=service.bootstrap,
            api_key=self.api_key,
            topic=f"orders-{name}",
            group=f"readers-{name}",
            **connection,
        )

    def manages(self, release: Release, name: str) -> dict[str, Any]:
        """What that release's SDK finds when it manages the tenant."""
        settings = {
            "bootstrap": self._service.bootstrap,
            "api_key": self.api_key,
            "api_url": self._service.api_url,
            "name": name,
            "group": "readers-before",
        }
        printed = release.run(str(HERE / "managing.py"), json.dumps(settings), folder=HERE)
        found: dict[str, Any] = json.loads(printed)
        return found

    def log(self, topic: str) -> dict[int, list[bytes]]:
        """All values of a topic, by partition, from the first offset on."""
        values: dict[int, list[bytes]] = defaultdict(list)
        with (
            Client(bootstrap=self._service.bootstrap, api_key=self.api_key) as client,
            client.consumer([topic], auto_offset_reset="earliest") as consumer,
        ):
            left = {place for place, end in consumer.end_offsets(PATIENCE_S).items() if end}
            ends = consumer.end_offsets(PATIENCE_S)
            while left:
                for message in consumer.poll(timeout=PATIENCE_S):
                    assert message.offset == len(values[message.partition])
                    values[message.partition].append(message.value)
                left = {place for place in left if len(values[place[1]]) < ends[place]}
        return values


def test_a_service_is_upgraded_and_taken_back_under_load_until_its_level_is_raised(
    tmp_path: Path, full: bool
) -> None:
    before, now = previous_release(tmp_path / "previous"), CURRENT
    with cluster(tmp_path / "service", before) as service:
        acme = Tenant(service)
        with (
            acme.traffic(before, "before", tmp_path) as of_before,
            acme.traffic(now, "now", tmp_path, zone="zone-1") as of_now,
        ):
            managed = managed_by_both(acme, before, now)
            service.prepare(now)
            upgrade(service, now)
            managed += managed_by_both(acme, before, now)
            if full or random.randrange(3) == 0:
                go_back(service, before, now)
                managed += managed_by_both(acme, before, now)
                upgrade(service, now)
        for seen, release in ((of_before, before), (of_now, now)):
            assert seen.version == release.version
            assert judge(seen, acme.log(seen.topic)) == []
        sent = len(of_before.acknowledged) + len(of_now.acknowledged) + managed
        assert service.messages_counted(acme.id) == sent
        raise_the_level(service, before, now)
        stop_serving_the_release_before(service, now)


def managed_by_both(acme: Tenant, before: Release, now: Release) -> int:
    """Topics, offsets and groups are managed with either SDK, whatever the service runs. The messages that it took."""
    for release in (before, now):
        found = acme.manages(release, "managed")
        assert found == {
            "version": release.version,
            "partitions": 2,
            "retention_ms": 7_200_000,
            "offset": 0,
            "end": 1,
            "listed": ["managed", "orders-before", "orders-now"],
            "members": 1,
        }
    return 2


def upgrade(service: Cluster, now: Release) -> None:
    """Broker by broker, then the control plane. What each broker runs is seen meanwhile."""
    for number in service.numbers:
        service.change_broker(number, now)
        upgraded = [other for other in service.numbers if other <= number]
        wanted = {other: now.version if other in upgraded else "" for other in service.numbers}
        # One that a busy machine held up registers again.
        wait_until(
            "each broker says what it runs",
            partial(says, service, wanted),
            instead=service.versions,
        )
    service.stop_control_plane()
    service.manage(now, "migrate")
    service.start_control_plane(now)


def says(service: Cluster, versions: dict[int, str]) -> bool:
    return service.versions() == versions


def raise_the_level(service: Cluster, before: Release, now: Release) -> None:
    """Refused while a broker of the release before is registered; from then on such a broker is refused."""
    shown = features(service, now)
    assert shown["level"] == 1
    assert {broker["version"] for broker in shown["brokers"]} == {now.version}
    last = service.numbers[-1]
    service.change_broker(last, before)
    assert f"broker {last} (Penstock 0.1) supports 1 to 1" in refusal(service, now, 2)
    assert service.hosts() == [""] * len(service.numbers), "brokers of the release before could not read them"
    service.change_broker(last, now)
    assert features(service, now, "--raise", "2", "--yes")["level"] == 2
    with service.operator(SYSTEM_TENANT) as operator:
        (raised,) = (entry for entry in operator.items("/v1/audit") if entry["action"] == "features.set")
    assert (raised["before"], raised["after"]) == ({"level": 1}, {"level": 2})
    service.stop_broker(last)
    refused = service.launch_broker(last, before)
    # It is refused by the cluster's id, or by the first record of level 2 that it reads before it looks at the id.
    assert refused.wait(PATIENCE_S) in (ProcessEnd.CANNOT_START, ProcessEnd.FAILED)
    assert re.search(
        r"needs Penstock 0\.2 or later|got an unexpected keyword argument", service.output_of(last)
    )
    service.start_broker(last, now)
    service.wait_until_whole()
    assert "level 2 cannot be left" in refusal(service, now, 1)


def stop_serving_the_release_before(service: Cluster, now: Release) -> None:
    """Broker by broker again; those that still do and those that do not are one cluster meanwhile."""
    for number in service.numbers:
        service.configure_broker(number, now, {"transition": None})
        service.change_broker(number, now)
    assert features(service, now)["level"] == 2
    assert service.hosts() == [f"host-{number}" for number in service.numbers]


def features(service: Cluster, now: Release, *arguments: str, good: bool = True) -> dict[str, Any]:
    """What the command `penstock cluster features` says, or how it was refused."""
    token = str(service.service.operator_token_file)
    found: dict[str, Any] = service.command(
        now, "cluster", "features", "--token-file", token, *arguments, good=good
    )
    return found


def refusal(service: Cluster, now: Release, level: int) -> str:
    """Why that level is not put in force."""
    refused = features(service, now, "--raise", str(level), "--yes", good=False)
    return str(refused["error"]["message"])


def go_back(service: Cluster, before: Release, now: Release) -> None:
    """The reverse: the control plane, then broker by broker."""
    service.stop_control_plane()
    service.migrate_back(now, before)
    service.start_control_plane(before)
    for number in reversed(service.numbers):
        service.change_broker(number, before)
    wait_until("none says what it runs", lambda: set(service.versions().values()) == {""})
