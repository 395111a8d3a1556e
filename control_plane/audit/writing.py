"""Writes the counts of a web process into the database, from a thread of its own."""

import logging
import threading

from django.db import DatabaseError, close_old_connections, connection, transaction

from control_plane.audit.models import AuditTally
from control_plane.audit.tallies import Tallies

EVERY_S = 10.0
"""What a process that is killed may lose."""
_ROWS_AT_ONCE = 1_000
_log = logging.getLogger(__name__)


def write_down(tallies: Tallies) -> int:
    """Write all counts, and forget them. Returns how many rows were written. Raises `DatabaseError`; all are then
    still counted.
    """
    taken = tallies.take()
    rows = [
        AuditTally(
            tenant=counted.tenant,
            minute=counted.minute,
            outcome=counted.outcome,
            actor_kind=counted.actor_kind,
            actor_id=counted.actor_id,
            action=counted.action,
            times=tally.times,
            request_id=tally.request_id,
            source=tally.source,
        )
        for counted, tally in taken.items()
    ]
    if not rows:
        return 0
    try:
        with transaction.atomic():
            AuditTally.objects.bulk_create(rows, batch_size=_ROWS_AT_ONCE)
    except BaseException:
        tallies.put_back(taken)
        raise
    return len(rows)


class Writer:
    """The thread. Requests never wait for it."""

    def __init__(self, tallies: Tallies, every_s: float = EVERY_S) -> None:
        self._tallies = tallies
        self._every_s = every_s
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="audit tallies", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, within_s: float) -> None:
        """Write what is left, and end."""
        self._stopping.set()
        self._thread.join(within_s)

    def _run(self) -> None:
        try:
            while not self._stopping.wait(self._every_s):
                self._write()
            self._write()
        finally:
            connection.close()

    def _write(self) -> None:
        close_old_connections()
        try:
            write_down(self._tallies)
        except DatabaseError as error:
            _log.warning("counts of the audit log wait for the database", extra={"error": str(error)})
        except Exception:
            # The thread goes on: what it could not write is counted still.
            _log.exception("counts of the audit log were not written")
