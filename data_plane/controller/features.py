"""Raising the feature level of a cluster, and brokers that are below it."""

from data_plane.controller.tenants import Transaction
from data_plane.metadata import broker_records
from data_plane.metadata.features import FEATURES_KEY, LEVELS, FeaturesRecord, known_level
from data_plane.metadata.image import ClusterImage
from data_plane.metadata.port import Change, Compare, Put
from penstock.contract.errors import InvalidRequest
from penstock.contract.ids import BrokerId

_NAMED_MAX = 5


def set_level(image: ClusterImage, level: int) -> Transaction:
    """Put `level` in force. Raises `InvalidRequest` with what is in the way: a registered broker that does not support
    it, or a level on the way down that cannot be left. No changes = it is in force.
    """
    if known_level(level) is None:
        raise InvalidRequest(f"level {level}: this release knows levels 1 to {len(LEVELS)}")
    if level == image.level:
        return Transaction(compares=(), changes=())
    for passed in range(image.level, level, -1):
        about = known_level(passed)
        if about is None or not about.may_be_left:
            raise InvalidRequest(
                f"level {level}: the cluster is at level {image.level}, and level {passed} cannot be left"
            )
    behind = below(image, level)
    if behind:
        more = f" and {len(behind) - _NAMED_MAX} more" if len(behind) > _NAMED_MAX else ""
        raise InvalidRequest(
            f"level {level}: {', '.join(_described(image, broker) for broker in behind[:_NAMED_MAX])}{more};"
            " bring these brokers to a release that supports it, or stop them"
        )
    return Transaction(
        compares=(
            Compare(broker_records.CLUSTER_KEY, image.cluster_revision),
            Compare(FEATURES_KEY, image.features_revision),
        ),
        changes=at_level(image.cluster_id, level),
    )


def at_level(cluster_id: str, level: int) -> tuple[Change, ...]:
    """What the store holds of a cluster at that level."""
    about = known_level(level)
    needs = about.release if about is not None and level > 1 else ""
    return (
        Put(
            broker_records.CLUSTER_KEY,
            broker_records.ClusterRecord(cluster_id=cluster_id, needs=needs).encode(),
        ),
        Put(FEATURES_KEY, FeaturesRecord(level=level).encode()),
    )


def below(image: ClusterImage, level: int) -> list[BrokerId]:
    """Registered brokers that do not support this level. Of the level in force there are some only if one was starting
    when it was raised.
    """
    return [
        broker
        for broker in sorted(image.brokers)
        if image.epoch_of(broker) and not image.supported_by(broker).supports(level)
    ]


def _described(image: ClusterImage, broker: BrokerId) -> str:
    supported = image.supported_by(broker)
    version = f"Penstock {supported.version}" if supported.version else "Penstock 0.1"
    return f"broker {broker} ({version}) supports {supported.lowest} to {supported.highest}"
