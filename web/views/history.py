"""Histories, and restores: each shows what it would change before it is made."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_safe

from control_plane.access import history as access_history
from control_plane.access import list_actions, queries, restore_actions
from control_plane.audit.models import AuditEntry
from control_plane.audit.versions import SEQUENCE_MAX, Changes, Field, Version
from control_plane.outbox import in_request
from control_plane.topics import actions as topic_actions
from control_plane.topics import history as topic_history
from control_plane.topics import queries as topics
from penstock.contract.errors import NotFound, PenstockError
from penstock.rules import access as rules
from quotas.queries import limits_of
from tenants import queries as tenants
from tenants.models import Tenant
from tenants.roles import Permission
from web import notices
from web.forms.console_form import posted
from web.forms.history import RestoreForm
from web.tenant_access import TenantAccess, in_tenant
from web.views.access import HERE, answer, names_of
from web.views.keys import shown_once

PER_PAGE = 50
STEPS_SHOWN = 50
"""Of a restore that changes more, so many are shown, and how many there are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A change, for people."""

    version: Version
    who: str
    fields: list[Field]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A part of what a restore would change; `before` and `after` are empty where the thing is not there."""

    what: str
    before: str = ""
    after: str = ""


# -- settings of topics ---------------------------------------------------------------------------------


@in_tenant(Permission.TOPICS_READ)
@require_safe
def topic(request: HttpRequest, access: TenantAccess, name: str) -> HttpResponse:
    """The versions of the topic's settings, the newest first."""
    row = topics.topic(access.tenant, name)
    context = _history(request, access, topic_history.changes(row))
    return render(
        request, "web/topic_history.html", {**context, "here": "topics", "tab": "history", "topic": row}
    )


@in_tenant(Permission.TOPICS_WRITE)
@require_http_methods(["GET", "HEAD", "POST"])
def restore_settings(request: HttpRequest, access: TenantAccess, name: str, version: str) -> HttpResponse:
    """Give the topic the settings of a version again, after the difference was shown."""
    row = topics.topic(access.tenant, name)
    found = topic_history.changes(row).version(_number(version))
    form = RestoreForm(posted(request))
    if form.is_valid():
        try:
            changed = topic_history.restore_settings(access.actor, access.tenant, row, found.number)
            take_back = partial(topic_actions.take_back, access.actor, changed, row)
            delivered = in_request.deliver_or_take_back(
                topic_actions.KIND_TOPIC, changed.public_id, changed.generation, take_back
            )
        except PenstockError as error:
            form.refuse(error)
        else:
            text = f"{name} has the settings of version {found.number}."
            if not delivered:
                text += " The brokers get them in a moment."
            response = redirect(access.url("topic", name))
            return notices.put(response, text, "ok" if delivered else "caution")
    steps = [
        Step(what=field.field, before=_text(field.before), after=_text(field.after))
        for field in topic_history.way_back(row, found)
    ]
    return _ask(
        request,
        access.tenant,
        form,
        title=f"Restore the settings of {name}",
        what=found.entry,
        steps=steps,
        back=access.url("topic-history", name),
        note="Messages and the number of partitions stay. A shorter retention removes older messages.",
        here="topics",
    )


# -- the access list ------------------------------------------------------------------------------------


@in_tenant(Permission.ACCESS_READ)
@require_safe
def access_list(request: HttpRequest, access: TenantAccess) -> HttpResponse:
    """The changes of the access list, the newest first."""
    context = _history(request, access, access_history.of_list(access.tenant))
    return render(request, "web/access_history.html", {**context, "here": HERE})


@in_tenant(Permission.ACCESS_WRITE)
@require_http_methods(["GET", "HEAD", "POST"])
def restore_list(request: HttpRequest, access: TenantAccess, version: str) -> HttpResponse:
    """Make the list as it was after a change, after the difference was shown."""
    tenant = access.tenant
    found = access_history.of_list(tenant).version(_number(version))
    then = access_history.list_then(tenant, found.number)
    way = access_history.way_back(tenant, then, list_actions.fingerprint_of)
    form = RestoreForm(posted(request), leaves_out=bool(way.gone))
    if form.is_valid():
        try:
            done = restore_actions.restore_list(
                access.actor, tenant, version=found.number, **form.cleaned_data
            )
        except PenstockError as error:
            form.refuse(error)
        else:
            return answer(access, done.row, f"The access list is as it was after change {found.number}.")
    steps = [Step(what="Comes back", after=rules.described(acl)) for acl in way.add.values()]
    steps += [Step(what="Is removed", before=rules.described(row.acl)) for row in way.remove]
    if way.default:
        steps.append(
            Step(what="Where no entry says anything", before=way.default_now, after=way.then.default)
        )
    return _ask(
        request,
        access.tenant,
        form,
        title="Restore the access list",
        what=found.entry,
        steps=steps,
        back=access.url("access-history"),
        note="It holds at once, on open connections too. Groups keep their members.",
        gone=way.gone,
    )


