"""A real cluster in network namespaces is hurt and judged: the short form always, the rounds in the long form.

`make chaos` is the whole of it. These need the rights of root, which continuous integration has.
"""

from pathlib import Path

import pytest

from chaos.canaries import Kind, Surface
from chaos.history_lines import lines
from chaos.neighbours import TENANTS
from tests.conftest import FULL
from tests.integration.chaos.trial import ENDED, chaos, history_of, needs_hosts
from tests.waiting import PATIENCE_S

pytestmark = [*needs_hosts, pytest.mark.drawn(shares=3, family="services that lose processes")]

PLANS = {"short": 5, "rounds": 30} if FULL else {"short": 5}
"""Plan -> faults."""
LIMIT_S = 1_400 if FULL else 280


@pytest.mark.timeout(LIMIT_S + 80)
@pytest.mark.parametrize("plan", PLANS)
def test_nothing_acknowledged_is_lost_when_brokers_are_killed_stopped_cut_off_and_powered_off(
    plan: str, tmp_path: Path
) -> None:
    said = chaos(tmp_path, "--plan", plan, "--seed", "1", timeout_s=LIMIT_S)
    ended = ENDED.search(said)
    assert ended is not None, said
    assert int(ended[1]) > 500
    assert int(ended[2]) > int(ended[1])
    history = history_of(tmp_path)
    told = next(lines(history))
    assert told["is"] == "run"
    struck = [line["kind"] for line in lines(history) if line["is"] == "fault"]
    compared = next(line for line in lines(history) if line["is"] == "compared")
    assert compared["segments"] > 8, "no segment was rolled while brokers failed"
    canaries = next(line for line in lines(history) if line["is"] == "canaries")
    assert canaries["planted"] == len(TENANTS) * len(Kind)
    assert canaries["sent"] > 5
    assert canaries["refused"] > 50
    assert canaries["searched"][Surface.ANSWER.value] > 300, (
        "what neighbours were answered was hardly searched"
    )
    assert all(canaries["searched"][surface.value] > 0 for surface in Surface)
    assert len(struck) == PLANS[plan], f"{struck}; unavailable: {told['unavailable']}"
    again = chaos(tmp_path, "--history", str(history.parent), timeout_s=PATIENCE_S)
    assert ENDED.search(again) is not None
    assert said.endswith(again)
