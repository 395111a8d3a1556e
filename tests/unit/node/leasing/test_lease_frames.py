"""Leases on the wire: a frame says what was meant, and one that answers something else is no answer."""

from dataclasses import replace

import pytest

from data_plane.leases.terms import WISHES_MAX, LimitKey, Request, Wish
from data_plane.node.leasing.messages import answer_frame, read_answer, read_request, request_frame
from data_plane.node.leasing.wing import terms_of
from penstock.contract.frames import FrameError, FrameKind, pack_frame
from penstock.contract.ids import BrokerId, TenantId

FIRST = LimitKey(TenantId("t"), "produce_bytes_per_s", "", "")
SECOND = LimitKey(TenantId("t"), "requests_per_s", "key", "orders")
REQUEST = Request(
    holder=BrokerId(3),
    registration=4,
    epoch=5,
    sequence=6,
    answered=2,
    wishes={FIRST: Wish(holds=10, wants=20), SECOND: Wish(holds=0, wants=7)},
    partial=False,
    whole=True,
)


@pytest.mark.parametrize("request_", [REQUEST, replace(REQUEST, partial=True, whole=False, wishes={})])
def test_a_request_is_read_as_it_was_meant(request_: Request) -> None:
    assert read_request(request_frame(request_)) == request_


@pytest.mark.parametrize("grants", [{FIRST: 15, SECOND: 0}, None])
def test_an_answer_is_read_as_it_was_meant(grants: dict[LimitKey, int] | None) -> None:
    assert read_answer(answer_frame(REQUEST, grants), REQUEST) == grants


@pytest.mark.parametrize(
    "other", [replace(REQUEST, sequence=7), replace(REQUEST, wishes={FIRST: Wish(holds=10, wants=20)})]
)
def test_the_answer_to_another_request_is_none(other: Request) -> None:
    frame = answer_frame(REQUEST, {FIRST: 15, SECOND: 1})
    assert read_answer(frame, other) is None


def test_frames_of_another_kind_are_refused() -> None:
    frame = pack_frame(FrameKind.REPLICA_HELD, b"")
    with pytest.raises(FrameError):
        read_request(frame)
    with pytest.raises(FrameError):
        read_answer(frame, REQUEST)


@pytest.mark.parametrize("more", [0, 1])
def test_a_request_names_a_bounded_number_of_limits(more: int) -> None:
    wishes = {
        LimitKey(TenantId(f"t{number}"), "requests_per_s", "", ""): Wish(holds=0, wants=1)
        for number in range(WISHES_MAX + more)
    }
    frame = request_frame(replace(REQUEST, wishes=wishes))
    if more:
        with pytest.raises(FrameError, match=f"at most {WISHES_MAX}"):
            read_request(frame)
    else:
        assert len(read_request(frame).wishes) == WISHES_MAX


@pytest.mark.parametrize("session_ttl_ms", [3_000, 10_000])
def test_a_lease_outlasts_the_notice_and_a_new_controller_learns_longer_than_both(
    session_ttl_ms: int,
) -> None:
    terms = terms_of(session_ttl_ms)
    assert terms.notice_ms < session_ttl_ms < 2 * terms.notice_ms, "it counts on a session that is confirmed"
    assert terms.lease_ms == terms.notice_ms + 3_000
    assert terms.learn_ms == terms.notice_ms + terms.lease_ms + 1_000
