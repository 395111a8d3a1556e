"""The broker process: ports bound, node run, signals obeyed, faults made fatal.

binding -> booting -> serving --SIGTERM--> draining -> ended (0)
                                           draining --time is up--> ended (1)
any of them --fault, second signal--> ended at once (nothing depends on cleaning up, RL136)
"""

import argparse
import asyncio
import gc
import json
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NoReturn

import grpc
import uvloop
from prometheus_client import CollectorRegistry

from daemon import logs
from daemon.handshakes import NO_CALL, RefusedHandshakes
from daemon.hang_ups import HangUps
from daemon.http_listener import HttpListener
from daemon.identity_metrics import CertificateFiles, identity_metrics
from data_plane.authz.peers import ROLES, PeerRules
from data_plane.broker.clock import SystemClock, SystemRng
from data_plane.broker.config import BrokerConfig, read_config
from data_plane.broker.crowds import Crowds
from data_plane.broker.descriptors import raise_descriptor_limit
from data_plane.broker.disk import RealDisk
from data_plane.broker.freed_memory import keep_freed_memory
from data_plane.broker.grpc_options import INTERNAL_CALLS_MAX
from data_plane.broker.internal_handshakes import InternalHandshakes
from data_plane.broker.metadata_config import EtcdMetadata, open_store
from data_plane.broker.metrics import StatsCollector
from data_plane.broker.peer_listener import PeerListener, bind_peers
from data_plane.broker.peer_transport import PeerTransport
from data_plane.broker.server import Listener, bind, credentials_within
from data_plane.broker.sqlite_store import SqliteStore, StoreFault
from data_plane.broker.strangers import Strangers, watch
from data_plane.broker.transition import ANY_PORT, BothTransports, OldDoors
from data_plane.broker.watchdog import Watchdog
from data_plane.disk.port import DiskFault
from data_plane.metadata.losses import LossRecord
from data_plane.metadata.port import StoreWentBack
from data_plane.node.broker_node import BrokerNode
from data_plane.node.log_directory.directory import WrongDirectory
from data_plane.node.membership.only_one import IdTaken
from data_plane.node.replicas.committer import LogDirectoryFailed
from penstock.cli.exit_codes import ProcessEnd
from penstock.contract import limits
from penstock.contract.errors import ConfigurationError
from penstock.contract.ids import TopicPartition
from penstock.rules.addresses import split_address

_log = logging.getLogger("penstock.broker")

SWITCH_INTERVAL_S = 0.0005
"""A syncing thread's return waits for the interpreter lock; the default of 5 ms would be most of an
acknowledgement."""
GC_THRESHOLDS = (5_000, 3, 1_000)
"""What a broker keeps of each batch for a while is no garbage: the default of 700 looked at it again and again, for a
fifth of all time under small batches. No request is served meanwhile, so the two younger generations stay small (20,000
objects, 10 ms; 200,000 took 100) and all of them are seldom looked at."""
ADDRESS_FILE = "address.json"
_CANNOT_START = (ConfigurationError, DiskFault, IdTaken, OSError, StoreFault, WrongDirectory)
_LOOP_BEAT_S = 0.5
_LAST_STEPS_S = 10.0
"""What a broker may take beyond the time it has to hand over: the last reading, the last checkpoint, on a slow disk."""
_TELL_TURNED_AWAY_S = 10.0
_LOOK_AT_FILES_S = 1.0
_ADDRESSES_LOGGED = 5
PEER_CONNECTIONS_MAX = 2_000
"""Two streams of each other broker, and calls; each takes a descriptor and at rest 64 KiB."""
_ETCD_CHECK_S = 5.0
_CLOSE_S = 2.0
"""For listeners and connections to close. Clients that are still there then find them closed by the process's end."""


