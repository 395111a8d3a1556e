"""The brokers of the image with their zones and hosts, as the rules about failure domains see them."""

from data_plane.metadata.image import ClusterImage
from penstock.rules.domains import ACTIVE, LocatedBroker


def located(image: ClusterImage) -> list[LocatedBroker]:
    """All brokers that the metadata knows, registered or not."""
    return [
        LocatedBroker(
            id=known.record.broker_id,
            zone=known.record.zone,
            host=known.record.host,
            state=ACTIVE if known.active else "fenced",
        )
        for known in image.brokers.values()
    ]
