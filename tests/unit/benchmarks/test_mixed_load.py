"""What `make load` makes of Locust's statistics."""

from benchmarks.load.__main__ import read_statistics


def _found(name: str, times: dict[str, int], failures: int = 0, method: str = "GET") -> dict[str, object]:
    return {
        "name": name,
        "method": method,
        "num_requests": sum(times.values()),
        "num_failures": failures,
        "response_times": times,
        "max_response_time": max(map(float, times)),
    }


def test_percentiles_come_from_how_often_each_time_was_seen() -> None:
    (row,), problems = read_statistics([_found("GET /v1/topics", {"100": 1, "9": 98, "20": 1})])
    assert (row.p50_ms, row.p99_ms, row.max_ms, row.count) == (9, 20, 100, 100)
    assert problems == []


def test_each_kind_of_request_that_failed_is_a_problem() -> None:
    rows, problems = read_statistics(
        [_found("produce", {"3": 4}, failures=1, method="penstock"), _found("GET /v1/keys", {"1": 2})]
    )
    assert [row.name for row in rows] == ["(SDK) produce", "GET /v1/keys"]
    assert problems == ["(SDK) produce: 1 of 4 failed"]


def test_a_run_without_a_request_is_a_problem() -> None:
    assert read_statistics([]) == ([], ["no request was made"])