class LoggedNotices:
    """What an operator is to read goes into the log."""

    def loss_declared(self, where: TopicPartition, loss: LossRecord) -> None:
        logged = {"where": str(where), **asdict(loss)}
        _log.warning("a loss was declared, a new log generation begins", extra={"loss": logged})

    def store_refused(self, reason: str) -> None:
        _log.critical("the metadata store is not acted on", extra={"reason": reason})


class BrokerProcess:
    """One broker from configuration to exit status. Made on the loop that it serves on."""

    def __init__(self, config: BrokerConfig) -> None:
        self._config = config
        self._identity = config.own_identity()
        self._refused_handshakes = RefusedHandshakes()
        self._internal_handshakes = InternalHandshakes()
        self._certificate_files = CertificateFiles(config.certificate_files())
        self._loop_turned = time.monotonic()
        self._signals = 0
        self._conditions: dict[str, str] = {}
        """What an operator should look at, by kind, as it was last logged."""
        self._end: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._crowds = Crowds()
        self._tasks: list[asyncio.Task[None]] = []
        self._peer_connections_max = PEER_CONNECTIONS_MAX
        self._peer_listener: PeerListener | None = None
        """There once it serves."""
        self._old_doors: OldDoors | None = None
        """There in transition alone."""
        self._node: BrokerNode

    async def run(self) -> NoReturn:
        """Serve until drained, then end the process. Raises what keeps it from starting."""
        keep_freed_memory()
        gc.set_threshold(*GC_THRESHOLDS)  # from the boot on, half of which it was otherwise
        config = self._config
        tls = config.tls()
        credentials = None if tls is None else grpc.ssl_server_credentials([tls])
        identity = self._identity
        descriptors = raise_descriptor_limit()
        # In transition a connection takes three descriptors, and there are twice as many listeners.
        cluster_connections_max = descriptors // (8 if config.transition is None else 32)
        self._peer_connections_max = min(PEER_CONNECTIONS_MAX, cluster_connections_max)
        client_server, client_port = bind(
            config.client_listen, credentials, descriptors // 2, limits.STREAMS_PER_CONNECTION_MAX
        )
        internal_listen, peer_listen = config.internal_listen, config.peer_listen
        if config.transition is not None:
            internal_listen = peer_listen = ANY_PORT
        internal_server, internal_port = bind(
            internal_listen,
            credentials_within(identity, self._internal_handshakes),
            cluster_connections_max,
            INTERNAL_CALLS_MAX,
        )
        of_clients = Strangers(HangUps("client"), connections_max=descriptors // 2)
        of_admin = Strangers(
            HangUps("internal"),
            connections_max=cluster_connections_max,
            one_address=config.transition is not None,
        )
        self._crowds.strangers = {client_port: of_clients, internal_port: of_admin}
        peer_socket, peer_port = bind_peers(peer_listen)
        if config.transition is not None:
            self._old_doors = OldDoors(
                config.transition.secret(),
                identity.current.identity,
                {"internal": config.internal_listen, "peer": config.peer_listen},
                {"internal": internal_port, "peer": peer_port},
                self._peer_connections_max,
            )
            self._crowds.strangers |= self._old_doors.strangers
            self._crowds.others.append(self._old_doors.peer_hang_ups)
            internal_port, peer_port = self._old_doors.ports["internal"], self._old_doors.ports["peer"]
        addresses = {
            "client": _with_port(config.client_listen, client_port),
            "internal": _with_port(config.internal_listen, internal_port),
            "peer": _with_port(config.peer_listen, peer_port),
        }
        node_config = config.node_config(addresses["client"], addresses["internal"], addresses["peer"])
        if not node_config.written_logs_max:
            node_config = replace(node_config, written_logs_max=descriptors // 8)
        disk = RealDisk(config.data)
        store = await open_store(config.metadata, config.cluster_id)
        if isinstance(config.metadata, EtcdMetadata):
            self._start(self._check_etcd(config.metadata))
        tls_transport = PeerTransport(
            config.cluster_id, lambda: identity.current.client, self._refused_handshakes
        )
        transport: PeerTransport | BothTransports = tls_transport
        if config.transition is not None:
            transport = BothTransports(tls_transport, config.transition.secret(), config.cluster_id)
        node = self._node = BrokerNode(
            node_config,
            clock=SystemClock(),
            rng=SystemRng(),
            transport=transport,
            disk=disk,
            store=store,
            notices=LoggedNotices(),
        )
        http = self._start_http(node, disk)
        Watchdog(node_config.timings.session_ttl_ms / 3000, self._loop_age_s, node.stalled)
        addresses["http"] = _with_port(config.http_listen, http.port)
        _on_signals((signal.SIGTERM, signal.SIGINT), self._on_signal)
        self._start(self._run_node(node))
        self._start(self._turn())
        self._start(self._look_at_files())
        if isinstance(store, SqliteStore):
            self._start(self._watch_store(store))
        self._start(
            self._serve(
                node, (client_server, of_clients), (internal_server, of_admin), peer_socket, addresses
            )
        )
        _log.info("started", extra={"addresses": addresses})

        status = await self._end
        if status == 0:
            for task in self._tasks:
                task.cancel()
            (config.data / ADDRESS_FILE).unlink(missing_ok=True)
            for name, closing in (
                ("client listener", client_server.stop(grace=None)),
                ("internal listener", internal_server.stop(grace=None)),
                ("peer listener", self._stop_peer_listener()),
                ("old listeners", self._stop_old_doors()),
                ("connections", transport.close()),
                ("metadata store", store.close()),
            ):
                await _closed(name, closing)
        _end_process(status)

    async def _check_etcd(self, metadata: EtcdMetadata) -> None:
        """A broker that starts says why it cannot call etcd, and waits for it: an etcd may come later."""
        for said in await asyncio.to_thread(metadata.failures, _ETCD_CHECK_S):
            _log.error("etcd cannot be called", extra={"reason": said})

    def _start_http(self, node: BrokerNode, disk: RealDisk) -> HttpListener:
        registry = CollectorRegistry()
        registry.register(
            StatsCollector(
                asyncio.get_running_loop(),
                (node.stats, disk.stats),
                node.gauges,
                lambda: (
                    *identity_metrics(self._identity, self._refused_handshakes, self._certificate_files),
                    *self._crowds.metrics(),
                ),
            )
        )
        host, port = split_address(self._config.http_listen)
        return HttpListener(
            host,
            port,
            registry,
            hang_ups=self._crowds.http,
            not_ready=lambda: node.ready_reason or self._crowds.full(),
            warnings=lambda: self._conditions,
            loop_age_s=self._loop_age_s,
        )

    def _loop_age_s(self) -> float:
        return time.monotonic() - self._loop_turned

    # -- tasks ---------------------------------------------------------------------------------------------

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        """Run beside the others; an exception in any of them ends the process (RL140)."""
        task = asyncio.create_task(work)
        self._tasks.append(task)
        task.add_done_callback(self._task_ended)

    def _task_ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._fail(error)

    async def _run_node(self, node: BrokerNode) -> None:
        await node.run()
        _log.info("drained")
        self._end_with(0)

    async def _serve(
        self,
        node: BrokerNode,
        clients: tuple[grpc.aio.Server, Strangers],
        admin: tuple[grpc.aio.Server, Strangers],
        peer: socket.socket,
        addresses: dict[str, str],
    ) -> None:
        """Take calls once the node has booted: it then holds the log directory."""
        await node.booted.wait()
        (client, client_strangers), (internal, internal_strangers) = clients, admin
        refused, identity = self._refused_handshakes, self._identity
        rules = PeerRules(cluster_id=self._config.cluster_id, roles=ROLES)
        for_clients = Listener(
            node.client_service,
            handshakes=None,
            refused_handshakes=refused,
            strangers=client_strangers,
            fault=self._fail,
        )
        for_admin = Listener(
            node.internal_service,
            rules=rules,
            handshakes=self._internal_handshakes,
            refused_handshakes=refused,
            strangers=internal_strangers,
            fault=self._fail,
        )
        for_peers = self._peer_listener = PeerListener(
            node.peer_service.streams,
            node.peer_service.calls,
            rules=rules,
            tls=lambda: identity.current.server,
            connections_max=self._peer_connections_max,
            refused_handshakes=refused,
            hang_ups=self._crowds.peer,
            fault=self._fail,
        )
        client.add_generic_rpc_handlers((for_clients,))
        internal.add_generic_rpc_handlers((for_admin,))
        self._start(_tell_turned_away(for_clients, for_admin, for_peers))
        # What the boot has built stays: later collections need not look at it again.
        gc.collect()
        gc.freeze()
        await client.start()
        await internal.start()
        await for_peers.start(peer)
        self._start(watch(self._crowds.strangers))
        if self._old_doors is not None:
            await self._old_doors.start(
                node.internal_service,
                node.peer_service,
                rules,
                refused,
                self._fail,
            )
        try:
            _write_addresses(self._config.data / ADDRESS_FILE, addresses)
        except OSError as error:
            # A broker with a full disk still serves.
            _log.warning("the address file cannot be written", extra={"fault": str(error)})

    async def _stop_peer_listener(self) -> None:
        if self._peer_listener is not None:
            await self._peer_listener.stop()

    async def _stop_old_doors(self) -> None:
        if self._old_doors is not None:
            await self._old_doors.stop()

    async def _turn(self) -> None:
        """Show that the loop turns (RL137)."""
        while True:
            self._loop_turned = time.monotonic()
            self._tell_conditions()
            await asyncio.sleep(_LOOP_BEAT_S)

    async def _look_at_files(self) -> None:
        """The certificates of the next handshakes are those that the files hold by then."""
        while True:
            await asyncio.sleep(_LOOK_AT_FILES_S)
            for _ in range(self._internal_handshakes.take_failed()):
                self._refused_handshakes.count("internal", NO_CALL)
            await asyncio.to_thread(self._certificate_files.look)
            if await asyncio.to_thread(self._identity.look):
                _log.info(
                    "the certificate was taken up again",
                    extra={"identity": self._identity.current.identity.uri},
                )

    def _tell_conditions(self) -> None:
        """Log what came and what went of the things that an operator should look at."""
        found = self._node.warnings() | self._identity.warnings() | self._crowds.warnings()
        for kind in [kind for kind in self._conditions if kind not in found]:
            _log.warning("condition cleared", extra={"condition": kind})
        for kind in [kind for kind in found if kind not in self._conditions]:
            _log.warning("condition", extra={"condition": kind, "fact": found[kind]})
        self._conditions = found

    async def _watch_store(self, store: SqliteStore) -> None:
        """A metadata file that failed can no longer be trusted (RL126)."""
        self._fail(await store.failed())

    # -- the end -------------------------------------------------------------------------------------------

    def _fail(self, error: BaseException) -> None:
        """Our own bug, or a disk that cannot be trusted: the process ends; what keeps it from starting is raised."""
        if self._end.done():
            return
        booted = self._node.booted.is_set()
        if isinstance(error, StoreWentBack):
            _log.critical(
                "the metadata store went back; start again to see what to do", extra={"fault": str(error)}
            )
        elif isinstance(error, LogDirectoryFailed | StoreFault) or (isinstance(error, DiskFault) and booted):
            _log.critical("storage failed; start again to recover", extra={"fault": str(error)})
        elif isinstance(error, _CANNOT_START) and not booted:
            self._end.set_exception(error)
            return
        elif isinstance(error, ConfigurationError):
            _log.critical("the broker cannot take part any more", extra={"fault": str(error)})
        else:
            _log.critical("the broker failed", exc_info=error)
        self._end_with(ProcessEnd.FAILED)

    def _end_with(self, status: int) -> None:
        if not self._end.done():
            self._end.set_result(status)

    def _on_signal(self) -> None:
        """The first one drains, the second one ends at once; so does the first while there is nothing to drain."""
        self._signals += 1
        if self._signals > 1 or not self._node.booted.is_set():
            _log.warning("aborted")
            self._end_with(ProcessEnd.ABORTED)
            return
        _log.info("draining")
        self._start(self._node.drain())
        self._start(self._end_in_time())

    async def _end_in_time(self) -> None:
        """What waits for disk space, or for an unknown reason, is given up: no client has a promise of it."""
        await asyncio.sleep(self._node.config.timings.drain_ms / 1000 + _LAST_STEPS_S)
        _log.warning("not drained in time; the next start recovers")
        self._end_with(ProcessEnd.ABORTED)


def _on_signals(numbers: Sequence[signal.Signals], action: Callable[[], None]) -> None:
    """Do `action` on the loop, once for each of these signals that comes.

    Not by `add_signal_handler`: uvloop 0.23 calls it twice for a signal that comes while another one is taken in.
    """
    loop = asyncio.get_running_loop()
    for number in numbers:
        signal.signal(number, lambda *_: loop.call_soon_threadsafe(action))


async def _tell_turned_away(*listeners: Listener | PeerListener) -> None:
    """A log line for each time in which calls were not admitted: a client's key is wrong, or a client tries keys."""
    while True:
        await asyncio.sleep(_TELL_TURNED_AWAY_S)
        for listener in listeners:
            found = listener.turned_away()
            if found:
                _log.warning(
                    "calls were not admitted",
                    extra={
                        "listener": listener.name,
                        "calls": sum(found.values()),
                        "seconds": _TELL_TURNED_AWAY_S,
                        "reason": listener.last_reason,
                        "addresses": dict(sorted(found.items(), key=lambda one: -one[1])[:_ADDRESSES_LOGGED]),
                    },
                )


async def _closed(name: str, closing: Awaitable[Any]) -> None:
    """Wait a limited time until something is closed: everything that matters is durable (RL136)."""
    try:
        async with asyncio.timeout(_CLOSE_S):
            await closing
    except TimeoutError:
        _log.warning("did not close in time", extra={"what": name})


def _end_process(status: int) -> NoReturn:
    """Now: neither a thread that waits for a failed disk nor a stream that will not end keeps the process alive."""
    logging.shutdown()
    sys.stderr.flush()
    os._exit(status)


def _write_addresses(file: Path, addresses: dict[str, str]) -> None:
    """Where to find this process, for tools: ports that were configured as 0 among it."""
    fresh = file.with_suffix(".new")
    fresh.write_text(json.dumps({"pid": os.getpid(), **addresses}) + "\n")
    fresh.replace(file)


def _with_port(address: str, port: int) -> str:
    return f"{address.rpartition(':')[0]}:{port}"


async def _run(config: BrokerConfig) -> NoReturn:
    await BrokerProcess(config).run()


def main(arguments: list[str]) -> NoReturn:
    """`python -m data_plane.broker --config FILE`"""
    parser = argparse.ArgumentParser(prog="penstock-broker", description="One Penstock broker.")
    parser.add_argument(
        "--config", type=Path, required=True, help="JSON file, see docs/reference/settings.md"
    )
    chosen = parser.parse_args(arguments)
    try:
        config = read_config(chosen.config, os.environ)
        logs.set_up("broker", level=config.log_level, broker=config.broker_id)
        sys.setswitchinterval(SWITCH_INTERVAL_S)
        uvloop.run(_run(config))
    except _CANNOT_START as wrong:
        print(f"penstock-broker: {wrong}", file=sys.stderr, flush=True)
        _end_process(ProcessEnd.CANNOT_START)
