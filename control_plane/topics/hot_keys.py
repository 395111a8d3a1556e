"""Frequent keys of a topic's partitions, as producers report them to the leaders. Asked for, and kept by nothing here.

Keys are data of the tenant as messages are: who may not read the topic's messages is not to see them.
"""

import base64
import codecs
from dataclasses import dataclass

from control_plane.brokers import client as brokers
from control_plane.brokers.view import HotKeySeen
from control_plane.topics import queries
from tenants.models import Tenant


@dataclass(frozen=True, slots=True, kw_only=True)
class HotKey:
    """One key as it is shown."""

    key: str
    encoding: str
    """`utf-8`: as text; `base64`: it is no printable text."""
    size: int
    """Of the whole key, in bytes."""
    cut: bool
    """Only its beginning is known."""
    share_percent: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HotKeysOfPartition:
    """The frequent keys of one partition, those with the largest share first."""

    partition: int
    messages: int
    """That its leader took in about the last minute."""
    keys: tuple[HotKey, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class HotKeysOfTopic:
    name: str
    topic_id: str
    partitions: tuple[HotKeysOfPartition, ...]
    silent_brokers: tuple[int, ...]
    """They did not answer, or are of a release that does not know hot keys: their partitions are left out."""


def hot_keys(tenant: Tenant, name: str, visible: queries.Visible | None = None) -> HotKeysOfTopic:
    """Of one topic of the tenant. Raises `NotFound`, `BrokerUnavailable`."""
    row = queries.topic(tenant, name, visible)
    seen, silent = brokers.hot_keys(row.topic_id, queries.ASK_S)
    return HotKeysOfTopic(
        name=row.name,
        topic_id=row.topic_id,
        partitions=tuple(
            HotKeysOfPartition(
                partition=part.partition,
                messages=part.messages,
                keys=tuple(_shown(key, part.messages) for key in part.keys),
            )
            for part in sorted(seen, key=lambda part: part.partition)
        ),
        silent_brokers=tuple(silent),
    )


def _shown(seen: HotKeySeen, messages: int) -> HotKey:
    cut = seen.size > len(seen.key)
    text = _text(seen.key, cut=cut)
    return HotKey(
        key=base64.b64encode(seen.key).decode() if text is None else text,
        encoding="base64" if text is None else "utf-8",
        size=seen.size,
        cut=cut,
        share_percent=min(100, seen.messages * 100 // max(1, messages)),
    )


def _text(key: bytes, *, cut: bool) -> str | None:
    """None: it is no printable text. Its beginning may end within a character, which is left out then."""
    try:
        text = codecs.getincrementaldecoder("utf-8")().decode(key, final=not cut)
    except UnicodeDecodeError:
        return None
    return text if text.isprintable() else None
