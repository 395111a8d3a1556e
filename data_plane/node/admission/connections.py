"""Connections of clients that have calls open, counted by whom they belong to.

grpc reports a connection only when a call comes on it. One without a call is bounded by the listener alone.
"""


class OpenConnections:
    """By owner, a tenant or an address: how many calls are open on each connection."""

    def __init__(self) -> None:
        self._calls: dict[str, dict[str, int]] = {}
        """Only owners and connections that have some."""

    @property
    def total(self) -> int:
        return sum(map(len, self._calls.values()))

    def of(self, owner: str) -> int:
        """How many connections the owner has."""
        return len(self._calls.get(owner, ()))

    def would_be(self, owner: str, connection: str) -> int:
        """How many connections the owner has with a further call on this one."""
        known = self._calls.get(owner, {})
        return len(known) + (connection not in known)

    def has(self, owner: str, connection: str) -> bool:
        """Whether the owner has a call open on this connection."""
        return connection in self._calls.get(owner, {})

    def begin(self, owner: str, connection: str) -> None:
        """A call is open."""
        known = self._calls.setdefault(owner, {})
        known[connection] = known.get(connection, 0) + 1

    def end(self, owner: str, connection: str) -> None:
        """A call that was begun has ended."""
        known = self._calls[owner]
        known[connection] -= 1
        if not known[connection]:
            del known[connection]
        if not known:
            del self._calls[owner]
