"""A round that publishes in a bucket publishes what it would in a folder, also when the way there is bad."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from daemon.bucket_store import BucketStore
from daemon.data_set_store import StoreUnavailable
from spark_usage import datasets
from spark_usage.manifest import Catalog
from spark_usage.rounds import Round, fold
from tests.integration.buckets import Bucket, bucket
from tests.spark_usage.conftest import FoldedHours
from tests.spark_usage.records import bronze_frame

pytestmark = [pytest.mark.slow, pytest.mark.processes]


@pytest.fixture
def storage(tmp_path: Path) -> Iterator[Bucket]:
    with bucket(tmp_path) as made:
        yield made


def test_a_round_over_a_bad_way_ends_with_the_digests_of_a_folder(
    spark: SparkSession, folded_hours: FoldedHours, storage: Bucket, tmp_path: Path
) -> None:
    records, in_folder = folded_hours.stored, folded_hours.done
    staging = tmp_path / "staging"
    lost: set[str] = set()

    def lose_once(method: str, path: str) -> bool:
        fresh = method == "PUT" and path not in lost
        lost.add(path)
        return fresh

    def round_over(settings: BucketStore) -> Round:
        return fold(
            spark,
            staging,
            rows=bronze_frame(spark, records),
            offsets={"0": len(records)},
            store=settings,
        )

    # Every answer to a first put is lost, and no manifest of `usage_minute` comes through.
    storage.spoiler.loses_answer = lose_once
    storage.spoiler.keeps_back = lambda method, path: (
        "/usage_minute/" in path and path.endswith("/manifest.json")
    )
    over_it = BucketStore(storage.spoiled)
    with pytest.raises(StoreUnavailable, match="usage_minute"):
        round_over(over_it)
    catalog = Catalog(staging, over_it)
    published = [one.name for one in datasets.ALL if catalog.store.current(one.name) is not None]
    assert published == [one.name for one in datasets.ALL[: datasets.ALL.index(datasets.USAGE_MINUTE)]]

    storage.spoiler.keeps_back = lambda method, path: False
    done = round_over(over_it)
    assert done.recomputed
    assert {name: (run.run_id, run.digest) for name, run in done.runs.items()} == {
        name: (run.run_id, run.digest) for name, run in in_folder.runs.items()
    }
    assert not round_over(over_it).recomputed, "a round without news finds all of its runs"
    for dataset in datasets.ALL:
        manifest = catalog.current(dataset.name)
        assert manifest is not None and manifest["digest"] == in_folder.runs[dataset.name].digest
        runs = f"{storage.settings.prefix}/{dataset.name}/run="
        named = {f"{runs}{file.get('run', manifest['run_id'])}/{file['name']}" for file in manifest["files"]}
        named.add(f"{runs}{manifest['run_id']}/manifest.json")
        assert named <= set(storage.names())
    assert not list(staging.glob("*/.pending-*")) and not list(staging.glob("*/run=*"))
