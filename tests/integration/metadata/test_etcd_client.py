"""The client of etcd against a real one: what is refused, lost, silent, canceled, compacted or replaced is told."""

import asyncio
import gc
import signal
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import aclosing
from itertools import count

import pytest

from data_plane.broker.etcd_store import EtcdStore
from data_plane.etcd import rpc_pb2 as pb
from data_plane.etcd.client import PAGE_KEYS, EtcdClient, range_end
from data_plane.etcd.endpoints import EtcdConfig, Tls
from data_plane.etcd.outcomes import LeaseGone, NoAnswer, NotSent, Refused, RevisionCompacted, WatchCanceled
from data_plane.etcd.watching import News, Opened, Revision, follow
from data_plane.metadata.port import Compacted, Compare, OutcomeUnknown, Put, StoreUnavailable, StoreWentBack
from tests.waiting import PATIENCE_S

from ..etcd_servers import EtcdServers, etcd_servers
from ..operations.certificates import make_certificate

pytestmark = pytest.mark.processes

_names = count()


@pytest.fixture(scope="module")
def servers() -> Iterator[EtcdServers]:
    with etcd_servers(arguments=("--experimental-watch-progress-notify-interval", "100ms")) as running:
        yield running


@pytest.fixture
def own() -> Iterator[EtcdServers]:
    """One node of the test's own."""
    with etcd_servers() as running:
        yield running


def run(config: EtcdConfig, scenario: Callable[[EtcdClient], Awaitable[None]]) -> None:
    async def whole() -> None:
        client = EtcdClient(config)
        try:
            async with asyncio.timeout(PATIENCE_S):
                await scenario(client)
        finally:
            await client.close()

    asyncio.run(whole())


def at(servers: EtcdServers, call_s: float = 5.0, progress_s: float = 3.0) -> EtcdConfig:
    return EtcdConfig(endpoints=servers.endpoints, call_s=call_s, progress_s=progress_s)


def new_prefix() -> bytes:
    return b"/client/%d/" % next(_names)


def puts(prefix: bytes, numbers: range, value: bytes = b"v") -> pb.TxnRequest:
    requests = [
        pb.RequestOp(request_put=pb.PutRequest(key=prefix + b"%06d" % n, value=value)) for n in numbers
    ]
    return pb.TxnRequest(success=requests)


def test_a_listing_of_many_keys_is_of_one_revision(servers: EtcdServers) -> None:
    prefix, total = new_prefix(), 2 * PAGE_KEYS + 100

    async def scenario(client: EtcdClient) -> None:
        for first in range(0, total, 100):
            await client.txn(puts(prefix, range(first, first + 100)))
        listing = await client.list(prefix, range_end(prefix))
        assert [item.key for item in listing.items] == [prefix + b"%06d" % n for n in range(total)]

    run(at(servers), scenario)


def test_revisions_come_whole_though_etcd_sends_them_in_fragments(servers: EtcdServers) -> None:
    prefix = new_prefix()

    async def scenario(client: EtcdClient) -> None:
        made = [(await client.txn(puts(prefix, range(100), b"x" * 14_000))).header.revision for _ in range(4)]
        seen = []
        async with aclosing(follow(client.endpoints, prefix, range_end(prefix), made[0])) as news_of:
            async for news in news_of:
                if isinstance(news, Revision):
                    seen.append((news.revision, [event.kv.key for event in news.events]))
                if len(seen) == len(made):
                    break
        keys = [prefix + b"%06d" % n for n in range(100)]
        assert seen == [(revision, keys) for revision in made]

    run(at(servers), scenario)


def test_a_quiet_namespace_resumes_from_its_bookmark_over_what_others_had_compacted(
    servers: EtcdServers,
) -> None:
    async def scenario() -> None:
        config = at(servers)
        quiet, busy = EtcdStore(config, "quiet"), EtcdStore(config, "busy")
        try:
            last = (await quiet.txn([], [Put("/a", b"1")])).revision
            for _ in range(5):
                await busy.txn([], [Put("/a", b"1")])
            watch = quiet.watch("/", last)
            newest = (await busy.client.get(b"-"))[1]
            bookmark = (await quiet.namespace.origin()).to_namespace(newest)
            while quiet.quiet_since("/") < bookmark:  # noqa: ASYNC110 - etcd tells it in its own time
                await asyncio.sleep(0.02)
            await busy.client.compact(newest)
            resumed = quiet.watch("/", last)
            after = await quiet.txn([], [Put("/a", b"2")])
            assert (await anext(resumed)).revision == after.revision
            assert (await anext(watch)).revision == after.revision
            stale = EtcdStore(config, "quiet")
            with pytest.raises(Compacted):
                await anext(stale.watch("/", last))
            await stale.close()
        finally:
            await quiet.close()
            await busy.close()

    asyncio.run(scenario())


