"""Copying a metadata store and confirming one that went back: `python -m data_plane.broker.metadata`.

    export  --config broker.json --to FILE      the store as a file; brokers may go on
    import  --config broker.json --from FILE    into an empty store, with every broker stopped
    confirm --config broker.json --why TEXT     let brokers act on a store that is older than what they saw (RL55)

The store is the one that the configuration names. Exit status 0 = done, 1 = refused or failed, with the reason.
"""

import argparse
import asyncio
import getpass
import os
import secrets
import sys
from collections.abc import Sequence
from pathlib import Path

from data_plane.broker import sqlite_schema
from data_plane.broker.config import BrokerConfig, read_config
from data_plane.broker.metadata_config import EtcdMetadata, open_store
from data_plane.broker.sqlite_store import StoreFault
from data_plane.metadata.copying import (
    CopyRefused,
    Export,
    confirm,
    decode_export,
    encode_export,
    fill,
    take_export,
)
from data_plane.metadata.port import OutcomeUnknown, StoreUnavailable, StoreWentBack
from penstock.contract.errors import ConfigurationError

_FAILURES = (
    ConfigurationError,
    CopyRefused,
    OSError,
    OutcomeUnknown,
    StoreFault,
    StoreUnavailable,
    StoreWentBack,
)


async def export_to(config: BrokerConfig, file: Path) -> str:
    """Write the store into a file that only this user can read: it holds verifiers of keys. Returns what was done."""
    store = await open_store(config.metadata, config.cluster_id)
    try:
        export = await take_export(store)
    finally:
        await store.close()
    await asyncio.to_thread(_write, file, export)
    return f"{len(export.items)} keys of {export.cluster_id!r} at revision {export.revision} in {file}"


async def import_from(config: BrokerConfig, file: Path) -> str:
    """Fill an empty store. Raises `CopyRefused`."""
    export = await asyncio.to_thread(_read, file)
    if export.cluster_id and export.cluster_id != config.cluster_id:
        raise CopyRefused(f"{file}: holds the cluster {export.cluster_id!r}, not {config.cluster_id!r}")
    if not isinstance(config.metadata, EtcdMetadata):
        await asyncio.to_thread(sqlite_schema.begin_at, Path(config.metadata), export.revision)
    store = await open_store(config.metadata, config.cluster_id, base=export.revision)
    try:
        revision = await fill(store, export, secrets.token_hex(8))
    finally:
        await store.close()
    return f"{len(export.items)} keys of {export.cluster_id!r} imported, now at revision {revision}"


async def confirm_store(config: BrokerConfig, why: str) -> str:
    """See `data_plane.metadata.copying.confirm`."""
    store = await open_store(config.metadata, config.cluster_id)
    try:
        blocks = await confirm(store, secrets.token_hex(8), f"{getpass.getuser()}: {why}")
    finally:
        await store.close()
    return f"confirmed, with {blocks} partition blocks to elect again; start every broker"


def main(arguments: Sequence[str]) -> int:
    """The exit status."""
    parser = argparse.ArgumentParser(prog="python -m data_plane.broker.metadata", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    tasks = parser.add_subparsers(dest="task", required=True)
    for name in ("export", "import", "confirm"):
        task = tasks.add_parser(name)
        task.add_argument("--config", type=Path, required=True, help="a broker's JSON file")
        if name == "export":
            task.add_argument(
                "--to", type=Path, required=True, dest="file", help="a file that is not there yet"
            )
        elif name == "import":
            task.add_argument("--from", type=Path, required=True, dest="file", help="what export wrote")
        else:
            task.add_argument("--why", required=True, help="kept in the store, with your user name")
    chosen = parser.parse_args(arguments)
    try:
        config = read_config(chosen.config, os.environ)
        if chosen.task == "export":
            said = asyncio.run(export_to(config, chosen.file))
        elif chosen.task == "import":
            said = asyncio.run(import_from(config, chosen.file))
        else:
            said = asyncio.run(confirm_store(config, chosen.why))
    except _FAILURES as failure:
        print(f"{chosen.task}: {failure}", file=sys.stderr)
        return 1
    print(said)
    return 0


def _write(file: Path, export: Export) -> None:
    handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as out:
        out.writelines(encode_export(export))
        out.flush()
        os.fsync(out.fileno())


def _read(file: Path) -> Export:
    with file.open(encoding="utf-8") as lines:
        try:
            return decode_export(lines)
        except CopyRefused as refusal:
            raise CopyRefused(f"{file}: {refusal}") from None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
