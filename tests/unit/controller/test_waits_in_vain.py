"""When a draining broker need not wait for others to lead."""

from data_plane.controller.registration import waits_in_vain
from data_plane.metadata import broker_records, model
from data_plane.metadata.image import ClusterImage
from data_plane.metadata.port import KeyValue
from penstock.contract.ids import BrokerId, TenantId, TopicId
from penstock.contract.topic_settings import TopicSettings

_TOPIC = TopicId(bytes(16))


def _image(*, draining: tuple[int, ...], in_sync: tuple[int, ...]) -> ClusterImage:
    values: dict[str, bytes] = {
        model.topic_key(_TOPIC): model.TopicRecord(
            topic_id=_TOPIC, tenant=TenantId("t"), name="n", partitions=1, settings=TopicSettings()
        ).encode(),
        model.block_key(_TOPIC, 0): model.encode_block(
            {
                0: model.PartitionRecord(
                    partition=0,
                    replicas=(BrokerId(1), BrokerId(2)),
                    replica_generations=(1, 1),
                    leader=BrokerId(1),
                    leader_epoch=1,
                    in_sync=tuple(BrokerId(number) for number in in_sync),
                )
            }
        ),
    }
    for number in (1, 2):
        values[broker_records.live_key(number)] = broker_records.LiveRecord(
            incarnation="i", directory_id="d"
        ).encode()
        values[broker_records.broker_key(number)] = broker_records.BrokerRecord(
            broker_id=BrokerId(number),
            directory_id="d",
            client_address="c:1",
            internal_address="i:1",
            zone="z",
            draining=number in draining,
        ).encode()
    image = ClusterImage()
    image.load([KeyValue(key, value, 5) for key, value in values.items()], 9)
    return image


def test_a_draining_leader_waits_while_an_in_sync_broker_can_take_over() -> None:
    assert not waits_in_vain(_image(draining=(1,), in_sync=(1, 2)), BrokerId(1))


def test_a_draining_leader_does_not_wait_for_brokers_that_drain_too() -> None:
    assert waits_in_vain(_image(draining=(1, 2), in_sync=(1, 2)), BrokerId(1))


def test_a_draining_leader_does_not_wait_when_nobody_else_is_in_sync() -> None:
    assert waits_in_vain(_image(draining=(1,), in_sync=(1,)), BrokerId(1))
