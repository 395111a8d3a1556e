"""What the SDK makes of the answer to `create_topics`."""

from typing import Any

import pytest

from penstock.admin.objects import outcomes_of
from penstock.contract.errors import AlreadyExists, InternalError, LimitExceeded

MADE = {
    "id": "top_1",
    "name": "orders",
    "topic_id": "00" * 16,
    "partitions": 3,
    "settings": {"replication": 3},
    "generation": 1,
    "delivered_generation": 1,
    "conditions": [],
}


def problem(code: str, detail: str) -> dict[str, Any]:
    return {"code": code, "detail": detail, "fields": {}}


def test_an_outcome_is_a_topic_or_the_error_that_its_own_request_would_have_raised() -> None:
    orders, returns, books = outcomes_of(
        {
            "topics": [
                {"name": "orders", "status": 201, "topic": MADE, "problem": None},
                {
                    "name": "returns",
                    "status": 409,
                    "topic": None,
                    "problem": problem("already_exists", "it is there"),
                },
                {
                    "name": "books",
                    "status": 422,
                    "topic": None,
                    "problem": problem("limit_exceeded", "too many"),
                },
            ]
        }
    )
    assert orders.topic is not None and orders.topic.delivered and orders.error is None
    assert returns.topic is None and isinstance(returns.error, AlreadyExists)
    assert isinstance(books.error, LimitExceeded) and str(books.error) == "too many"


@pytest.mark.parametrize(
    "answer",
    [
        {},
        {"topics": None},
        {"topics": [None]},
        {"topics": [{"name": "orders"}]},
        {"topics": [{"name": "orders", "status": 201, "topic": {}, "problem": None}]},
        {"topics": [{"name": "orders", "status": "x", "topic": None, "problem": {}}]},
        {"topics": [{"name": "orders", "status": 409, "topic": None, "problem": None}]},
    ],
)
def test_what_is_no_answer_is_an_error_of_the_service(answer: dict[str, Any]) -> None:
    with pytest.raises(InternalError):
        outcomes_of(answer)
