"""The data directory of a dev cluster: made once, grown, never shrunk, held by one command at a time."""

import json
import shutil
import stat
from pathlib import Path

import pytest

from local.layout import Busy, ClusterSpec, DataDirectory, NoCluster
from penstock.contract.errors import InvalidRequest, NotFound


def ports(spec: ClusterSpec) -> list[int]:
    return [port for b in spec.brokers for port in (b.client_port, b.internal_port, b.http_port, b.peer_port)]


def test_a_cluster_is_made_once_and_found_again(tmp_path: Path) -> None:
    made = DataDirectory(tmp_path).load_or_create(None)
    assert [broker.id for broker in made.brokers] == [1, 2, 3]
    assert DataDirectory(tmp_path).load_or_create(None) == made
    assert DataDirectory(tmp_path).load() == made


def test_ports_are_distinct_and_below_those_that_outgoing_connections_get(tmp_path: Path) -> None:
    chosen = ports(DataDirectory(tmp_path).load_or_create(8))
    assert len(set(chosen)) == 32
    first_ephemeral = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    assert all(20_000 <= port < max(first_ephemeral, 21_000) for port in chosen)


def test_a_cluster_grows_and_keeps_the_brokers_it_has(tmp_path: Path) -> None:
    directory = DataDirectory(tmp_path)
    one = directory.load_or_create(1)
    authority = directory.certificates.operator().current.ca
    three = directory.load_or_create(3)
    assert three.brokers[:1] == one.brokers
    assert three.cluster_id == one.cluster_id
    assert directory.certificates.operator().current.ca == authority
    for broker in three.brokers:
        assert directory.certificates.files(f"broker-{broker.id}").certificate_file.exists()


def test_a_cluster_does_not_shrink(tmp_path: Path) -> None:
    DataDirectory(tmp_path).load_or_create(3)
    with pytest.raises(InvalidRequest, match="3 brokers with replicas on them and cannot shrink to 2"):
        DataDirectory(tmp_path).load_or_create(2)


@pytest.mark.parametrize("count", [0, -1, 21])
def test_a_count_out_of_bounds_is_refused(tmp_path: Path, count: int) -> None:
    with pytest.raises(InvalidRequest, match="is not within 1 to 20"):
        DataDirectory(tmp_path).load_or_create(count)


@pytest.mark.parametrize(
    ("brokers", "replication", "min_insync"), [(1, 1, 1), (2, 2, 2), (3, 3, 2), (5, 3, 2)]
)
def test_small_clusters_lower_the_default_replication(
    tmp_path: Path, brokers: int, replication: int, min_insync: int
) -> None:
    spec = DataDirectory(tmp_path).load_or_create(brokers)
    assert (spec.replication, spec.min_insync) == (replication, min_insync)


def test_a_removed_broker_is_not_made_again_and_its_id_only_if_it_was_the_newest(tmp_path: Path) -> None:
    directory = DataDirectory(tmp_path)
    made = directory.load_or_create(4)
    (directory.log_directory(2) / "kept").touch()
    assert (directory.remove_broker(2) / "data" / "kept").exists()
    assert directory.load().brokers == (made.brokers[0], *made.brokers[2:])
    assert not directory.log_directory(2).exists()
    assert [broker.id for broker in directory.load_or_create(None).brokers] == [1, 3, 4]
    assert [broker.id for broker in directory.load_or_create(4).brokers] == [1, 3, 4, 5]
    first = directory.remove_broker(5)
    assert [broker.id for broker in directory.load_or_create(4).brokers] == [1, 3, 4, 5]
    assert directory.remove_broker(5) != first
    with pytest.raises(NotFound, match="broker 2: no such broker; there are 1, 3, 4"):
        directory.remove_broker(2)


def test_the_last_broker_stays(tmp_path: Path) -> None:
    directory = DataDirectory(tmp_path)
    directory.load_or_create(1)
    with pytest.raises(InvalidRequest, match="it is the only one"):
        directory.remove_broker(1)
    assert [broker.id for broker in directory.load().brokers] == [1]


def test_secrets_are_readable_by_their_owner_only(tmp_path: Path) -> None:
    directory = DataDirectory(tmp_path)
    directory.load_or_create(1)
    keys = [*directory.certificates.folder.glob("*-key.pem")]
    assert len(keys) == 4
    for file in (*keys, directory.pepper_file):
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert len(directory.pepper_file.read_text().strip()) == 64


def test_a_directory_without_a_cluster_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(NoCluster, match="no dev cluster here") as refused:
        DataDirectory(tmp_path / "nothing").load()
    assert "penstock dev up" in refused.value.remedy
    assert not (tmp_path / "nothing").exists()


@pytest.mark.parametrize("text", ["", "[]", '{"brokers": []}', '{"brokers": [{"id": 1}]}', "{"])
def test_a_damaged_cluster_file_is_refused_by_name(tmp_path: Path, text: str) -> None:
    directory = DataDirectory(tmp_path)
    directory.cluster_file.write_text(text)
    with pytest.raises(InvalidRequest, match=r"cluster\.json: cannot be read"):
        directory.load()


def test_an_unknown_broker_is_refused_with_those_that_there_are(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="broker 4: no such broker; there are 1, 2"):
        DataDirectory(tmp_path).load_or_create(2).broker(4)


def test_two_commands_do_not_change_one_cluster_at_once(tmp_path: Path) -> None:
    held = DataDirectory(tmp_path).changing()
    with held, pytest.raises(Busy), DataDirectory(tmp_path).changing():
        pass
    with DataDirectory(tmp_path).changing():
        pass


def test_a_cluster_from_before_brokers_had_a_listener_for_each_other_gets_their_ports(tmp_path: Path) -> None:
    directory = DataDirectory(tmp_path)
    made = directory.load_or_create(2)
    kept = json.loads(directory.cluster_file.read_text())
    for broker in kept["brokers"]:
        del broker["peer_port"]
    directory.cluster_file.write_text(json.dumps(kept))
    found = directory.load_or_create(None)
    assert len(set(ports(found))) == 8 and all(ports(found))
    assert [broker.client_port for broker in found.brokers] == [broker.client_port for broker in made.brokers]
    assert directory.load() == found


def test_a_cluster_from_before_brokers_had_certificates_gets_them(tmp_path: Path) -> None:
    directory = DataDirectory(tmp_path)
    made = directory.load_or_create(2)
    shutil.rmtree(directory.certificates.folder)
    assert directory.load_or_create(None) == made
    assert directory.certificates.operator().current.identity.cluster_id == made.cluster_id
