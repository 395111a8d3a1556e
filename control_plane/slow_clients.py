"""A web worker whose threads no client can hold: who sends or reads too slowly loses the connection.

The server's own threads wait for the rest of a request as long as the client likes, and as many half requests as there
are threads would be the end of the service.
"""

import socket
import threading
import time
from typing import Any

from gunicorn.workers.gthread import ThreadWorker

HEADERS_S = 5.0
"""For the request line and all headers, from their first byte on."""
WHOLE_S = 120.0
"""For the body, the work and the answer: no request of ours takes nearly as long."""
_LOOK_S = 0.5


class Deadlines:
    """Connections that a thread is busy with, and until when. Past it both directions are shut: the thread goes on."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._until: dict[int, tuple[socket.socket, float]] = {}

    def put(self, sock: socket.socket, seconds: float) -> None:
        """The connection's thread must be done with it, or must have said so again, within `seconds`."""
        with self._lock:
            self._until[id(sock)] = (sock, time.monotonic() + seconds)

    def drop(self, sock: socket.socket) -> None:
        """The thread is done with it."""
        with self._lock:
            self._until.pop(id(sock), None)

    def shut_late(self, now: float) -> int:
        """Shut what is past its deadline; how many those were."""
        with self._lock:
            late = [sock for sock, until in self._until.values() if until <= now]
            for sock in late:
                del self._until[id(sock)]
                try:
                    sock.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass  # it is gone already
        return len(late)

    def watch(self) -> None:
        """For a thread of its own: look for ever."""
        while True:
            time.sleep(_LOOK_S)
            self.shut_late(time.monotonic())


class Worker(ThreadWorker):  # type: ignore[misc]
    """gunicorn's worker of threads, with a deadline on each request."""

    def init_process(self) -> None:
        self.deadlines = Deadlines()
        threading.Thread(target=self.deadlines.watch, name="slow-clients", daemon=True).start()
        super().init_process()

    def handle(self, conn: Any) -> Any:
        """One request on a connection, in a thread of the pool."""
        sock = conn.sock
        self.deadlines.put(sock, HEADERS_S)
        try:
            return super().handle(conn)
        finally:
            self.deadlines.drop(sock)

    def handle_request(self, req: Any, conn: Any) -> Any:
        """The headers are there."""
        self.deadlines.put(conn.sock, WHOLE_S)
        return super().handle_request(req, conn)
