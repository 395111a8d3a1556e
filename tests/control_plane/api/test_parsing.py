"""A body of a request has a size and a depth that are the largest."""

from io import BytesIO

import pytest
from rest_framework.exceptions import ParseError

from control_plane.api.parsing import BODY_MAX, DEPTH_MAX, JsonParser


def test_a_body_of_the_largest_size_and_depth_is_read_and_no_larger_one() -> None:
    assert JsonParser().parse(BytesIO(b"1".ljust(BODY_MAX))) == 1
    deepest = b"[" * DEPTH_MAX + b"]" * DEPTH_MAX
    assert JsonParser().parse(BytesIO(deepest)) is not None
    with pytest.raises(ParseError, match=f"more than {BODY_MAX} bytes"):
        JsonParser().parse(BytesIO(b"1".ljust(BODY_MAX + 1)))
    with pytest.raises(ParseError, match=f"nested more than {DEPTH_MAX} deep"):
        JsonParser().parse(BytesIO(b"[" + deepest + b"]"))
