"""A metadata store as a file, and a store made from one: all keys but those of sessions, in order of revision.

The file is lines of JSON: a head (format, cluster, revision, lineage, number of keys), one line a key sorted by
(mod_revision, key), and a last line with the SHA-256 of all before it.

Nothing can give a key of etcd the revision that it had. A copy therefore begins at the revision of the export, and
writes the keys in the order of their old revisions: every revision of the copy is above every revision that the old
store ever gave, and of any two keys the one changed later is so in the copy as well.
"""

import base64
import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from data_plane.metadata import broker_records, model
from data_plane.metadata.lineage import LINEAGE_KEY, LineageRecord
from data_plane.metadata.port import (
    CHANGES_PER_TXN_MAX,
    Compare,
    KeyValue,
    MetaStore,
    OutcomeUnknown,
    Put,
    TxnResult,
)
from penstock.contract.ids import NO_BROKER

FORMAT = 1
EVERYTHING = "/"
EPOCHS_AHEAD = 10_000
"""More than elections and changes of one partition between a backup and its restoring."""
PRINCIPALS_AHEAD = 1_000_000
PRODUCER_IDS_AHEAD = 1_000_000_000
_TXN_BYTES_MAX = 500_000
"""etcd takes 1.5 MiB in one request."""


class CopyRefused(Exception):
    """The file or the store cannot be used for it; the message says why and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Export:
    """Everything that a store has at `revision`, sorted by (mod_revision, key)."""

    cluster_id: str
    revision: int
    lineage: LineageRecord
    items: tuple[KeyValue, ...]


async def take_export(store: MetaStore) -> Export:
    """What the store holds now, at one revision. Brokers may go on meanwhile. Raises `StoreUnavailable`."""
    listing = await store.range(EVERYTHING)
    by_key = {item.key: item for item in listing.items}
    lineage = by_key.pop(LINEAGE_KEY, None)
    cluster = by_key.get(broker_records.CLUSTER_KEY)
    kept = [item for item in by_key.values() if not item.session_id]
    return Export(
        cluster_id="" if cluster is None else broker_records.ClusterRecord.decode(cluster.value).cluster_id,
        revision=listing.revision,
        lineage=LineageRecord() if lineage is None else LineageRecord.decode(lineage.value),
        items=tuple(sorted(kept, key=lambda item: (item.mod_revision, item.key))),
    )


def encode_export(export: Export) -> Iterator[str]:
    """The lines of its file."""
    digest = hashlib.sha256()
    head = {
        "penstock_metadata": FORMAT,
        "cluster_id": export.cluster_id,
        "revision": export.revision,
        "lineage": json.loads(export.lineage.encode()),
        "keys": len(export.items),
    }
    rows = (
        {"key": i.key, "mod_revision": i.mod_revision, "value": base64.b64encode(i.value).decode()}
        for i in export.items
    )
    for row in (head, *rows):
        line = json.dumps(row) + "\n"
        digest.update(line.encode())
        yield line
    yield json.dumps({"sha256": digest.hexdigest()}) + "\n"


def decode_export(lines: Iterable[str]) -> Export:
    """Raises `CopyRefused` for what is no whole file of this format."""
    digest = hashlib.sha256()
    rows: list[Any] = []
    for line in lines:
        try:
            rows.append(json.loads(line))
        except ValueError:
            raise CopyRefused(
                f"line {len(rows) + 1} is not JSON: the file is no export, or damaged"
            ) from None
        if isinstance(rows[-1], dict) and "sha256" in rows[-1]:
            break
        digest.update(line.encode())
    if not rows or not isinstance(rows[0], dict) or rows[0].get("penstock_metadata") != FORMAT:
        raise CopyRefused(f"the file is no export of metadata in format {FORMAT}")
    if rows[-1].get("sha256") != digest.hexdigest() or len(rows) != rows[0]["keys"] + 2:
        raise CopyRefused(
            "the file is not whole, or was changed: its checksum does not hold; take another one"
        )
    head = rows[0]
    return Export(
        cluster_id=head["cluster_id"],
        revision=head["revision"],
        lineage=LineageRecord.decode(json.dumps(head["lineage"]).encode()),
        items=tuple(
            KeyValue(row["key"], base64.b64decode(row["value"]), row["mod_revision"]) for row in rows[1:-1]
        ),
    )


async def fill(store: MetaStore, export: Export, lineage_id: str) -> int:
    """Write an export into an empty store whose revisions begin at the export's; returns its revision after that.

    Raises `CopyRefused` when it is not empty or begins lower, `StoreUnavailable`: empty it and begin again.
    """
    found = await store.range(EVERYTHING)
    if found.items:
        raise CopyRefused(f"the store holds {len(found.items)} keys; import needs an empty one")
    if found.revision < export.revision:
        raise CopyRefused(
            f"the store begins at revision {found.revision}, the export ends at {export.revision}"
        )
    line = export.lineage.copied(lineage_id, export.revision)
    revision = (await _put(store, [Put(LINEAGE_KEY, line.encode())])).revision
    for _, group in groupby(export.items, key=lambda item: item.mod_revision):
        puts = [Put(item.key, item.value) for item in group]
        for first in range(0, len(puts), CHANGES_PER_TXN_MAX):
            revision = (await _put(store, puts[first : first + CHANGES_PER_TXN_MAX])).revision
    return revision


async def _put(store: MetaStore, puts: list[Put]) -> TxnResult:
    """Create these keys, once, also when an answer is lost."""
    while True:
        try:
            result = await store.txn([Compare(put.key, 0) for put in puts], puts)
        except OutcomeUnknown:
            continue
        if not result.succeeded:
            for put in puts:
                found = [item for item in (await store.range(put.key)).items if item.key == put.key]
                if not found or found[0].value != put.value:
                    raise CopyRefused(
                        f"{put.key}: another process writes to the store; begin again with an empty one"
                    )
        return result


async def confirm(store: MetaStore, lineage_id: str, said: str) -> int:
    """Let brokers act on a store that went back; returns how many blocks of partitions were changed.

    What the store says of leaders, in-sync sets and epochs is older than what brokers did. Every partition is left
    without a leader and with all replicas as last known ones, so that the one whose log goes furthest is elected once
    all are back (RL47), in an epoch above any that its log can hold (RL4); numbers that are given once go ahead. The
    new line is written last: no broker acts before. Raises `CopyRefused` while brokers are registered.
    """
    listing = await store.range(EVERYTHING)
    live = [
        item.key.rpartition("/")[2].lstrip("0") for item in listing.items if item.key.startswith("/live/")
    ]
    if live:
        raise CopyRefused(
            f"brokers {', '.join(live)} are registered; stop them, wait for their sessions to end"
        )
    blocks = [item for item in listing.items if item.key.startswith("/partitions/")]
    for chunk in _chunks(blocks):
        await _rewrite(store, [(item, restored_block(item.value)) for item in chunk])
    counters = {model.NEXT_PRINCIPAL_KEY: PRINCIPALS_AHEAD, model.NEXT_PRODUCER_ID_KEY: PRODUCER_IDS_AHEAD}
    ahead = [
        (item, str(int(item.value) + counters[item.key]).encode())
        for item in listing.items
        if item.key in counters
    ]
    await _rewrite(store, ahead)
    found = next((item for item in listing.items if item.key == LINEAGE_KEY), None)
    line = LineageRecord(lineage_id=lineage_id, confirmed=True, said=said)
    result = await store.txn(
        [Compare(LINEAGE_KEY, 0 if found is None else found.mod_revision)], [Put(LINEAGE_KEY, line.encode())]
    )
    if not result.succeeded:
        raise CopyRefused(
            "another operator has confirmed the store at the same time; look before doing it again"
        )
    return len(blocks)


def restored_block(value: bytes) -> bytes:
    """A partition block as `confirm` leaves it: no leaders, every replica is a last known one, epochs far ahead."""
    records = model.decode_block(value)
    return model.encode_block(
        {
            number: replace(
                record,
                leader=NO_BROKER,
                leader_epoch=record.leader_epoch + EPOCHS_AHEAD,
                in_sync=(),
                eligible=(),
                last_known=record.settled_replicas,
                partition_epoch=record.partition_epoch + EPOCHS_AHEAD,
            )
            for number, record in records.items()
        }
    )


async def _rewrite(store: MetaStore, changes: list[tuple[KeyValue, bytes]]) -> None:
    if not changes:
        return
    result = await store.txn(
        [Compare(item.key, item.mod_revision) for item, _ in changes],
        [Put(item.key, value) for item, value in changes],
    )
    if not result.succeeded:
        raise CopyRefused("another process writes to the store; stop every broker and begin again")


def _chunks(blocks: list[KeyValue]) -> Iterator[list[KeyValue]]:
    chunk: list[KeyValue] = []
    for block in blocks:
        if chunk and (
            len(chunk) == CHANGES_PER_TXN_MAX
            or sum(len(item.value) for item in chunk) + len(block.value) > _TXN_BYTES_MAX
        ):
            yield chunk
            chunk = []
        chunk.append(block)
    if chunk:
        yield chunk
