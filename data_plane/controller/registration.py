"""Registration and the controller key: how a broker gets its authority, and how it is taken from it.

    fenced --departures applied until none is left--> nothing led --registration--> registered (broker epoch)
    registered --fence_changes by the controller | session ends | draining broker stops--> fenced

The broker epoch is the revision of the registration's key; the controller epoch that of the controller's key.
"""

from dataclasses import dataclass

from data_plane.controller.elections import alive_in, moved_from
from data_plane.metadata import broker_records
from data_plane.metadata.features import FEATURES_KEY, Supported, VersionRecord, version_key
from data_plane.metadata.image import ClusterImage
from data_plane.metadata.port import Change, Compare, Delete, KeyValue, Put
from penstock.contract.ids import BrokerId

Transaction = tuple[tuple[Compare, ...], tuple[Change, ...]]


@dataclass(frozen=True, slots=True)
class AlreadyRegistered:
    """This incarnation holds the registration: an earlier try was applied (RL2)."""

    broker_epoch: int


@dataclass(frozen=True, slots=True)
class FenceFirst:
    """Another incarnation holds the registration: apply this, then the departures, then ask again (RL3)."""

    compares: tuple[Compare, ...]
    changes: tuple[Change, ...]


@dataclass(frozen=True, slots=True)
class Register:
    """Apply this; the revision it is applied at is the broker epoch. An unknown outcome: read again and ask
    again.
    """

    compares: tuple[Compare, ...]
    changes: tuple[Change, ...]


def registration(
    live: KeyValue | None,
    known: KeyValue | None,
    record: broker_records.BrokerRecord,
    registration_record: broker_records.LiveRecord,
    session_id: int,
    supported: Supported,
    features_revision: int,
) -> AlreadyRegistered | FenceFirst | Register:
    """What a broker must do to be registered as `record` under `registration_record.incarnation` (RL2, RL3).

    `live` and `known` are the keys /live/<broker> and /brokers/<broker> as just read, None if absent.
    Asking again with the same incarnation after an unknown outcome gives the same registration, never a
    second one. `features_revision` is that of the feature level in force, which `supported` includes: under another one
    this registration is not applied.
    """
    key = broker_records.live_key(record.broker_id)
    if live is not None:
        found = broker_records.LiveRecord.decode(live.value)
        if same_incarnation(found.incarnation, registration_record.incarnation):
            return AlreadyRegistered(live.mod_revision)
        return FenceFirst((Compare(key, live.mod_revision),), (Delete(key),))
    about = broker_records.broker_key(record.broker_id)
    version = VersionRecord(
        incarnation=registration_record.incarnation,
        version=supported.version,
        level_min=supported.lowest,
        level_max=supported.highest,
    )
    return Register(
        (
            Compare(key, 0),
            Compare(about, 0 if known is None else known.mod_revision),
            Compare(FEATURES_KEY, features_revision),
        ),
        (
            Put(key, registration_record.encode(), session_id),
            Put(about, record.encode()),
            Put(version_key(record.broker_id), version.encode(), session_id),
        ),
    )


def same_incarnation(registered: str, mine: str) -> bool:
    """Is the existing registration my own, put by an earlier try (RL2)?"""
    return registered == mine


def draining_changes(image: ClusterImage, broker: BrokerId) -> Transaction | None:
    """Mark a broker as shutting down (RL50), under its own registration. None = it is marked or fenced
    already.
    """
    known = image.brokers.get(broker)
    if known is None or known.epoch == 0 or known.record.draining:
        return None
    record = broker_records.BrokerRecord(
        broker_id=broker,
        directory_id=known.record.directory_id,
        client_address=known.record.client_address,
        internal_address=known.record.internal_address,
        peer_address=known.record.peer_address,
        zone=known.record.zone,
        host=known.record.host,
        draining=True,
    )
    key = broker_records.broker_key(broker)
    return (
        (Compare(broker_records.live_key(broker), known.epoch), Compare(key, known.record_revision)),
        (Put(key, record.encode()),),
    )


def waits_in_vain(image: ClusterImage, broker: BrokerId) -> bool:
    """Can no other broker lead what a draining broker still leads? Waiting longer then moves nothing (RL50).

    So it is with a topic of one replica, and when all brokers stop at once.
    """
    alive = alive_in(image)
    return not any(
        record.leader == broker and moved_from(record, broker, alive=alive) is not None
        for topic_id in sorted(image.blocks)
        for record in image.partitions_of(topic_id)
        if topic_id in image.topics
    )


def may_stop(image: ClusterImage, broker: BrokerId) -> bool:
    """Does a draining broker lead nothing any more (RL50)? A partition that no other broker may lead stays until
    time is up.
    """
    return not any(
        record.leader == broker
        for topic_id in sorted(image.blocks)
        for record in image.partitions_of(topic_id)
        if topic_id in image.topics
    )


def takeover_changes(
    image: ClusterImage, me: BrokerId, incarnation: str, session_id: int, *, suspected: bool
) -> Transaction | None:
    """Take the controller key, in one transaction: it must still be what this image knows, and I must be
    registered.

    `suspected` = the holder was silent or its connection was reset: its registration is fenced with it.
    Without a suspicion the key is taken only if it is free, left over from an earlier incarnation of mine,
    or held by a fenced broker. None = not allowed to now.
    """
    mine = image.epoch_of(me)
    if mine == 0 or (image.controller is not None and image.controller.incarnation == incarnation):
        return None
    compares = [
        Compare(broker_records.live_key(me), mine),
        Compare(broker_records.CONTROLLER_KEY, image.controller_epoch),
    ]
    changes: list[Change] = []
    holder_epoch = image.epoch_of(image.controller_id)
    if image.controller_id != me and holder_epoch != 0:
        if not suspected:
            return None
        key = broker_records.live_key(image.controller_id)
        compares.append(Compare(key, holder_epoch))
        changes.append(Delete(key))
    record = broker_records.ControllerRecord(broker_id=me, incarnation=incarnation)
    changes.append(Put(broker_records.CONTROLLER_KEY, record.encode(), session_id))
    return tuple(compares), tuple(changes)
