"""Which partition blocks the controller has not looked at since they changed, in parts that fit a turn of the loop.

What must become of a partition's record depends on the record, its topic and the brokers. So one changed topic is one
block to look at, whatever else there is, and only a change of a broker makes it all of them.
"""

from data_plane.metadata.image import BlockId, ClusterImage


class ChangedBlocks:
    """One reader's place among the changes of the image. At first every block has changed."""

    def __init__(self) -> None:
        self._waiting: dict[BlockId, None] = {}
        self._seen_at = -1
        self._everything = True

    def everything(self) -> None:
        """Every block has to be looked at again."""
        self._everything = True

    def take(self, image: ClusterImage, records_max: int) -> list[BlockId]:
        """Blocks to look at now, of `records_max` partitions together or one block more; empty: all were looked at.
        Whole looks go in the order of topics. One taken comes again when it changes.
        """
        if self._everything or self._seen_at < max(image.loaded_at, image.brokers_changed_at):
            self._waiting = {
                (topic_id, number): None
                for topic_id in sorted(image.blocks)
                for number in sorted(image.blocks[topic_id])
            }
            self._everything = False
        else:
            self._waiting.update((block, None) for block in image.blocks_changed_since(self._seen_at))
        self._seen_at = image.revision
        taken: list[BlockId] = []
        records = 0
        for block in self._waiting:
            if records >= records_max:
                break
            taken.append(block)
            topic_id, number = block
            found = image.blocks.get(topic_id, {}).get(number)
            records += 1 if found is None else len(found.partitions)
        for block in taken:
            del self._waiting[block]
        return taken
