"""The receiver of the guide takes what a courier sends, and nothing else."""

import re
from pathlib import Path
from typing import Any

import pytest

from tests.control_plane.webhooks.hooked import happen, make, turn
from tests.control_plane.world import House
from tests.webhook_receiver import Receiver

pytestmark = pytest.mark.django_db
GUIDE = Path(__file__).parents[3] / "docs" / "guides" / "webhooks.md"


def test_the_receiver_of_the_guide_takes_signed_events_alone(house: House, endpoint: Receiver) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    names: dict[str, Any] = {}
    exec(code, names)  # the guide's own text
    receive = names["receive"]
    row, secret = make(house.tenant, endpoint)
    happen(house.tenant, "topic.create")
    turn(row)
    first, second = endpoint.got
    assert receive(secret, first.headers, first.body) == (200, "audit.webhook.create")
    assert receive(secret, second.headers, second.body) == (200, "audit.topic.create")
    assert receive(secret, first.headers, second.body) == (400, "")
    assert receive("whsec_" + "A" * 44, first.headers, first.body) == (400, "")
    assert receive(secret, {}, first.body) == (400, "")
