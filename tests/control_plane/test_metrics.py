"""What /metrics says of each metric: one sentence that is understood alone."""

import re

import pytest

from billing import metrics as billing_metrics
from control_plane.api import metrics
from control_plane.brokers import metrics as broker_metrics

SENTENCE = re.compile(r"(Number of|Seconds from|Age in seconds of|1 while) .+[^.]\.")


@pytest.mark.parametrize(
    "module", [metrics, broker_metrics, billing_metrics], ids=lambda module: module.__name__
)
def test_each_metrics_help_is_a_sentence_that_says_what_is_counted(module: object) -> None:
    found = [value.describe()[0] for value in vars(module).values() if hasattr(value, "_labelnames")]
    assert found
    assert not [(one.name, one.documentation) for one in found if not SENTENCE.fullmatch(one.documentation)]