def test_a_watch_that_nobody_reads_any_more_ends_by_itself(servers: EtcdServers) -> None:
    async def scenario() -> None:
        store = EtcdStore(at(servers), "unread")
        try:
            await store.txn([], [Put("/a", b"1")])
            read, unread = store.watch("/", 0), store.watch("/", 0)
            assert (await anext(read)).revision == (await anext(unread)).revision
            assert store.watching == 2
            del unread
            gc.collect()
            assert store.watching == 1
            after = await store.txn([], [Put("/a", b"2")])
            assert (await anext(read)).revision == after.revision
        finally:
            await store.close()

    asyncio.run(scenario())


def test_a_compacted_past_is_told_to_listings_and_watches(servers: EtcdServers) -> None:
    prefix = new_prefix()

    async def scenario(client: EtcdClient) -> None:
        first = (await client.txn(puts(prefix, range(1)))).header.revision
        last = (await client.txn(puts(prefix, range(1)))).header.revision
        await client.compact(last)
        with pytest.raises(RevisionCompacted):
            await client._page(prefix, range_end(prefix), first)
        news_of = follow(client.endpoints, prefix, range_end(prefix), first)
        with pytest.raises(RevisionCompacted) as told:
            async for _ in news_of:
                pass
        assert told.value.compact_revision >= last

    run(at(servers), scenario)


def test_what_etcd_refuses_is_not_applied_and_says_why(servers: EtcdServers) -> None:
    prefix = new_prefix()

    async def scenario(client: EtcdClient) -> None:
        with pytest.raises(Refused, match="too many operations"):
            await client.txn(puts(prefix, range(200)))
        with pytest.raises(Refused, match="too large"):
            await client.txn(puts(prefix, range(1), b"x" * 1_600_000))
        bound = pb.RequestOp(request_put=pb.PutRequest(key=prefix, value=b"", lease=12345))
        with pytest.raises(LeaseGone):
            await client.txn(pb.TxnRequest(success=[bound]))
        with pytest.raises(LeaseGone):
            await client.keep_alive(12345)
        assert (await client.list(prefix, range_end(prefix))).items == ()

    run(at(servers), scenario)


def test_nothing_is_sent_where_nobody_listens_and_the_next_endpoint_serves(servers: EtcdServers) -> None:
    nobody = "127.0.0.1:1"

    async def refused(client: EtcdClient) -> None:
        with pytest.raises(NotSent, match=nobody):
            await client.txn(puts(b"/", range(1)))

    async def served(client: EtcdClient) -> None:
        assert (await client.get(b"-"))[1] > 0

    run(EtcdConfig(endpoints=(nobody,)), refused)
    run(EtcdConfig(endpoints=(nobody, *servers.endpoints)), served)


def test_a_stopped_etcd_leaves_changes_unknown_and_ends_watches_that_hear_nothing(own: EtcdServers) -> None:
    prefix = new_prefix()

    async def opened(client: EtcdClient) -> AsyncGenerator[News, None]:
        """A watch that has begun; on a busy machine etcd may take longer over that than a watch waits for a sign."""
        while True:
            news_of = follow(client.endpoints, prefix, range_end(prefix), 1)
            try:
                assert isinstance(await anext(news_of), Opened)
                return news_of
            except (NoAnswer, NotSent):
                await news_of.aclose()

    async def scenario(client: EtcdClient) -> None:
        async with aclosing(await opened(client)) as news_of:
            own.nodes[0].signal(signal.SIGSTOP)
            try:
                with pytest.raises(NoAnswer, match="no sign of life"):
                    await anext(news_of)
                with pytest.raises(NoAnswer):
                    await client.txn(puts(prefix, range(1)))
                with pytest.raises(NotSent, match="a read changes nothing"):
                    await client.get(prefix)
            finally:
                own.nodes[0].signal(signal.SIGCONT)

    run(at(own, call_s=0.5, progress_s=0.3), scenario)


