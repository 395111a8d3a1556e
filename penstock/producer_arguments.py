"""The arguments of a producer, for checkers of types: `Client.producer` has a form for each choice of serializers."""

from __future__ import annotations

from os import PathLike
from typing import Literal, TypedDict

from penstock.client.settings import FullPolicy, Partitioner


class ProducerArguments(TypedDict, total=False):
    """What `Client.producer` takes beside its serializers, which decide the type of what is sent."""

    acks: Literal["all", 0, 1] | str
    compression: str
    linger_ms: float
    batch_bytes: int
    batch_messages: int
    idempotent: bool
    delivery_timeout_ms: float
    buffer_bytes: int
    on_full: FullPolicy
    max_block_ms: float
    max_attempts: int | None
    retry_backoff_ms: float
    retry_backoff_max_ms: float
    partitioner: Partitioner | None
    message_ids: bool
    receipts: str | PathLike[str] | None
    sample_keys: bool
    report_hot_keys: bool
