"""Reads a receipts file, also while its producer writes it."""

import os
from datetime import date

from penstock.contract.errors import ConfigurationError
from penstock.contract.ids import TopicId, TopicPartition
from penstock.receipts.format import unpack
from penstock.receipts.values import AcknowledgedRange, Receipts, ReceiptsSource

_EPOCH = date(1970, 1, 1).toordinal()


def read_receipts(path: str | os.PathLike[str]) -> Receipts:
    """What the file says. An interrupted write is left out, and counted in `ReceiptsSource.torn_bytes`.

    Raises `ConfigurationError` when it cannot be read, is no receipts file, or is one of another version.
    """
    shown = os.fspath(path)
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError as error:
        raise ConfigurationError(f"receipts: {shown} cannot be read: {error.strerror}") from error
    content = unpack(data, shown)
    ranges: dict[TopicPartition, list[AcknowledgedRange]] = {}
    for key, spans in content.spans:
        day = date.fromordinal(_EPOCH + key.day)
        ranges.setdefault(TopicPartition(TopicId(key.topic_id), key.partition), []).extend(
            AcknowledgedRange(
                first_offset=span.first,
                end_offset=span.end,
                bytes=span.size,
                day=day,
                leader_epoch=key.leader_epoch,
                acks=key.acks,
                source=shown,
            )
            for span in spans
        )
    source = ReceiptsSource(path=shown, file_id=content.file_id, torn_bytes=max(0, len(data) - content.end))
    return Receipts.merged(
        Receipts(
            sources=(source,),
            topics={TopicId(topic_id): name for topic_id, name in content.topics.items()},
            ranges={where: tuple(of_partition) for where, of_partition in ranges.items()},
        )
    )