def test_a_watch_that_is_not_permitted_fails_instead_of_hanging(own: EtcdServers) -> None:
    own.control("user", "add", "root:secret")
    own.control("user", "grant-role", "root", "root")
    own.control("auth", "enable")

    async def scenario(client: EtcdClient) -> None:
        with pytest.raises(WatchCanceled, match="user name is empty"):
            async for _ in follow(client.endpoints, b"/", b"0", 1):
                pass
        with pytest.raises(Refused, match="user name is empty"):
            await client.txn(puts(b"/", range(1)))

    run(at(own), scenario)


def test_certificates_are_demanded_on_both_sides(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("etcd-tls")
    server, broker = make_certificate(folder, "etcd"), make_certificate(folder, "broker")
    arguments = (
        *("--cert-file", str(server.certificate), "--key-file", str(server.key)),
        *("--client-cert-auth", "--trusted-ca-file", str(broker.certificate)),
    )
    ca = server.certificate.read_bytes()
    own_pair = Tls(ca=ca, certificate=broker.certificate.read_bytes(), key=broker.key.read_bytes())

    async def served(client: EtcdClient) -> None:
        while True:
            try:
                assert (await client.get(b"-"))[1] > 0
                return
            except NotSent:
                await asyncio.sleep(0.02)  # still starting

    async def refused(client: EtcdClient) -> None:
        with pytest.raises(NotSent):
            await client.get(b"-")

    with etcd_servers(arguments=arguments, scheme="https") as servers:
        run(EtcdConfig(endpoints=servers.endpoints, read_tls=lambda: own_pair), served)
        run(EtcdConfig(endpoints=servers.endpoints, read_tls=lambda: Tls(ca=ca)), refused)
        run(EtcdConfig(endpoints=servers.endpoints), refused)
        stranger = Tls(ca=broker.certificate.read_bytes(), certificate=own_pair.certificate, key=own_pair.key)
        run(EtcdConfig(endpoints=servers.endpoints, read_tls=lambda: stranger), refused)


def test_an_etcd_restored_to_an_earlier_state_is_noticed_by_who_knew_more(own: EtcdServers) -> None:
    node = own.nodes[0]
    snapshot = node.folder / "backup"

    async def scenario() -> None:
        store = EtcdStore(EtcdConfig(endpoints=own.endpoints), "cell")
        try:
            after = before = await store.txn([], [Put("/a", b"1")])
            await asyncio.to_thread(own.control, "snapshot", "save", str(snapshot))
            for _ in range(3):
                after = await store.txn([], [Put("/a", b"2")])
            watch = store.watch("/", after.revision)
            await asyncio.to_thread(restore)
            with pytest.raises(StoreWentBack, match=f"at revision {before.revision}, after {after.revision}"):
                await anext(watch)
        finally:
            await store.close()

    def restore() -> None:
        node.kill()
        peer = f"http://127.0.0.1:{node.peer_port}"
        restored = node.folder / "restored"
        own.control(
            *("snapshot", "restore", str(snapshot), "--data-dir", str(restored), "--name", node.name),
            *("--initial-cluster", f"{node.name}={peer}", "--initial-advertise-peer-urls", peer),
        )
        (node.folder / node.name).rename(node.folder / "before")
        restored.rename(node.folder / node.name)
        own.start(node)
        own.wait_healthy()

    asyncio.run(scenario())


def test_another_etcd_behind_the_same_address_takes_nothing(own: EtcdServers) -> None:
    node = own.nodes[0]

    async def scenario() -> None:
        store = EtcdStore(EtcdConfig(endpoints=own.endpoints), "cell")
        try:
            await store.txn([Compare("/a", 0)], [Put("/a", b"1")])
            await asyncio.to_thread(replace)
            while True:
                try:
                    await store.txn([Compare("/a", 0)], [Put("/a", b"2")])
                    pytest.fail("an etcd that never knew the namespace took a transaction")
                except StoreWentBack as told:
                    assert "its origin is gone" in str(told)
                    with pytest.raises(StoreWentBack, match="its origin is gone"):
                        await store.range("/")
                    return
                except (OutcomeUnknown, StoreUnavailable):
                    await asyncio.sleep(0.02)
        finally:
            await store.close()

    def replace() -> None:
        node.kill()
        (node.folder / node.name).rename(node.folder / "before")
        own.start(node)
        own.wait_healthy()

    asyncio.run(scenario())
