"""A round at rest: nothing is new in `__usage`, and what was published of it is there. Found without Spark."""

from collections.abc import Mapping
from pathlib import Path

from spark_usage import bronze, datasets, evidence
from spark_usage.inputs import inputs_of
from spark_usage.manifest import Catalog, Run, run_id_of
from spark_usage.rounds import Round


def at_rest(folder: Path, catalog: Catalog, ends: Mapping[str, int]) -> Round | None:
    """The round over `__usage` up to `ends` when it has nothing to do; None when Spark must look.

    It has nothing to do while `__usage` holds no record and nothing was published. Later it has nothing to do when the
    stream has committed these ends, bronze's files are as the stream left them, and the run that counts of every data
    set has the id that this code gives to these inputs. Raises `StoreUnavailable`.
    """
    committed = bronze.committed_offsets(folder)
    current = {dataset.name: catalog.current(dataset.name) for dataset in datasets.ALL}
    if not any(ends.values()) and not any(committed.values()) and not any(current.values()):
        return _round(ends)
    rejected = current[datasets.REJECTED.name]
    if ends != committed or rejected is None:
        return None
    read = rejected["inputs"]
    if not bronze.is_whole(folder, read["records"]):
        return None
    runs: dict[str, Run] = {}
    for name, inputs in inputs_of(ends, read["records"], read["holes"], read.get("read_until", "")).items():
        manifest = current[name]
        if manifest is None or manifest["run_id"] != run_id_of(name, inputs):
            return None
        runs[name] = Run(
            dataset=name,
            run_id=manifest["run_id"],
            rows=manifest["rows"],
            digest=manifest["digest"],
            manifest=manifest,
        )
    holes = [(partition, first, count) for partition, first, count in read["holes"]]
    return _round(ends, read["records"], runs, rejected["rows"], evidence.named(holes))


def _round(
    ends: Mapping[str, int],
    records: int = 0,
    runs: Mapping[str, Run] | None = None,
    rejected: int = 0,
    missing: str = "",
) -> Round:
    return Round(
        offsets=dict(ends),
        records=records,
        runs=dict(runs or {}),
        recomputed=False,
        seconds=0.0,
        rejected=rejected,
        missing=missing,
    )
