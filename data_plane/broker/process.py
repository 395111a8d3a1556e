"""The broker process: ports bound, node run, signals obeyed, faults made fatal."""

import argparse
import asyncio
import json
import logging
import os
import signal
import sys
import time
from pathlib import Path

import grpc
from prometheus_client import CollectorRegistry

from data_plane.broker.clock import SystemClock, SystemRng
from data_plane.broker.config import BrokerConfig, read_config
from data_plane.broker.disk import RealDisk
from data_plane.broker.http import HttpListener
from data_plane.broker.logs import set_up_logs
from data_plane.broker.metrics import NodeCollector
from data_plane.broker.server import Listener, bind
from data_plane.broker.sqlite_store import SqliteStore
from data_plane.broker.transport import GrpcTransport
from data_plane.disk.port import DiskFault
from data_plane.node.broker_node import BrokerNode
from data_plane.node.committer import LogDirectoryFailed
from data_plane.node.directory import WrongDirectory
from penstock.contract.errors import ConfigurationError

_log = logging.getLogger("penstock.broker")

SWITCH_INTERVAL_S = 0.0005
"""A syncing thread's return waits for the interpreter lock; the default of 5 ms would be most of an acknowledgement."""
ADDRESS_FILE = "address.json"
EXIT_ABORTED = 1
EXIT_CANNOT_START = 2
EXIT_FAULT = 70
"""Our own bug, or a log directory that can no longer be trusted: start again and recover."""
_LOOP_BEAT_S = 0.5


class BrokerProcess:
    """One broker from configuration to exit status."""

    def __init__(self, config: BrokerConfig) -> None:
        self._config = config
        self._loop_turned = time.monotonic()
        self._fault: BaseException | None = None
        self._node: BrokerNode
        self._running: asyncio.Task[None]
        self._signals = 0

    async def run(self) -> int:
        """Serve until drained or failed; the exit status. Raises what keeps it from starting."""
        config = self._config
        client_server, client_port = bind(config.client_listen, self._credentials())
        internal_server, internal_port = bind(config.internal_listen, None)
        addresses = {
            "client": _with_port(config.client_listen, client_port),
            "internal": _with_port(config.internal_listen, internal_port),
        }
        disk, store = RealDisk(config.data), await SqliteStore.open(config.metadata)
        transport = GrpcTransport(config.cluster_secret())
        node = self._node = BrokerNode(
            config.node_config(addresses["client"], addresses["internal"]),
            clock=SystemClock(),
            rng=SystemRng(),
            transport=transport,
            disk=disk,
            store=store,
        )
        http = self._start_http(node)
        addresses["http"] = _with_port(config.http_listen, http.port)
        self._write_addresses(addresses)
        self._running = asyncio.create_task(node.run())
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, self._on_signal)
        turning = asyncio.create_task(self._turn())
        watching = asyncio.create_task(self._watch_store(store))
        serving = asyncio.create_task(self._serve(node, client_server, internal_server))
        _log.info("started", extra={"addresses": addresses})
        try:
            return await self._until_end()
        finally:
            for task in (turning, watching, serving):
                task.cancel()
            for server in (client_server, internal_server):
                await server.stop(grace=None)
            http.close()
            await transport.close()
            await store.close()
            disk.close()

    def _start_http(self, node: BrokerNode) -> HttpListener:
        registry = CollectorRegistry()
        registry.register(NodeCollector(node))
        host, _, port = self._config.http_listen.rpartition(":")
        return HttpListener(
            host,
            int(port),
            registry,
            not_ready=lambda: node.ready_reason,
            loop_age_s=lambda: time.monotonic() - self._loop_turned,
        )

    def _credentials(self) -> grpc.ServerCredentials | None:
        certificate, key = self._config.tls_certificate_file, self._config.tls_key_file
        if certificate is None or key is None:
            return None
        return grpc.ssl_server_credentials([(key.read_bytes(), certificate.read_bytes())])

    def _write_addresses(self, addresses: dict[str, str]) -> None:
        """Where to find this process, for tools: ports that were configured as 0 among it."""
        file = self._config.data / ADDRESS_FILE
        fresh = file.with_suffix(".new")
        fresh.write_text(json.dumps({"pid": os.getpid(), **addresses}))
        fresh.replace(file)

    async def _serve(self, node: BrokerNode, client: grpc.aio.Server, internal: grpc.aio.Server) -> None:
        """Take calls once the node has booted."""
        await node.booted.wait()
        secret = self._config.cluster_secret()
        client.add_generic_rpc_handlers((Listener(node.client_service, fault=self._fail),))
        internal.add_generic_rpc_handlers(
            (Listener(node.internal_service, cluster_secret=secret, fault=self._fail),)
        )
        await client.start()
        await internal.start()

    async def _turn(self) -> None:
        """Show that the loop turns (RL137)."""
        while True:
            self._loop_turned = time.monotonic()
            await asyncio.sleep(_LOOP_BEAT_S)

    async def _watch_store(self, store: SqliteStore) -> None:
        """A metadata file that failed can no longer be trusted (RL126)."""
        self._fail(await store.failed())

    async def _until_end(self) -> int:
        try:
            await self._running
        except asyncio.CancelledError:
            if self._fault is not None:
                return EXIT_FAULT
            _log.warning("aborted")
            return EXIT_ABORTED
        except LogDirectoryFailed as failed:
            _log.critical("the log directory failed; start again to recover", extra={"fault": str(failed)})
            return EXIT_FAULT
        except (ConfigurationError, DiskFault, WrongDirectory):
            raise
        except Exception:
            _log.exception("the broker failed")
            return EXIT_FAULT
        _log.info("drained")
        return 0

    def _fail(self, bug: BaseException) -> None:
        """Our own bug in a handler, or a store that failed: end the process (RL140)."""
        _log.critical("the broker cannot go on", extra={"fault": repr(bug)})
        self._fault = bug
        self._running.cancel()

    def _on_signal(self) -> None:
        """The first one drains, the second one ends at once."""
        self._signals += 1
        if self._signals > 1 or not self._node.booted.is_set():
            self._running.cancel()
            return
        _log.info("draining")
        self._draining = asyncio.create_task(self._node.drain())


def _with_port(address: str, port: int) -> str:
    return f"{address.rpartition(':')[0]}:{port}"


def main(arguments: list[str]) -> int:
    """`python -m data_plane.broker --config FILE`"""
    parser = argparse.ArgumentParser(prog="penstock-broker", description="One Penstock broker.")
    parser.add_argument(
        "--config", type=Path, required=True, help="JSON file, see data_plane/broker/config.py"
    )
    chosen = parser.parse_args(arguments)
    try:
        config = read_config(chosen.config, os.environ)
        set_up_logs(config.broker_id, config.log_level)
        sys.setswitchinterval(SWITCH_INTERVAL_S)
        return asyncio.run(BrokerProcess(config).run())
    except (ConfigurationError, DiskFault, WrongDirectory, OSError) as wrong:
        print(f"penstock-broker: {wrong}", file=sys.stderr)
        return EXIT_CANNOT_START
