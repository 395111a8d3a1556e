"""How a call to etcd can end besides being answered: each says what may have happened."""


class EtcdError(Exception):
    """Of this client; `str` names the endpoint and what it said."""


class NotSent(EtcdError):
    """No endpoint could be reached: nothing has happened."""


class NoAnswer(EtcdError):
    """The request was sent and its answer is missing: it may have been applied, or may still be."""


class Refused(EtcdError):
    """etcd answered with an error: nothing was applied. `code` is gRPC's name of it, `detail` etcd's words."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(f"{code}: {detail}")
        self.code = code
        self.detail = detail


class LeaseGone(Refused):
    """The lease has expired or was revoked."""


class RevisionCompacted(EtcdError):
    """The revisions asked for are compacted away, up to `compact_revision` (0 = etcd did not say)."""

    def __init__(self, compact_revision: int) -> None:
        super().__init__(f"compacted up to revision {compact_revision}")
        self.compact_revision = compact_revision


class WatchCanceled(EtcdError):
    """etcd ended the watch for a reason of its own: a missing permission, a lost leader."""
