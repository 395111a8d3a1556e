"""The newest changes of a tenant in words: what became of which object, by whom. Reads and refusals are left out."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from control_plane.audit import queries
from control_plane.audit.actor import ActorKind
from control_plane.audit.models import AuditEntry
from penstock.contract.audit_entries import DONE, SUMMARY
from web.broker_access import KEY_NAME

LOOKED_AT_MAX = 2_000
"""Entries of the log from its end on: what was last changed before them is not news."""
_ENTRIES = 50
"""So many are read for each change that is shown: keys of the console come and go between them."""
_HOUSEKEEPING = ("reassert", "adopt", "unknown_objects", "threshold")
"""Verbs of entries that the service writes when nothing was changed by a person or a program."""
_THINGS = {
    "acl": "an entry of the access list",
    "access": "the access list",
    "access_list": "the access list",
    "access_report_mails": "the e-mails of access reports",
    "account_limits": "the limits of a service account",
    "audit_topic": "the topic of the audit log",
    "cost_tags": "the tags of costs of",
    "member": "the member",
    "prices": "the price book",
    "principal_group": "the group",
    "quota": "the limits",
    "tax_address": "the billing profile",
}
_DONE = {
    "create": "made",
    "assign": "assigned",
    "publish": "published",
    "issue": "issued",
    "change": "changed",
    "update": "changed",
    "set": "changed",
    "role": "given another role",
    "delete": "deleted",
    "remove": "removed",
    "clear": "emptied",
    "purge": "deleted for good",
    "bin": "put into the recycle bin",
    "restore": "restored",
    "restored": "restored",
    "settings_restored": "given earlier settings",
    "recreate": "made again",
    "revoke": "revoked",
    "end": "given an end",
    "rotate": "given a new secret",
    "ping": "tested",
    "switch_off": "switched off",
    "rewind": "written again",
    "resume": "resumed",
    "suspend": "suspended",
    "close": "closed",
    "reopen": "reopened",
    "protect": "protected",
    "unprotect": "protected no longer",
    "default": "given another default",
    "require_factors": "made to require second factors",
    "require_factors_end": "made to require no second factors",
    "invite": "invited",
    "withdraw": "invited no longer",
    "join": "let in",
    "redeem": "redeemed",
}

_ACTORS = {
    ActorKind.PERSON.value: "a person who left",
    ActorKind.KEY.value: "a key",
    ActorKind.OPERATOR.value: "an operator",
    ActorKind.SYSTEM.value: "the service",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One change: `topic orders made`, and who made it."""

    thing: str
    name: str
    done: str
    who: str
    moment: datetime


def newest(tenant: str, emails: Mapping[str, str], most: int) -> list[Change]:
    """The newest changes of the tenant with this public id; `emails` of people by their id."""
    sequence, _ = queries.head(tenant)
    entries = (
        queries.entries(tenant)
        .filter(sequence__gt=sequence - LOOKED_AT_MAX, outcome=DONE)
        .exclude(after__has_key=SUMMARY)
        .exclude(object_kind__in=("sign_in", "partition"))
        .order_by("-sequence")[: _ENTRIES * most]
    )
    return [change_of(entry, emails) for entry in entries if _is_news(entry)][:most]


def _is_news(entry: AuditEntry) -> bool:
    """The console's own keys are made and revoked all the time."""
    names = (entry.after.get("name"), entry.before.get("name"))
    if entry.object_kind == "key" and KEY_NAME in names:
        return False
    return entry.action.partition(".")[2] not in _HOUSEKEEPING


def change_of(entry: AuditEntry, emails: Mapping[str, str]) -> Change:
    """The entry in words. No id is shown where the entry or `emails` has a name."""
    kind, _, verb = entry.action.partition(".")
    return Change(
        thing=_THINGS.get(kind, kind.replace("_", " ")),
        name=_name(entry, emails),
        done=_DONE.get(verb, verb.replace("_", " ")),
        who=_who(entry, emails),
        moment=entry.at,
    )


def _name(entry: AuditEntry, emails: Mapping[str, str]) -> str:
    for state in (entry.after, entry.before):
        for member in ("name", "email", "number"):
            if isinstance(state.get(member), str):
                return str(state[member])
    return emails.get(entry.object_id, "")


def _who(entry: AuditEntry, emails: Mapping[str, str]) -> str:
    if entry.actor_id in emails:
        return emails[entry.actor_id]
    return _ACTORS.get(entry.actor_kind, entry.actor_kind)
