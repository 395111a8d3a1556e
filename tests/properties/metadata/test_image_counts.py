"""How many partitions each broker leads and holds is counted as the image changes, and is always what walking says."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from data_plane.metadata import model
from data_plane.metadata.image import ClusterImage
from data_plane.metadata.port import Event, KeyValue, WatchBatch
from penstock.contract.ids import NO_BROKER, BrokerId, TopicId

TOPICS = [TopicId(bytes([number]) * 16) for number in (1, 2)]
BROKERS = [BrokerId(number) for number in range(4)]


@st.composite
def blocks(draw: st.DrawFn) -> bytes:
    """Some partitions, each led by one of its replicas or by nobody."""
    records = {}
    for partition in draw(st.sets(st.integers(0, model.PARTITIONS_PER_BLOCK - 1), max_size=4)):
        replicas = tuple(draw(st.lists(st.sampled_from(BROKERS), min_size=1, max_size=3, unique=True)))
        records[partition] = model.PartitionRecord(
            partition=partition,
            replicas=replicas,
            replica_generations=(1,) * len(replicas),
            leader=draw(st.sampled_from([*replicas, NO_BROKER])),
        )
    return model.encode_block(records)


CHANGES = st.lists(
    st.tuples(st.sampled_from(TOPICS), st.integers(0, 2), st.none() | blocks()), min_size=1, max_size=12
)


def walked(image: ClusterImage) -> tuple[Counter[BrokerId], Counter[BrokerId]]:
    leaders: Counter[BrokerId] = Counter()
    replicas: Counter[BrokerId] = Counter()
    for topic_id in TOPICS:
        for record in image.partitions_of(topic_id):
            leaders[record.leader] += 1
            replicas.update(record.replicas)
    return leaders, replicas


@given(CHANGES)
def test_what_is_counted_is_what_walking_finds_after_each_change_and_after_a_listing(
    changes: list[tuple[TopicId, int, bytes | None]],
) -> None:
    image = ClusterImage()
    stored: dict[str, bytes] = {}
    for revision, (topic_id, block, value) in enumerate(changes, 1):
        key = model.block_key(topic_id, block * model.PARTITIONS_PER_BLOCK)
        if value is None:
            stored.pop(key, None)
        else:
            stored[key] = value
        image.apply(WatchBatch(revision, (Event(key, value, revision),)))
        assert (image.leader_counts, image.replica_counts) == walked(image)
    listed = ClusterImage()
    listed.load([KeyValue(key, value, 1) for key, value in sorted(stored.items())], len(changes))
    assert (listed.leader_counts, listed.replica_counts) == walked(image)
