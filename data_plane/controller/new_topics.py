"""Many new topics in few transactions, each as large as metadata stores take; a refusal of one stops no other."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from data_plane.controller import topics
from data_plane.controller.batches import BATCH_BYTES_MAX
from data_plane.metadata import model
from data_plane.metadata.image import ClusterImage
from data_plane.metadata.port import CHANGES_PER_TXN_MAX, Change, Compare, Put
from penstock.contract.errors import PenstockError
from penstock.contract.ids import TenantId, TopicId
from penstock.contract.topic_settings import TopicSettings

TOPICS_A_TURN = 120
"""Looked at in one turn of the event loop, whether they are made or refused: a few milliseconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedTopic:
    """What `topics.create_topic` is asked for."""

    topic_id: TopicId
    tenant: TenantId
    name: str
    settings: TopicSettings
    assignments: Sequence[Sequence[int]]
    generation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """What becomes of one topic once the transaction is applied: refused, outdated (`ignored`), or else it is there."""

    refusal: PenstockError | None = None
    ignored: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTopics:
    """Apply it; then the first topics asked for are `settled`, in their order. No changes: they are so already."""

    compares: tuple[Compare, ...]
    changes: tuple[Change, ...]
    settled: tuple[Settled, ...]
    ignored: bool = False
    """Never as a whole."""


def create_topics(image: ClusterImage, wanted: Sequence[WantedTopic]) -> NewTopics:
    """As many of the topics, from the first on, as one transaction can make; at least one.

    Each is decided as if those before it were made already. Where the image does not say that, because two have
    one name or id, or a topic that is there is changed, the transaction ends before.
    """
    batch = _Transaction()
    settled: list[Settled] = []
    for topic in wanted[:TOPICS_A_TURN]:
        if batch.is_closed:
            break
        try:
            new = topics.create_topic(
                image,
                topic.topic_id,
                topic.tenant,
                topic.name,
                topic.settings,
                topic.assignments,
                generation=topic.generation,
                beside=batch.partitions[topic.tenant],
            )
        except PenstockError as refusal:
            settled.append(Settled(refusal=refusal))
            continue
        if new.changes and not batch.add(new, topic, is_new=topic.topic_id not in image.topics):
            break
        settled.append(Settled(ignored=new.ignored))
    return NewTopics(
        compares=tuple(batch.compares.values()),
        changes=tuple(batch.changes.values()),
        settled=tuple(settled),
    )


class _Transaction:
    """Of several topics. Within one image a key has one revision, so each is compared once."""

    def __init__(self) -> None:
        self.compares: dict[str, Compare] = {}
        self.changes: dict[str, Change] = {}
        self.partitions: Counter[TenantId] = Counter()
        """That it adds, by tenant."""
        self.is_closed = False
        """Nothing can be decided beside what it holds."""
        self._bytes = 0

    def add(self, new: topics.NewTopic, topic: WantedTopic, *, is_new: bool) -> bool:
        """False: it needs a transaction of its own, or a later one. The first one always fits."""
        use_key = model.use_key(topic.tenant)  # counted on, from topic to topic
        compares = [compare for compare in new.compares if compare.key not in self.compares]
        changes = [change for change in new.changes if change.key not in self.changes]
        again = [change.key for change in new.changes if change.key in self.changes]
        size = sum(len(change.value) for change in changes if isinstance(change, Put))
        if self.changes and (
            not is_new
            or any(key != use_key for key in again)
            or len(self.compares) + len(compares) > CHANGES_PER_TXN_MAX
            or len(self.changes) + len(changes) > CHANGES_PER_TXN_MAX
            or self._bytes + size > BATCH_BYTES_MAX
        ):
            return False
        self.compares.update((compare.key, compare) for compare in compares)
        self.changes.update((change.key, change) for change in new.changes)
        self.partitions[topic.tenant] += new.record.partitions
        self._bytes += size
        self.is_closed = not is_new
        return True
