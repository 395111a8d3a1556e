"""Three etcd members over mutual TLS as metadata store: used, refused in one line where something is wrong, and their
certificates taken up while a broker's client runs.
"""

import asyncio
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from daemon import authority
from data_plane.broker.etcd_store import EtcdStore
from data_plane.broker.metadata_config import EtcdMetadata
from data_plane.metadata.port import OutcomeUnknown, Put, StoreUnavailable
from tests.integration.etcd_servers import EtcdServers, etcd_servers
from tests.waiting import wait_until

pytestmark = [pytest.mark.processes, pytest.mark.slow]
HOST = "127.0.0.1"
NOW = datetime.now(UTC)
TIMEOUT_S = 30.0


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two authorities, `ours` and `other`, and an expired certificate of ours in `old`."""
    folder = tmp_path_factory.mktemp("pki")
    for owner in ("ours", "other"):
        authority.init(folder / owner, "prod-1", now=NOW)
        authority.issue(folder / owner, "broker-1", hosts=[HOST], now=NOW)
    for number in (1, 2, 3):
        authority.issue(folder / "ours", f"etcd-{number}", hosts=[HOST], now=NOW)
    shutil.copytree(folder / "ours", folder / "old")
    authority.issue(
        folder / "old", "broker-1", hosts=[HOST], now=NOW - timedelta(days=9), days=8, replace=True
    )
    return folder


@pytest.fixture(scope="module")
def members(pki: Path) -> Iterator[EtcdServers]:
    with etcd_servers(3, certificates=pki / "ours") as servers:
        yield servers


def settings(members: EtcdServers, folder: Path | None, ca: Path | None = None) -> EtcdMetadata:
    """A broker's, with the certificate of a folder; None = in plain text."""
    if folder is None:
        return EtcdMetadata(endpoints=members.endpoints)
    return EtcdMetadata(
        endpoints=members.endpoints,
        ca_file=ca or folder / "ca.pem",
        certificate_file=folder / "broker-1.pem",
        key_file=folder / "broker-1-key.pem",
    )


def write(metadata: EtcdMetadata, namespace: str, key: str) -> int:
    async def scenario() -> int:
        store = EtcdStore(metadata.client_config(), namespace)
        try:
            return (await store.txn([], [Put(key, b"1")])).revision
        finally:
            await store.close()

    return asyncio.run(scenario())


def written_at_last(metadata: EtcdMetadata, namespace: str, key: str) -> int:
    """The members may elect a leader first."""
    revisions: list[int] = []

    def taken() -> bool:
        try:
            revisions.append(write(metadata, namespace, key))
        except (StoreUnavailable, OutcomeUnknown):
            return False
        return True

    wait_until("etcd takes a write", taken)
    return revisions[-1]


def test_three_members_over_mutual_tls_take_writes_also_without_one_of_them(
    members: EtcdServers, pki: Path
) -> None:
    metadata = settings(members, pki / "ours")
    assert metadata.failures(TIMEOUT_S) == []
    first = written_at_last(metadata, "usual", "/a")
    node = members.nodes[0]
    node.kill()
    try:
        assert written_at_last(metadata, "usual", "/b") > first
        assert metadata.failures(TIMEOUT_S) == []
    finally:
        members.start(node)
        members.wait_healthy()


@pytest.mark.parametrize(
    ("folder", "ca", "said"),
    [
        ("ours", "other", "no CA in ca_file signed its certificate ("),
        ("other", "ours", "does not accept our certificate ("),
        ("old", "ours", "broker-1.pem: has ended at "),
        (None, None, "accepts TLS alone; name the files for it in the settings"),
    ],
)
def test_a_broker_that_etcd_cannot_know_is_refused_in_one_line_a_member(
    members: EtcdServers, pki: Path, folder: str | None, ca: str | None, said: str
) -> None:
    metadata = settings(
        members, None if folder is None else pki / folder, None if ca is None else pki / ca / "ca.pem"
    )
    lines = metadata.failures(TIMEOUT_S)
    assert len(lines) == 3
    assert all(said in line and "\n" not in line for line in lines), lines
    with pytest.raises(StoreUnavailable, match="can be reached"):
        write(metadata, "strange", "/a")


def test_a_member_in_plain_text_is_refused_in_one_line(pki: Path) -> None:
    with etcd_servers() as plain:
        metadata = settings(plain, pki / "ours")
        (line,) = metadata.failures(TIMEOUT_S)
        assert "speaks no TLS at this port" in line
        with pytest.raises(StoreUnavailable, match="can be reached"):
            write(metadata, "strange", "/a")


def test_a_member_under_another_name_is_refused_in_one_line(
    members: EtcdServers, pki: Path, tmp_path: Path
) -> None:
    port = members.nodes[0].client_port
    metadata = EtcdMetadata(
        endpoints=(f"localhost:{port}",),
        ca_file=pki / "ours" / "ca.pem",
        certificate_file=pki / "ours" / "broker-1.pem",
        key_file=pki / "ours" / "broker-1-key.pem",
    )
    (line,) = metadata.failures(TIMEOUT_S)
    assert "its certificate is not for localhost; issue one that names it" in line


def test_a_renewed_certificate_and_a_new_ca_are_taken_up_by_a_client_that_runs(
    pki: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "certificates"
    shutil.copytree(pki / "ours", folder)

    async def written(store: EtcdStore) -> int:
        while True:
            try:
                return (await store.txn([], [Put("/b", b"2")])).revision
            except (StoreUnavailable, OutcomeUnknown):
                await asyncio.sleep(0.05)

    async def scenario() -> None:
        with etcd_servers(1, certificates=folder) as servers:
            store = EtcdStore(settings(servers, folder).client_config(), "renewed")
            try:
                first = await store.txn([], [Put("/a", b"1")])
                # A CA that the running client has not read yet, and that is the only one from now on.
                authority.add_ca(folder, now=NOW)
                authority.use_new_ca(folder, now=NOW)
                authority.drop_old_ca(folder)
                node = servers.nodes[0]
                await asyncio.to_thread(node.kill)
                servers.start(node)
                await asyncio.to_thread(servers.wait_healthy)
                assert await written(store) > first.revision
            finally:
                await store.close()

    asyncio.run(scenario())
