"""What the message browser says of offsets that are not messages."""

from types import SimpleNamespace

import pytest
from django.template.loader import render_to_string

from penstock import SkippedBatch


@pytest.mark.parametrize("page", ["web/parts/skipped.html", "web/parts/tail.html"])
def test_offsets_that_are_no_messages_are_named_with_their_reason(page: str) -> None:
    batch = SkippedBatch(
        topic="orders", partition=2, first_offset=1_234, end_offset=1_240, reason="batch: <b>bad</b>"
    )
    rest = {
        "items": (),
        "passed": 0,
        "after": "2:1240",
        "tenant": SimpleNamespace(name="acme"),
        "topic": SimpleNamespace(name="orders"),
    }
    told = render_to_string(page, {"skipped": (batch,), **rest})
    assert "Offsets 1,234 to 1,239 of partition 2 are not messages: batch: &lt;b&gt;bad&lt;/b&gt;." in told
    assert "are not messages" not in render_to_string(page, {"skipped": (), **rest})