@in_tenant(Permission.ACCESS_READ)
@require_safe
def group(request: HttpRequest, access: TenantAccess, group: str) -> HttpResponse:
    """The versions of a group of principals, the newest first; of a removed group, too."""
    context = _history(request, access, access_history.of_group(access.tenant, group))
    known = queries.groups(access.tenant).filter(public_id=group).first()
    return render(
        request,
        "web/group_history.html",
        {**context, "here": HERE, "group_id": group, "group": known},
    )


@in_tenant(Permission.ACCESS_WRITE)
@require_http_methods(["GET", "HEAD", "POST"])
def restore_group(request: HttpRequest, access: TenantAccess, group: str, version: str) -> HttpResponse:
    """The members of a version again, or the group itself if it was removed."""
    tenant = access.tenant
    changes = access_history.of_group(tenant, group)
    found = changes.version(_number(version))
    known = queries.groups(tenant).filter(public_id=group).first()
    members = access_history.members_in(found)
    gone = access_history.gone(tenant, members)
    last = changes.newest()
    name = access_history.name_of_removed(last) if known is None and last is not None else None
    form = RestoreForm(posted(request), leaves_out=bool(gone), name=name)
    if form.is_valid():
        try:
            done = restore_actions.restore_group(
                access.actor, tenant, group, version=found.number, **form.cleaned_data
            )
        except PenstockError as error:
            form.refuse(error)
        else:
            return answer(access, done.row, f"The group {done.group.name} is as it was.")
    now = [] if known is None else known.members
    steps = [] if known is not None else [Step(what="The group comes back", after=name or "")]
    steps += [Step(what="Member again", after=one) for one in members if one not in now]
    steps += [Step(what="No member any more", before=one) for one in now if one not in members]
    return _ask(
        request,
        access.tenant,
        form,
        title=f"Restore the group {name if known is None else known.name}",
        what=found.entry,
        steps=steps,
        back=access.url("group-history", group),
        note="It keeps its id: entries that name it mean it.",
        gone=gone,
    )


# -- what was removed -----------------------------------------------------------------------------------


@in_tenant(Permission.ACCESS_READ)
@require_safe
def removed(request: HttpRequest, access: TenantAccess) -> HttpResponse:
    """Entries, groups, service accounts and keys that were removed and can be restored."""
    below = _below(request)
    found = access_history.removed(access.tenant, below, PER_PAGE + 1)
    emails = access_history.people_called(access.tenant)
    page = found[:PER_PAGE]
    names = _names(access.tenant, [item.text for item in page])
    context = {
        "here": HERE,
        "items": [(item, _named(item.text, names), _who(item.entry, emails)) for item in page],
        "older": page[-1].entry.sequence if len(found) > PER_PAGE else 0,
        "newest": below is None,
        "days": limits_of(access.tenant).bin_days,
    }
    return render(request, "web/removed.html", context)


@in_tenant(Permission.ACCESS_WRITE)
@require_http_methods(["GET", "HEAD", "POST"])
def restore_entry(request: HttpRequest, access: TenantAccess, acl: str) -> HttpResponse:
    """An entry that was removed, once more."""
    tenant = access.tenant
    there = queries.acls(tenant).filter(public_id=acl).exists()
    removal = None if there else access_history.removal_of_acl(tenant, acl)
    form = RestoreForm(posted(request))
    if form.is_valid():
        try:
            row, _ = restore_actions.restore_acl(access.actor, tenant, acl)
        except PenstockError as error:
            form.refuse(error)
        else:
            return answer(access, row, "The entry is restored.")
    return _ask(
        request,
        access.tenant,
        form,
        title="Restore an entry",
        what=removal,
        steps=[Step(what="Comes back", after=str(removal.before.get("entry", "")))] if removal else [],
        back=access.url("removed"),
        back_to="What was removed",
        note="It holds at once, on open connections too.",
    )


@in_tenant(Permission.ACCESS_WRITE)
@require_http_methods(["GET", "HEAD", "POST"])
def restore_account(request: HttpRequest, access: TenantAccess, account: str) -> HttpResponse:
    """A deleted service account with what named it, and without its secrets."""
    tenant = access.tenant
    present = tenants.service_accounts(tenant).filter(public_id=account).first()
    removal = None if present is not None else access_history.removal_of_account(tenant, account)
    name = _name_in(removal) if present is None else present.name
    form = RestoreForm(posted(request), name=None if removal is None else name)
    if form.is_valid():
        try:
            done = restore_actions.restore_account(access.actor, tenant, account, **form.cleaned_data)
        except PenstockError as error:
            form.refuse(error)
        else:
            return answer(access, done.row, f"{done.account.name} is restored. Make a key of it.")
    steps = [] if removal is None else [Step(what="The service account comes back", after=name)]
    principal = f"{rules.ACCOUNT_KIND}{account}"
    for change in [] if removal is None else access_history.gone_with(removal, principal):
        if change.action == access_history.ACL_DELETE:
            steps.append(Step(what="Entry comes back", after=str(change.before.get("entry", ""))))
        else:
            steps.append(Step(what="Member again", after=f"{rules.GROUP_KIND}{change.object_id}"))
    return _ask(
        request,
        access.tenant,
        form,
        title=f"Restore {name}",
        what=removal,
        steps=steps,
        back=access.url("removed"),
        back_to="What was removed",
        note="Its keys stay revoked: restore one of them for a new secret, or make a key.",
    )


