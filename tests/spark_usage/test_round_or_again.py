"""A round that fails for a reason that may have passed is tried once more; a wrong result is not."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from penstock import BrokerUnavailable
from penstock.contract.errors import ConfigurationError
from spark_usage.configuration import BrokersConfiguration, Configuration
from spark_usage.manifest import CheckFailed
from spark_usage.pipeline import NotYet, Pipeline
from spark_usage.rounds import Round
from spark_usage.windowed import Progress

DONE = Round(offsets={}, records=0, runs={}, recomputed=False, seconds=0.0, rejected=0, missing="")


class Scripted(Pipeline):
    """Rounds whose outcomes are given."""

    def __init__(self, folder: Path, outcomes: Sequence[Exception | Round]) -> None:
        super().__init__(
            Configuration(
                file=folder / "config.json",
                brokers=BrokersConfiguration(bootstrap=("127.0.0.1:9",)),
                usage_key_file=folder / "key",
                datasets=folder,
            )
        )
        self.outcomes = list(outcomes)

    def round(self, *, again: bool = False, progress: Progress = lambda line: None) -> Round:
        outcome = self.outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome


LATE = RuntimeError("Python worker failed to connect back.")


@pytest.mark.parametrize("passing", [LATE, BrokerUnavailable("no answer")])
def test_a_round_that_failed_is_tried_once_more(passing: Exception, tmp_path: Path) -> None:
    pipeline = Scripted(tmp_path, [passing, DONE])
    assert pipeline.round_or_again() is DONE


def test_a_round_that_fails_twice_has_failed(tmp_path: Path) -> None:
    pipeline = Scripted(tmp_path, [LATE, LATE, DONE])
    with pytest.raises(RuntimeError, match="connect back"):
        pipeline.round_or_again()
    assert pipeline.outcomes == [DONE]


@pytest.mark.parametrize(
    "lasting", [NotYet("no key"), CheckFailed("sums differ"), ConfigurationError("spark")]
)
def test_what_would_fail_again_is_told_at_once(lasting: Exception, tmp_path: Path) -> None:
    pipeline = Scripted(tmp_path, [lasting, DONE])
    with pytest.raises(type(lasting)):
        pipeline.round_or_again()
    assert pipeline.outcomes == [DONE]


def test_a_round_that_was_cancelled_is_not_tried_again(tmp_path: Path) -> None:
    pipeline = Scripted(tmp_path, [LATE, DONE])
    pipeline.cancel()
    with pytest.raises(RuntimeError, match="connect back"):
        pipeline.round_or_again()
    assert pipeline.outcomes == [DONE]


def test_looks_at_rest_ask_for_the_ends_alone_until_these_change(tmp_path: Path) -> None:
    pipeline = Scripted(tmp_path, [])
    first = pipeline._at_rest({"0": 0})
    assert first is not None and first.offsets == {"0": 0}
    assert pipeline._at_rest({"0": 0}) is first
    assert pipeline._at_rest({"0": 1}) is None, "something is new"
    again = pipeline._at_rest({"0": 0})
    assert again is not None and again is not first, "after that it looks at everything"
