"""A sealed thread cannot reach real clocks and randomness, and gets them back."""

import logging
import os
import random
import threading
import time
import uuid
from collections.abc import Callable

import pytest

from data_plane.testkit.loop import EscapedSimulation
from data_plane.testkit.sealed import sealed
from tests.waiting import PATIENCE_S


@pytest.mark.parametrize(
    "escape",
    [
        lambda: time.time(),
        lambda: time.sleep(0),
        lambda: os.urandom(4),
        lambda: random.random(),
        lambda: uuid.uuid4(),
        lambda: threading.Thread(target=str).start(),
    ],
)
def test_what_one_seed_does_not_fix_is_refused(escape: Callable[[], object]) -> None:
    with sealed(), pytest.raises(EscapedSimulation):
        escape()
    escape()


def test_a_thread_that_was_there_before_is_left_alone() -> None:
    begin, slept = threading.Event(), threading.Event()

    def library() -> None:
        begin.wait(PATIENCE_S)
        time.sleep(0)
        slept.set()

    thread = threading.Thread(target=library)
    thread.start()
    with sealed():
        begin.set()
        thread.join(PATIENCE_S)
    assert slept.is_set()


def test_own_random_sources_and_silence_are_allowed(caplog: pytest.LogCaptureFixture) -> None:
    with sealed():
        assert random.Random(1).random() == random.Random(1).random()
        logging.getLogger("penstock").error("nobody hears this")
    logging.getLogger("penstock").error("but this")
    assert [record.message for record in caplog.records] == ["but this"]
