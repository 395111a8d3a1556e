"""What one client may ask for at once, and without reading."""

import pytest

from data_plane.node.frame_heads import read_head, require_few, require_read
from penstock.contract import limits
from penstock.contract.frames import FrameError, FrameKind
from penstock.contract.v1 import log_pb2 as pb


def test_a_head_that_is_no_message_is_a_frame_error() -> None:
    with pytest.raises(FrameError, match="PRODUCE"):
        read_head(pb.ProduceHead, FrameKind.PRODUCE, b"\xff\xff\xff")


def test_a_frame_names_as_much_as_the_limit_and_no_more() -> None:
    require_few(limits.FRAME_ENTRIES_MAX, "batches")
    with pytest.raises(FrameError, match="batches"):
        require_few(limits.FRAME_ENTRIES_MAX + 1, "batches")


def test_a_client_that_reads_no_answers_is_cut_off_at_the_limit() -> None:
    require_read(limits.UNREAD_ANSWERS_MAX)
    with pytest.raises(FrameError, match="unread"):
        require_read(limits.UNREAD_ANSWERS_MAX + 1)
