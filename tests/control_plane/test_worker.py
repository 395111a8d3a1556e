"""What a worker says of itself while its database is away, and that its own bugs are not taken for that."""

import pytest
from django.db import InterfaceError, OperationalError

from control_plane import worker
from control_plane.worker import Worker


class Asked(Worker):
    """A ready worker whose look at the database raises."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.state, self._error = "ready", error

    def gauges(self) -> dict[str, float]:
        raise self._error


def exported(asked: Worker) -> dict[str, float]:
    return {
        sample.name: sample.value for metric in worker._Gauges(asked).collect() for sample in metric.samples
    }


@pytest.mark.parametrize("error", [OperationalError("connection refused"), InterfaceError("closed")])
def test_a_lost_database_is_the_reason_and_leaves_what_needs_none(error: Exception) -> None:
    assert Asked(error).not_ready() == f"database: {type(error).__name__}"
    assert exported(Asked(error)) == {"penstock_worker_ready": 1.0}


def test_a_bug_of_our_own_is_no_lost_database() -> None:
    with pytest.raises(TypeError, match="our own"):
        Asked(TypeError("our own")).not_ready()
    with pytest.raises(TypeError, match="our own"):
        exported(Asked(TypeError("our own")))


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_bug_in_what_is_written_beside_the_work_reaches_the_log_of_threads(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def lost() -> None:
        raise OperationalError("connection refused")

    def wrong() -> None:
        raise TypeError("our own")

    worker._on_a_thread(lost)
    assert "the database does not know of it" in caplog.text
    caplog.clear()
    worker._on_a_thread(wrong)
    assert "the database does not know of it" not in caplog.text
