"""Billing imports the same from a bucket as from a folder, and a storage that is away is no empty one."""

import json
from pathlib import Path

from billing import import_actions
from billing.models import DataSetState, UsageDay
from daemon.bucket_store import BucketStore
from tests.control_plane.billing.world import TODAY, World
from tests.integration.buckets import bucket


def test_a_run_in_a_bucket_is_imported_once_and_stays_when_the_storage_is_away(
    world: World, tmp_path: Path
) -> None:
    world.day(world.tenant("acme"), "orders", TODAY, "messages_in", 5)
    world.spark("usage_day")
    run_id = json.loads((world.datasets / "usage_day" / "current.json").read_text())["run_id"]
    run = world.datasets / "usage_day" / f"run={run_id}"
    manifest = (run / "manifest.json").read_bytes()
    (run / "manifest.json").unlink()
    with bucket(tmp_path) as storage:
        store = BucketStore(storage.spoiled)
        assert import_actions.import_data_sets(store) == {}
        store.publish("usage_day", run_id, run, manifest)
        store.make_current("usage_day", json.dumps({"run_id": run_id}).encode())
        assert import_actions.import_data_sets(store) == {"usage_day": "imported"}
        assert import_actions.import_data_sets(store) == {}
        assert UsageDay.objects.get().quantity == 5

        storage.spoiler.keeps_back = lambda method, path: "/usage_day/" in path
        refused = import_actions.import_data_sets(store)["usage_day"]
        assert refused.startswith(
            "usage_day: current.json cannot be read: s3://data-sets/eu/production/usage_day/"
        )
        assert UsageDay.objects.get().quantity == 5
        storage.spoiler.keeps_back = lambda method, path: False
        assert import_actions.import_data_sets(store) == {"usage_day": "imported"}
        assert DataSetState.objects.get(dataset="usage_day").error == ""
