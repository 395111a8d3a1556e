"""What `penstock config check` looks at in a broker's configuration."""

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from daemon import pepper_folder
from daemon.config_check import (
    CONNECT_S,
    Finding,
    bindable,
    identity,
    is_absent,
    ok,
    private,
    read_values,
    readable,
    usable_folder,
    valid_now,
    wrong,
)
from daemon.identity import Role
from data_plane.broker.config import ENVIRONMENT_PREFIX, LISTENERS, BrokerConfig, pepper_of
from data_plane.broker.metadata_config import EtcdMetadata, open_store
from data_plane.broker.sqlite_store import StoreFault
from data_plane.metadata.port import StoreUnavailable
from penstock.contract.errors import ConfigurationError


class BrokerKind:
    """See `daemon.config_check.Kind`."""

    name = "broker"

    def recognizes(self, values: Mapping[str, Any]) -> bool:
        return "broker_id" in values or "pepper_files" in values

    def check(self, file: Path, environment: Mapping[str, str], *, connect: bool) -> Iterator[Finding]:
        config, found = read_values(file, BrokerConfig, environment, prefix=ENVIRONMENT_PREFIX)
        yield from found
        if config is None:
            return
        yield ok("the file", f"every value is possible, of broker {config.broker_id} of {config.cluster_id}")
        yield from _files(config)
        taken: dict[str, str] = {}
        for name in LISTENERS:
            address = getattr(config, name)
            if address in taken and not address.endswith(":0"):
                yield wrong(
                    name, f"{address} is {taken[address]}'s already; give each listener a port of its own"
                )
            else:
                yield bindable(name, address)
            taken.setdefault(address, name)
        if connect:
            if not isinstance(config.metadata, EtcdMetadata) and is_absent(Path(config.metadata)):
                yield ok("metadata", f"{config.metadata} is not there yet; the first broker makes it")
            else:
                yield asyncio.run(_store(config))


BROKER = BrokerKind()


def _files(config: BrokerConfig) -> Iterator[Finding]:
    yield usable_folder("data", config.data)
    yield from identity(config.identity, Role.BROKER, config.cluster_id, config.broker_id)
    for version, name in config.pepper_files.items():
        setting = f"pepper_files.{version}"
        yield private(setting, Path(name))
        yield from _tried(setting, lambda file=Path(name): pepper_of(file))
    if config.pepper_folder is not None:
        for number in pepper_folder.versions(config.pepper_folder):
            yield private("pepper_folder", config.pepper_folder / str(number))
    if config.tls_certificate_file is not None and config.tls_key_file is not None:
        yield readable("tls_certificate_file", config.tls_certificate_file)
        yield private("tls_key_file", config.tls_key_file)
        yield from _tried("tls_certificate_file", config.tls)
        yield from valid_now("tls_certificate_file", config.tls_certificate_file)
    if isinstance(config.metadata, EtcdMetadata):
        yield from _tried("metadata", config.metadata.client_config)
    else:
        yield usable_folder("metadata", Path(config.metadata).absolute().parent)


def _tried(setting: str, read: Any) -> Iterator[Finding]:
    """A finding when the process itself would refuse it."""
    try:
        read()
    except ConfigurationError as error:
        yield wrong(setting, f"{error.message.removeprefix(f'{setting}: ')}; put the right content there")


async def _store(config: BrokerConfig) -> Finding:
    """Whether the metadata store answers."""
    try:
        async with asyncio.timeout(CONNECT_S), AsyncExitStack() as stack:
            store = await open_store(config.metadata, config.cluster_id)
            stack.push_async_callback(store.close)
            await store.range("cluster")
    except (StoreUnavailable, StoreFault, ConfigurationError, TimeoutError) as error:
        return wrong(
            "metadata",
            f"the store does not answer: {str(error) or 'no answer in time'}; start it, or correct metadata",
        )
    return ok("metadata", "the store answers")
