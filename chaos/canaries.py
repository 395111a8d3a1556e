"""Random words of tenants, and the search for them where they have no business; pure but for the making.

A canary is a word that no one can guess and that stands in one thing of one tenant: in the name of a topic, the value
of a message, the secret of a key. Whatever is heard is searched for the words of all tenants. What each surface may
hold of which kind is `MAY_STAND` (decision 64); a word that a question itself named is no news in its answer.
"""

import secrets
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import Enum

_RANDOM_BYTES = 10
_AROUND = 120


class Kind(Enum):
    """What carries a canary."""

    TENANT = "tenant id"
    TOPIC = "topic name"
    GROUP = "group name"
    MEMBER = "member id"
    CLIENT = "client id"
    KEY_NAME = "name of a key"
    SECRET = "secret of a key"
    MESSAGE_KEY = "key of a message"
    VALUE = "value of a message"
    HEADER = "header of a message"
    NOTE = "note of a commit"


class Surface(Enum):
    """Where words are searched for."""

    ANSWER = "an answer to a tenant"
    LOG = "a log"
    METRICS = "metrics"
    STORE = "the metadata store"


MAY_STAND: dict[Surface, frozenset[Kind]] = {
    Surface.ANSWER: frozenset(),
    Surface.LOG: frozenset({Kind.TENANT, Kind.TOPIC}),
    Surface.METRICS: frozenset({Kind.TENANT}),
    Surface.STORE: frozenset({Kind.TENANT, Kind.TOPIC, Kind.KEY_NAME}),
}
"""What of a tenant a surface may hold; of an answer: to another tenant."""
ANSWERED = frozenset(
    {Kind.TOPIC, Kind.GROUP, Kind.MEMBER, Kind.CLIENT, Kind.MESSAGE_KEY, Kind.VALUE, Kind.HEADER, Kind.NOTE}
)
"""What a tenant is answered of its own in a run. A search that never found these has shown nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Canary:
    """One word. `tenant` is the name that the run has for its tenant."""

    tenant: str
    kind: Kind
    word: str


def canaries_of(kinds: Iterable[Kind] = Kind) -> dict[Kind, str]:
    """New words, one of each kind. Each is fit for a name, and stands unchanged in JSON, in a header and in bytes."""
    return {
        kind: f"cn-{kind.name.lower().replace('_', '-')}-{secrets.token_hex(_RANDOM_BYTES)}" for kind in kinds
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Leak:
    """A word where it has no business."""

    canary: Canary
    surface: Surface
    where: str
    around: str

    def __str__(self) -> str:
        return (
            f"{self.where} ({self.surface.value}) holds the {self.canary.kind.value} of tenant {self.canary.tenant}:"
            f" …{self.around}…"
        )


class Search:
    """Of one run: it is given everything that is heard, as it comes, and counts."""

    def __init__(self) -> None:
        self._planted: list[tuple[Canary, bytes]] = []
        self.searched: dict[Surface, int] = dict.fromkeys(Surface, 0)
        """How many texts were searched, by surface."""
        self._own: dict[tuple[str, Kind], int] = {}

    def plant(self, canaries: Iterable[Canary]) -> None:
        """From now on these are searched for. Raises `ValueError` for a word that another one holds."""
        for canary in canaries:
            word = canary.word.encode()
            if any(word in other or other in word for _, other in self._planted):
                raise ValueError(f"{canary.word!r} cannot be distinguished from another canary")
            self._planted.append((canary, word))

    @property
    def planted(self) -> int:
        return len(self._planted)

    def answered(self, tenant: str, where: str, answer: bytes, asked: Collection[str] = ()) -> list[Leak]:
        """Words of others in what a tenant got, but for those that its question named."""
        found = []
        self.searched[Surface.ANSWER] += 1
        for canary, word in self._planted:
            if word not in answer:
                continue
            if canary.tenant == tenant:
                own = (tenant, canary.kind)
                self._own[own] = self._own.get(own, 0) + 1
            elif canary.word not in asked:
                found.append(_leak(canary, Surface.ANSWER, f"{where} to tenant {tenant}", answer, word))
        return found

    def of_operators(self, surface: Surface, where: str, text: bytes) -> list[Leak]:
        """Words in a surface of operators that may not stand there, whose ever they are."""
        self.searched[surface] += 1
        return [
            _leak(canary, surface, where, text, word)
            for canary, word in self._planted
            if canary.kind not in MAY_STAND[surface] and word in text
        ]

    def not_heard(self) -> list[str]:
        """What tenants were never answered of their own: as long as there is any, the search has shown nothing."""
        return [
            f"tenant {canary.tenant} was never answered the {canary.kind.value} of its own"
            for canary, _ in self._planted
            if canary.kind in ANSWERED and (canary.tenant, canary.kind) not in self._own
        ]


def _leak(canary: Canary, surface: Surface, where: str, text: bytes, word: bytes) -> Leak:
    at = text.index(word)
    around = text[max(0, at - _AROUND) : at + len(word) + _AROUND].decode("ascii", errors="replace")
    return Leak(canary=canary, surface=surface, where=where, around=" ".join(around.split()))
