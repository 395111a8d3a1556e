"""Consumer groups: list, detail with lag, and moving offsets after a preview."""

from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_safe

from penstock import Client
from penstock.contract.errors import GroupNotFound, NotFound, PenstockError
from tenants.roles import Permission
from web import browsing, charts, live, notices
from web.broker_access import brokers
from web.forms.console_form import posted
from web.forms.fields import moment_ms
from web.forms.groups import MovesForm, TargetForm
from web.groups_now import GroupNow, PartitionLag, group_now, groups_now
from web.paging import page_of
from web.tenant_access import TenantAccess, in_tenant
from web.unscripted import first_answer

NAME_MAX = 249
PARTITIONS_PER_PAGE = 50


@in_tenant(Permission.GROUPS_READ)
@require_safe
def groups(request: HttpRequest, access: TenantAccess) -> HttpResponse:
    """The page; the groups are a part that the page asks for periodically."""
    context = {"here": "groups", **first_answer(request, groups_live, tenant=access.tenant.name)}
    return render(request, "web/groups.html", context)


@in_tenant(Permission.GROUPS_READ)
@require_safe
def groups_live(request: HttpRequest, access: TenantAccess) -> HttpResponse:
    """The groups as the brokers report them now."""
    return render(request, "web/parts/groups_live.html", shown_groups(access))


def shown_groups(access: TenantAccess, topic: str = "") -> dict[str, Any]:
    """The tenant's groups for the template: all of them, or those of one topic with their lag in it."""
    try:
        with brokers(access) as client:
            names = [group.group for group in client.groups(live.TIMEOUT_S)]
            if topic:
                described = [client.topic(topic, live.TIMEOUT_S)]
            else:
                described = client.topics(live.TIMEOUT_S) if names else []
            too_many = sum(len(row.partitions) for row in described) > live.PARTITIONS_MAX
            if too_many:
                described = []
            now = {row.name: row for row in live.topics_now(client, described)}
            groups = groups_now(client, now, names)
    except PenstockError as error:
        return {"trouble": error, "topic_name": topic}
    shown = [group for group in groups if group.partitions] if topic else groups
    more = len(names) - len(groups)
    return {"groups": shown, "more": more, "topic_name": topic, "too_many": too_many and bool(names)}


@in_tenant(Permission.GROUPS_READ)
@require_safe
def group(request: HttpRequest, access: TenantAccess) -> HttpResponse:
    """One group; its name is a query parameter, because it may have any character."""
    name = _name(request)
    context = {"here": "groups", "name": name, "query": urlencode({"name": name})}
    context |= first_answer(request, group_live, tenant=access.tenant.name)
    return render(request, "web/group.html", context)


@in_tenant(Permission.GROUPS_READ)
@require_safe
def group_live(request: HttpRequest, access: TenantAccess) -> HttpResponse:
    name = _name(request)
    context: dict[str, Any] = {"name": name, "query": urlencode({"name": name})}
    try:
        with brokers(access) as client:
            now = group_now(client, name)
    except GroupNotFound:
        context["missing"] = True
    except PenstockError as error:
        context["trouble"] = error
    else:
        longest = max((part.end - part.begin for part in now.partitions), default=0)
        page = page_of(request, now.partitions, PARTITIONS_PER_PAGE)
        context |= {
            "group": now,
            "page": page,
            "parts": [(part, _pipe(part, longest)) for part in page],
        }
    return render(request, "web/parts/group_live.html", context)


@in_tenant(Permission.GROUPS_WRITE)
@require_http_methods(["GET", "HEAD", "POST"])
def reset_group(request: HttpRequest, access: TenantAccess) -> HttpResponse:
    """Move committed offsets: first a preview, then the change with the offsets of the preview."""
    name = _name(request)
    query = urlencode({"name": name})
    context: dict[str, Any] = {"here": "groups", "name": name, "query": query}
    with brokers(access) as client:
        now = group_now(client, name)
        changes = request.POST.get("step") == "change"
        form = TargetForm(now.topics, None if changes else posted(request))
        moving = MovesForm(now, request.POST if changes else None)
        context |= {"group": now, "form": form, "moving": moving}
        if moving.is_valid():
            try:
                client.reset_group(name, moving.moves, live.TIMEOUT_S)
            except PenstockError as error:
                moving.refuse(error)
            else:
                count = len(moving.moves)
                text = f"{name}: moved in {count} partition{'s' if count != 1 else ''}."
                return notices.put(redirect(f"{access.url('group')}?{query}"), text)
        elif form.is_valid():
            try:
                moved = _preview(client, now, form)
            except PenstockError as error:
                form.refuse(error)
            else:
                context["moves"] = moved
                context["changing"] = sum(1 for part, _, again in moved if again or part.committed is None)
    status = moving.status if changes else form.status
    return render(request, "web/group_reset.html", context, status=status)


def _preview(client: Client, now: GroupNow, form: TargetForm) -> list[tuple[PartitionLag, int, int]]:
    """(partition, new offset, messages that would be read again (above 0) or skipped (below 0))."""
    target, wanted, offset = (form.cleaned_data[name] for name in ("to", "topic", "offset"))
    parts = [part for part in now.partitions if not wanted or part.topic == wanted]
    at_time: dict[tuple[str, int], int] = {}
    if target == "time":
        moment = moment_ms(form.cleaned_data["time"])
        for topic in sorted({part.topic for part in parts}):
            numbers = [part.partition for part in parts if part.topic == topic]
            with browsing.Reader(client, topic, numbers) as reader:
                found = reader.offsets_at(moment)
            at_time |= {(topic, partition): at for partition, at in found.items()}
    moves = []
    for part in parts:
        match target:
            case "beginning":
                new = part.begin
            case "end":
                new = part.end
            case "time":
                new = at_time[part.topic, part.partition]
            case _:
                new = min(max(offset or 0, part.begin), part.end)
        before = part.begin if part.committed is None else max(part.committed, part.begin)
        moves.append((part, new, before - new))
    return moves


def _pipe(part: PartitionLag, longest: int) -> charts.Pipe:
    label = f"{part.done:,} of {part.end - part.begin:,} read"
    return charts.pipe(part.done, part.end - part.begin, longest, label, gate=True)


def _name(request: HttpRequest) -> str:
    name = request.GET.get("name", "")
    if not name or len(name) > NAME_MAX:
        raise NotFound(f"group {name[:64]!r} does not exist")
    return name
