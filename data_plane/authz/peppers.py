"""The peppers of API keys that a broker has, and hashes under the newest of keys that were shown to it.

A pepper that a key needs and that is not known is looked for where peppers are kept, so a new version needs no
restart. What a key's hash is under another version follows from its text alone: it is made when the key is shown.
"""

from collections.abc import Callable, Mapping

from data_plane.metadata.model import KeyRecord
from penstock.rules.credentials import checked_pepper, pepper_fingerprint, secret_hmac

READ_AGAIN_MS = 1_000
"""Peppers are read at most this often: a key that needs a version which is nowhere must cost little."""

ReadPeppers = Callable[[], Mapping[int, bytes | None] | None]
"""Peppers by version, as they are kept now: None for one that is there and cannot be read, and in place of all where
it is not known which there are. Does not raise."""


class Peppers:
    """`first` are those of the configuration, `read` says which others there are now. Raises `ValueError` for one that
    is too short.
    """

    def __init__(self, first: Mapping[int, bytes], read: ReadPeppers | None = None) -> None:
        for version in sorted(first):
            checked_pepper(first[version])
        self._first = dict(first)
        self._known = dict(first)
        self._read = read
        self._read_ms: float | None = None
        self._shown: dict[str, tuple[int, bytes]] = {}
        """Version and hash of keys that are stored under a version before, by id: never more than there are keys."""

    def for_key(self, version: int, monotonic_ms: float) -> Mapping[int, bytes]:
        """All that are known; they are read again if this one is not. 0 = a key that there is not."""
        if version and version not in self._known:
            self.read_again(monotonic_ms)
        return self._known

    def read_again(self, monotonic_ms: float) -> None:
        """What was removed is not known any more. What cannot be read now stays as it was."""
        if self._read is None:
            return
        if self._read_ms is not None and monotonic_ms - self._read_ms < READ_AGAIN_MS:
            return
        self._read_ms = monotonic_ms
        found = self._read()
        if found is None:
            return
        known = dict(self._first)
        for version, pepper in found.items():
            kept = self._known.get(version) if pepper is None else pepper
            if kept is not None:
                known.setdefault(version, kept)
        self._known = known

    def known(self) -> dict[int, bytes]:
        """Fingerprints by version."""
        return {version: pepper_fingerprint(self._known[version]) for version in sorted(self._known)}

    def note_shown(self, key_id: str, version: int, secret: str) -> None:
        """The key was shown with the right secret, and is stored under `version`."""
        newest = max(self._known)
        if version >= newest:
            self._shown.pop(key_id, None)
            return
        shown = self._shown.get(key_id)
        if shown is None or shown[0] != newest:
            self._shown[key_id] = (newest, secret_hmac(self._known[newest], secret))

    def forget_stored(self, keys: Mapping[str, KeyRecord]) -> None:
        """`keys` are all that there are: of those that are gone, or have their hash, nothing is to give."""
        for key_id, (version, _) in list(self._shown.items()):
            record = keys.get(key_id)
            if record is None or record.revoked or record.pepper_version >= version:
                del self._shown[key_id]

    def hash_of(self, key_id: str, version: int) -> bytes:
        """The hash of a key that was shown, under this version; empty if there is none."""
        shown = self._shown.get(key_id)
        return shown[1] if shown is not None and shown[0] == version else b""
