"""Reads what keys are bound to."""

from control_plane.access.models import KeyBinding
from tenants.models import ApiKey


def bindings(key: ApiKey) -> list[KeyBinding]:
    """What the key is bound to; none = it may do everything in its tenant."""
    return sorted(key.bindings.all(), key=lambda binding: binding.pk)


def topic_prefixes(key: ApiKey) -> tuple[str, ...] | None:
    """The prefixes of the topics that the key may see; None = all."""
    found = bindings(key)
    return tuple(binding.topic_prefix for binding in found) if found else None
