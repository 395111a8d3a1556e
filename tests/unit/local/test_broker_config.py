"""Each broker of a dev cluster is started with a configuration that brokers read."""

from pathlib import Path

from data_plane.broker.config import read_config
from local.broker_config import PEPPER_VERSION, read_pepper, write_broker_config
from local.layout import DataDirectory


def test_what_is_written_is_what_a_broker_reads(tmp_path: Path) -> None:
    directory = DataDirectory(tmp_path)
    spec = directory.load_or_create(2)
    for broker in spec.brokers:
        write_broker_config(directory, spec, broker)
        read = read_config(directory.config_file(broker.id), {})
        assert (read.broker_id, read.cluster_id) == (broker.id, spec.cluster_id)
        assert read.http_listen == broker.http_address
        node = read.node_config(read.client_listen, read.internal_listen, read.peer_listen)
        assert (node.client_address, node.internal_address, node.peer_address) == (
            broker.client_address,
            broker.internal_address,
            broker.peer_address,
        )
        assert node.peppers == {PEPPER_VERSION: read_pepper(directory)}
        assert read.own_identity().current.identity.uri == f"penstock://{spec.cluster_id}/broker/{broker.id}"
    zones = {read_config(directory.config_file(broker.id), {}).zone for broker in spec.brokers}
    assert len(zones) == 2


def test_two_clusters_share_no_secret(tmp_path: Path) -> None:
    one, two = DataDirectory(tmp_path / "1"), DataDirectory(tmp_path / "2")
    one.load_or_create(1)
    two.load_or_create(1)
    assert read_pepper(one) != read_pepper(two)
    assert one.certificates.operator().current.ca != two.certificates.operator().current.ca
