"""What the page of a topic says of what was read back from the disks."""

from datetime import UTC, datetime
from types import SimpleNamespace

import pytest
from django.template.loader import render_to_string

from web.live import ReadBack

AT = datetime(2026, 3, 4, 5, 6, tzinfo=UTC)


@pytest.mark.parametrize(
    ("read_back", "said"),
    [
        (
            ReadBack(messages=12_345, copies=2, since=AT),
            "Read back intact from the disks: 12,345 messages on at least 2 copies, oldest check",
        ),
        (ReadBack(messages=1, copies=1, since=AT), "1 message on at least 1 copy, oldest check"),
        (ReadBack(messages=0, copies=0, since=None), "Nothing was read back from the disks yet"),
        (None, ""),
    ],
    ids=["some", "one", "nothing yet", "not known"],
)
def test_what_was_read_back_is_told_in_a_sentence(read_back: ReadBack | None, said: str) -> None:
    nothing = SimpleNamespace(stored=0, written=0, leaderless=0, under_replicated=0)
    topic = SimpleNamespace(settings={"min_insync_replicas": 2, "replication": 3}, name="orders")
    page = render_to_string(
        "web/parts/topic_live.html",
        {
            "now": nothing,
            "topic": topic,
            "rates": SimpleNamespace(now=None),
            "parts": [],
            "read_back": read_back,
        },
    )
    assert said in page
    assert ("from the disks" in page) is (read_back is not None)
    assert ('datetime="2026-03-04T05:06:00+00:00"' in page) is bool(read_back and read_back.messages)
