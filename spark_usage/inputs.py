"""What the runs of a round are made from: with the code it gives them their ids."""

from collections.abc import Mapping, Sequence
from typing import Any

from spark_usage import datasets
from spark_usage.manifest import run_id_of


def inputs_of(
    ends: Mapping[str, int],
    records: int,
    holes: Sequence[Sequence[int]],
    read_until: str,
) -> dict[str, dict[str, Any]]:
    """What each data set is made from, by its name: with the code and the name it gives the run's id."""
    read = {
        "offsets": dict(ends),
        "records": records,
        "holes": [list(hole) for hole in holes],
        "read_until": read_until,
        "runs": {},
    }
    hours = {"usage_hour": run_id_of("usage_hour", read)}
    found: dict[str, dict[str, Any]] = {dataset.name: dict(read) for dataset in datasets.ALL}
    for dataset in (datasets.USAGE_DAY, datasets.PRINCIPAL_DAY):
        found[dataset.name]["runs"] = hours
    return found


def states_inputs(
    of_all: Mapping[str, Mapping[str, Any]], mark: Mapping[str, Any]
) -> dict[str, dict[str, Any]]:
    """What the states of a round are made from, by name: the records, and bronze's `mark`. `boot`, which is published
    last, names all runs of the round.
    """
    runs = {name: run_id_of(name, inputs) for name, inputs in of_all.items()}
    inputs = {**of_all[datasets.REJECTED.name], "bronze": dict(mark)}
    others = {one.name: inputs for one in datasets.STATES if one is not datasets.BOOT}
    runs |= {name: run_id_of(name, inputs) for name in others}
    return others | {datasets.BOOT.name: {**inputs, "runs": runs}}
