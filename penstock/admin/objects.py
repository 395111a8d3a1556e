"""What the control plane tells about a tenant's topics and keys."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.contract.errors import InternalError, PenstockError
from penstock.rest.problems import refusal_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """A topic as it is wanted. `generation` counts its changes."""

    id: str
    """`top_…`"""
    name: str
    topic_id: str
    """32 hexadecimal digits: what the brokers know it by."""
    partitions: int
    settings: Mapping[str, Any]
    """By name, as in the reference of topic settings; times in ms, sizes in bytes, -1 = unlimited."""
    generation: int
    delivered_generation: int
    """The newest generation that the brokers have confirmed."""
    conditions: tuple[Mapping[str, Any], ...]
    """What keeps the brokers from what is wanted, if anything."""
    hot_partitions: tuple[Mapping[str, Any], ...] = ()
    """Those that carry far more than others, with rates and reasons. Only asked for with a single topic."""

    @property
    def delivered(self) -> bool:
        """Whether the brokers have what is wanted."""
        return self.delivered_generation >= self.generation


@dataclass(frozen=True, slots=True, kw_only=True)
class BinnedTopic:
    """A topic in the recycle bin. Times are ISO 8601 in UTC."""

    id: str
    """`top_…`: what it is restored and purged by."""
    name: str
    """The one that it had; another topic may have it now."""
    topic_id: str
    partitions: int
    settings: Mapping[str, Any]
    binned_at: str
    purge_at: str
    """When it is deleted for good."""


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to be made; `settings` by name, the rest as the service's defaults."""

    name: str
    partitions: int
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicOutcome:
    """What became of one topic of `create_topics`: either `topic` or `error` is there."""

    name: str
    topic: Topic | None
    error: PenstockError | None
    """What `create_topic` would have raised."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """An API key without its secret. Times are ISO 8601 in UTC."""

    id: str
    name: str
    created_at: str | None
    expires_at: str | None
    revoked_at: str | None
    bindings: tuple[Mapping[str, Any], ...]
    """What the key is bound to; none = everything in its tenant. `scopes` says more."""
    delivered: bool
    scopes: tuple[Mapping[str, Any], ...] = ()
    """What it is limited to: resource, name, pattern and operations each; none = all that its principal may."""
    principal: str = ""
    """Whom access lists name: `person:<id>`, `service_account:<id>` or `service`."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class NewKey:
    """A key that has just been made, with its text. The text is shown this once."""

    id: str
    name: str
    api_key: str
    delivered: bool

    def __repr__(self) -> str:
        return f"NewKey(id={self.id!r}, name={self.name!r}, delivered={self.delivered})"


def topic_of(fields: Mapping[str, Any]) -> Topic:
    """Read the answer. Raises `InternalError` when it is not a topic."""
    try:
        return Topic(
            id=fields["id"],
            name=fields["name"],
            topic_id=fields.get("topic_id") or "",
            partitions=int(fields["partitions"]),
            settings=dict(fields.get("settings") or {}),
            generation=int(fields.get("generation") or 0),
            delivered_generation=int(fields.get("delivered_generation") or 0),
            conditions=_mappings(fields.get("conditions")),
            hot_partitions=_mappings(fields.get("hot_partitions")),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InternalError(f"the answer is no topic: {type(error).__name__}: {error}") from error


def binned_topic_of(fields: Mapping[str, Any]) -> BinnedTopic:
    """Read the answer. Raises `InternalError` when it is not a topic in the recycle bin."""
    try:
        return BinnedTopic(
            id=fields["id"],
            name=fields["name"],
            topic_id=fields["topic_id"],
            partitions=int(fields["partitions"]),
            settings=dict(fields["settings"]),
            binned_at=str(fields["binned_at"]),
            purge_at=str(fields["purge_at"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise InternalError(f"the answer is no topic: {type(error).__name__}: {error}") from error


def outcomes_of(answer: Mapping[str, Any]) -> list[TopicOutcome]:
    """Read the answer. Raises `InternalError` when it holds no outcomes."""
    try:
        return [_outcome_of(fields) for fields in answer["topics"]]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InternalError(f"the answer holds no outcomes: {type(error).__name__}: {error}") from error


def _outcome_of(fields: Mapping[str, Any]) -> TopicOutcome:
    made = fields["topic"]
    return TopicOutcome(
        name=fields["name"],
        topic=None if made is None else topic_of(made),
        error=refusal_of(int(fields["status"]), dict(fields["problem"])) if made is None else None,
    )


def key_of(fields: Mapping[str, Any]) -> Key:
    """Read the answer. Raises `InternalError` when it is not a key."""
    try:
        return Key(
            id=fields["id"],
            name=fields.get("name") or "",
            created_at=fields.get("created_at"),
            expires_at=fields.get("expires_at"),
            revoked_at=fields.get("revoked_at"),
            bindings=_mappings(fields.get("bindings")),
            delivered=bool(fields.get("delivered", True)),
            scopes=_mappings(fields.get("scopes")),
            principal=fields.get("principal") or "",
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InternalError(f"the answer is no key: {type(error).__name__}: {error}") from error


def new_key_of(fields: Mapping[str, Any]) -> NewKey:
    """Read the answer. Raises `InternalError` when it is not a new key; the message never shows the key."""
    try:
        return NewKey(
            id=fields["id"],
            name=fields.get("name") or "",
            api_key=fields["key"],
            delivered=bool(fields.get("delivered", True)),
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise InternalError(f"the answer is no new key: {type(error).__name__}") from error


def _mappings(value: Any) -> tuple[Mapping[str, Any], ...]:
    """A list of objects, or an object of named ones, as a tuple of objects."""
    if isinstance(value, dict):
        return tuple({"name": name, "value": what} for name, what in sorted(value.items()))
    return tuple(value or ())
