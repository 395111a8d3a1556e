"""A cluster over three zones of hosts, with mutual TLS between their addresses, bears the loss of a host and of a zone.

The whole of it is `make cluster` and `make chaos`. These need the rights of root, which continuous integration has.
"""

from ipaddress import ip_address
from pathlib import Path

import pytest

from chaos.faults import Kind, Plan, kinds_of
from chaos.history_lines import lines
from hosts.ground import ZONES
from tests.integration.chaos.trial import ENDED, chaos, history_of, needs_hosts

pytestmark = [*needs_hosts, pytest.mark.drawn(shares=3, family="services that lose processes")]
LIMIT_S = 400


@pytest.mark.timeout(LIMIT_S + 80)
def test_nothing_acknowledged_is_lost_with_a_host_a_zone_or_the_leader_of_etcd(tmp_path: Path) -> None:
    said = chaos(tmp_path, "--plan", "zones", "--seed", "1", timeout_s=LIMIT_S)
    ended = ENDED.search(said)
    assert ended is not None, said
    assert int(ended[1]) > 500
    noted = list(lines(history_of(tmp_path)))

    (layout,) = (line["brokers"] for line in noted if line["is"] == "layout")
    assert [broker["zone"] for broker in layout.values()] == list(ZONES)
    addresses = [ip_address(broker["address"].rpartition(":")[0]) for broker in layout.values()]
    assert len(set(addresses)) == len(ZONES) and not any(address.is_loopback for address in addresses)

    copies = [line["zones"] for line in noted if line["is"] == "copies"]
    assert len(copies) > 5
    assert all(zones == list(ZONES) for zones in copies), "a lost zone must leave two copies of everything"

    struck = {line["kind"] for line in noted if line["is"] == "fault"}
    assert struck == {kind.value for kind in kinds_of(Plan.ZONES)}, noted[0]["unavailable"]
    whom = [line["whom"] for line in noted if line["is"] == "struck"]
    (lost,) = (one for one in whom if one.startswith("zone-") and "," in one)
    assert "b" in lost and "e" in lost, "brokers and etcd are lost together"
    assert Kind.CERTIFICATES_RENEWED.value in struck
    ended_by_itself = [line["statuses"] for line in noted if line["is"] == "ended by itself"]
    assert ended_by_itself == [[]] * len(layout), "a broker did not bear it"
