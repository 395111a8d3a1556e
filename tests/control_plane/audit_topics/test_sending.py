"""The worker hands batches to its process for them: none waits for another tenant's, and each wait has an end."""

import json
import sys
import threading
from functools import partial
from io import StringIO

import pytest

from control_plane.audit_topics import sender
from control_plane.audit_topics.sending import Message, NotSent, Sender
from control_plane.couriers.couriers import COURIERS
from penstock.client.settings import ConnectionSettings
from tests.waiting import PATIENCE_S, wait_until

TO = ConnectionSettings(bootstrap=("127.0.0.1:1",), api_key="psk_none")
LARGE = [Message(key="1", value="x" * 1_000_000, headers={})]
SMALL = [Message(key="1", value="{}", headers={})]
DEAF = (sys.executable, "-c", "import signal; signal.pause()")
ANSWERS = (
    sys.executable,
    "-c",
    "import json, sys\n"
    "for line in sys.stdin: print(json.dumps({'id': json.loads(line)['id'], 'error': ''}), flush=True)",
)


@pytest.mark.processes
def was_sent(sending: Sender, batch: list[Message]) -> bool:
    try:
        sending.send(TO, "__audit", batch)
    except NotSent:
        return False
    return True


def test_a_process_that_does_not_read_is_given_up_and_the_next_batch_starts_another_one() -> None:
    sending = Sender(write_s=0.2, program=DEAF)
    try:
        with pytest.raises(NotSent, match="did not answer"):
            sending.send(TO, "__audit", LARGE)
        sending._program, sending._write_s = ANSWERS, PATIENCE_S
        for batch in (SMALL, LARGE):
            # The one that was given up may not have ended yet.
            wait_until("a batch is taken", partial(was_sent, sending, batch))
    finally:
        sending.close()


def test_as_many_batches_are_produced_at_once_as_there_are_couriers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each courier is of another tenant: one that is slow keeps none waiting."""
    together = threading.Barrier(COURIERS, timeout=PATIENCE_S)

    def produced(asked: dict[str, object]) -> str:
        together.wait()
        return ""

    monkeypatch.setattr(sender, "produced", produced)
    answers = StringIO()
    sender.serve(StringIO("".join(json.dumps({"id": n}) + "\n" for n in range(COURIERS))), answers)
    found = [json.loads(line) for line in answers.getvalue().splitlines()]
    assert sorted(one["id"] for one in found) == list(range(COURIERS))
    assert all(one["error"] == "" for one in found)