@in_tenant(Permission.KEYS_WRITE, Permission.ACCESS_WRITE)
@require_http_methods(["GET", "HEAD", "POST"])
def restore_key(request: HttpRequest, access: TenantAccess, key: str) -> HttpResponse:
    """A new key with the scopes of one that has ended. Only the page that answers shows its text."""
    row = tenants.key(access.tenant, key)
    form = RestoreForm(posted(request))
    if form.is_valid():
        try:
            made, text = restore_actions.restore_key(access.actor, row)
            return shown_once(request, access, made, text.reveal())
        except PenstockError as error:
            form.refuse(error)
    scopes = [
        f"{', '.join(scope.operations) or 'everything'} on"
        f" {rules.described_resource(scope.resource, scope.name, scope.literal)}"
        for scope in queries.scopes_of(row)
    ]
    return _ask(
        request,
        access.tenant,
        form,
        title=f"A new key with the scopes of {row.name}",
        what=None,
        steps=[Step(what="May", after=text) for text in scopes or ["all that its principal may"]],
        back=access.url("removed"),
        back_to="What was removed",
        note="It gets a secret of its own. The old key stays refused.",
    )


# -- parts ----------------------------------------------------------------------------------------------


def _history(request: HttpRequest, access: TenantAccess, changes: Changes) -> dict[str, Any]:
    below = _below(request)
    found = changes.page(below, PER_PAGE + 1)
    emails = access_history.people_called(access.tenant)
    page = found[:PER_PAGE]
    fields = [
        [
            Field(field=one.field, before=_text(one.before), after=_text(one.after))
            for one in access_history.fields_in_words(version.fields)
        ]
        for version in page
    ]
    names = _names(
        access.tenant, [text for some in fields for one in some for text in (one.before, one.after)]
    )
    return {
        "rows": [
            Row(
                version=version,
                who=_who(version.entry, emails),
                fields=[
                    Field(field=one.field, before=_named(one.before, names), after=_named(one.after, names))
                    for one in some
                ],
            )
            for version, some in zip(page, fields, strict=True)
        ],
        "older": page[-1].number if len(found) > PER_PAGE else 0,
        "newest": below is None,
        "days": limits_of(access.tenant).bin_days,
        "base": f"{request.path}/",
    }


def _ask(
    request: HttpRequest,
    tenant: Tenant,
    form: RestoreForm,
    *,
    title: str,
    what: AuditEntry | None,
    steps: list[Step],
    back: str,
    note: str,
    gone: Mapping[str, str] | None = None,
    back_to: str = "History",
    here: str = HERE,
) -> HttpResponse:
    """The page that shows what would change, with its form."""
    shown = steps[:STEPS_SHOWN]
    called = _names(tenant, [text for step in shown for text in (step.before, step.after)])
    context = {
        "here": here,
        "form": form,
        "heading": title,
        "entry": what,
        "steps": [
            Step(what=step.what, before=_named(step.before, called), after=_named(step.after, called))
            for step in shown
        ],
        "more": len(steps) - len(shown),
        "back": back,
        "back_to": back_to,
        "note": note,
        "gone": access_history.in_words(gone or {}),
    }
    return render(request, "web/restore.html", context, status=form.status)


def _names(tenant: Tenant, texts: list[str]) -> dict[str, str]:
    """Principals that stand in the texts, deleted ones too -> what people call them."""
    named = {word.rstrip(",") for text in texts for word in text.split(" ") if ":" in word}
    if not named:
        return {}
    return access_history.called(tenant, named) | {
        principal: name for principal, name in names_of(tenant).items() if principal in named
    }


def _named(text: str, names: Mapping[str, str]) -> str:
    """An entry or members in words, with the names that people give principals."""
    words = []
    for word in text.split(" "):
        name = names.get(word.rstrip(","))
        words.append(word if name is None else name + ("," if word.endswith(",") else ""))
    return " ".join(words)


def _text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, list):
        return ", ".join(str(one) for one in value) or "none"
    return str(value)


def _who(entry: AuditEntry, emails: Mapping[str, str]) -> str:
    return emails.get(entry.actor_id) or f"{entry.actor_kind} {entry.actor_id}"


def _name_in(removal: AuditEntry | None) -> str:
    return "" if removal is None else str(removal.before.get("name", ""))


def _number(text: str) -> int:
    """Raises `NotFound` for what is no number of a version."""
    if not (text.isascii() and text.isdecimal() and len(text) < len(str(SEQUENCE_MAX))):
        raise NotFound(f"version {text[:32]!r} does not exist")
    return int(text)


def _below(request: HttpRequest) -> int | None:
    text = request.GET.get("before", "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) < len(str(SEQUENCE_MAX)) else None
