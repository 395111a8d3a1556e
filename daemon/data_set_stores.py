"""Opens the store of data sets that the configuration names."""

from pathlib import Path

from daemon.data_set_store import BucketSettings, DataSetStore, FolderStore


def open_store(folder: Path, bucket: BucketSettings | None) -> DataSetStore:
    """Where the configuration says: the bucket, or else the folder. Raises `StoreUnavailable`."""
    if bucket is None:
        return FolderStore(folder)
    # A quarter of a second of processor time, which most services never need.
    from daemon.bucket_store import BucketStore

    return BucketStore(bucket)
