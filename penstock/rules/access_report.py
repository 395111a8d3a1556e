"""An access report as a document: its digest, and its rows for spreadsheets. Pure.

A report is a JSON object; `canonical` says which bytes its digest covers, so that everyone can compute it from the
report that they have, however it was written.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from penstock.rules.csv_lines import csv_line

LISTS: Final = ("people", "service_accounts", "keys", "groups", "entries", "invitations")
"""Who and what there is, each a list of objects with an `id`."""
FINDINGS: Final = ("changes", "unused", "refusals", "activity")
COLUMNS: Final = (
    "section",
    "id",
    "name",
    "what",
    "principal",
    "on",
    "operations",
    "from",
    "created_at",
    "expires_at",
    "last_used_at",
    "times",
    "note",
)


def canonical(report: Mapping[str, Any]) -> bytes:
    """The bytes that the digest covers: JSON in ASCII with sorted names and without blanks."""
    return json.dumps(report, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()


def digest(report: Mapping[str, Any]) -> str:
    """SHA-256 of the report, in hexadecimal."""
    return hashlib.sha256(canonical(report)).hexdigest()


def as_csv(report: Mapping[str, Any]) -> Iterator[str]:
    """The report as CSV (RFC 4180), a line at a time, with `COLUMNS` first. No cell is a formula."""
    heads: dict[str, object] = {name: name for name in COLUMNS}
    for row in (heads, *_rows(report)):
        yield csv_line([str(row.get(name) or "") for name in COLUMNS], quoted=True)


def _rows(report: Mapping[str, Any]) -> Iterator[dict[str, object]]:
    yield {
        "section": "report",
        "id": report["tenant"]["id"],
        "name": report["tenant"]["name"],
        "what": report["month"] or "now",
        "created_at": report["made_at"],
        "note": f"what no entry speaks of: {report['default']}",
    }
    for one in report["people"]:
        yield {
            **_named("person", one, "email"),
            "what": one["role"],
            "principal": f"person:{one['id']}",
            "created_at": one["member_since"],
            "last_used_at": one["last_sign_in_at"],
            "note": "second factor: " + (", ".join(one["second_factors"]) or "none"),
        }
    for one in report["service_accounts"]:
        yield {**_named("service account", one), "principal": f"service_account:{one['id']}"}
    for one in report["keys"]:
        yield {
            **_named("key", one),
            "principal": one["principal"],
            "on": "; ".join(scope["on"] for scope in one["scopes"]) or "all that its principal may",
            "operations": "; ".join(_operations(scope) for scope in one["scopes"]),
        }
    for one in report["groups"]:
        yield {
            **_named("group", one),
            "principal": f"group:{one['id']}",
            "note": "members: " + (", ".join(one["members"]) or "none"),
        }
    for one in report["entries"]:
        yield {
            **_named("entry", one, "text"),
            "what": one["effect"],
            "principal": one["principal"],
            "on": one["on"],
            "operations": _operations(one),
            "from": ", ".join(one["addresses"]) or "anywhere",
        }
    for one in report["presets"]:
        yield {
            "section": "preset",
            "what": one["preset"],
            "principal": one["principal"],
            "on": one["on"],
            "note": "groups and transactional ids: " + ", ".join(f"{p}*" for p in one["group_prefixes"]),
        }
    for one in report["invitations"]:
        yield {**_named("invitation", one, "email"), "what": one["role"]}
    yield from _findings(report)


def _findings(report: Mapping[str, Any]) -> Iterator[dict[str, object]]:
    for one in report["changes"]:
        yield {
            "section": "change",
            "id": one["id"],
            "name": one["name"],
            "what": f"{one['kind']} {one['change']}",
            "note": "; ".join(
                f"{field['field']}: {_said(field['before'])} -> {_said(field['after'])}"
                for field in one["fields"]
            ),
        }
    for one in report["unused"]:
        yield {
            "section": "looks unused",
            "id": one["id"],
            "name": one["name"],
            "what": one["kind"],
            "note": one["reason"],
        }
    for section, rows in (("refused", report["refusals"]), ("done", report["activity"])):
        for one in rows:
            yield {
                "section": section,
                "id": one["actor_id"],
                "name": one["name"],
                "what": one["action"],
                "principal": one["actor_kind"],
                "times": one["times"],
            }
    for name, count in report["left_out"].items():
        yield {"section": "left out", "what": name, "times": count}


def _named(section: str, one: Mapping[str, Any], name: str = "name") -> dict[str, object]:
    times = {column: one.get(column) for column in ("created_at", "expires_at", "last_used_at")}
    return {"section": section, "id": one["id"], "name": one[name], **times}


def _operations(one: Mapping[str, Any]) -> str:
    operations: Sequence[str] = one["operations"]
    return ", ".join(operations) or "all"


def _said(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
