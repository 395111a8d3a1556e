"""Which presets the entries of a report make up together. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from penstock.rules.access import ALLOW, PRESETS, TOPIC

PREFIXES_MAX = 10
"""Prefixes of groups and transactional ids that are named for one preset."""


def presets(entries: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """What each principal is to which topics: producer, consumer, owner or read-only, by the entries that allow it from
    everywhere. Other entries may deny a part of it.
    """
    prefixes: dict[tuple[str, str, tuple[str, ...]], set[str]] = {}
    whole = [one for one in entries if one["effect"] == ALLOW and not one["addresses"]]
    for one in whole:
        if one["resource"] != TOPIC and one["pattern"] == "prefix":
            prefixes.setdefault(_key(one["principal"], one["resource"], one["operations"]), set()).add(
                one["name"]
            )
    found = []
    for one in whole:
        if one["resource"] != TOPIC:
            continue
        for name, parts in PRESETS.items():
            if sorted(dict(parts)[TOPIC]) != sorted(one["operations"]):
                continue
            shared = set.intersection(
                *(
                    prefixes.get(_key(one["principal"], resource, operations), set())
                    for resource, operations in parts
                    if resource != TOPIC
                )
            )
            if shared:
                found.append(
                    {
                        "preset": name,
                        "principal": one["principal"],
                        "on": one["on"],
                        "group_prefixes": sorted(shared)[:PREFIXES_MAX],
                    }
                )
    return found


def _key(principal: str, resource: str, operations: Sequence[str]) -> tuple[str, str, tuple[str, ...]]:
    return principal, resource, tuple(sorted(operations))
