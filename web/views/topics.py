"""Topics: list, detail with what the brokers say now, create, edit, delete."""

from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_safe

from control_plane.outbox import in_request
from control_plane.topics import actions, creation, queries
from control_plane.topics.models import Topic
from penstock.contract import limits
from penstock.contract.errors import AlreadyExists, NotFound, PenstockError
from penstock.rules.names import check_topic_name
from penstock.rules.timestamps import DAY_MS
from quotas.queries import limits_of
from tenants.roles import Permission
from web import charts, live, notices
from web.broker_access import brokers
from web.flows import flows
from web.forms import Form
from web.places import Place, in_tenant
from web.unscripted import first_answer

PER_PAGE = 50
SEARCH_MAX = 249
_UNITS_MS = {"hours": 3_600_000, "days": DAY_MS}


@in_tenant(Permission.TOPICS_READ)
@require_safe
def topics(request: HttpRequest, place: Place) -> HttpResponse:
    """All topics, or those whose name has a text in it."""
    wanted = request.GET.get("q", "").strip()[:SEARCH_MAX].replace("\0", "")
    rows = queries.topics(place.tenant).order_by("name")
    whole = rows.count()
    if wanted:
        rows = rows.filter(name__icontains=wanted)
    page = Paginator(rows, PER_PAGE).get_page(request.GET.get("page", "1")[:9])
    context = {
        "here": "topics",
        "page": page,
        "q": wanted,
        "q_kept": urlencode({"q": wanted}) if wanted else "",
        "whole": whole,
        "partitions": sum(queries.topics(place.tenant).values_list("partitions", flat=True)),
        "limits": limits_of(place.tenant),
        "copies_possible": queries.copies_possible(),
    }
    return render(request, "web/topics.html", context)


@in_tenant(Permission.TOPICS_READ)
@require_safe
def topic(request: HttpRequest, place: Place, name: str) -> HttpResponse:
    """One topic as it is wanted; what the brokers say of it comes as a part."""
    row = queries.topic(place.tenant, name)
    context = {"here": "topics", "tab": "topic", "topic": row, "settings": shown_settings(row)}
    context |= first_answer(request, topic_live, tenant=place.tenant.name, name=name)
    return render(request, "web/topic.html", context)


@in_tenant(Permission.TOPICS_READ)
@require_safe
def topic_live(request: HttpRequest, place: Place, name: str) -> HttpResponse:
    """The part that changes: partitions with leaders, in-sync sets and offsets, and the rate."""
    row = queries.topic(place.tenant, name)
    context: dict[str, Any] = {"topic": row}
    if not place.may(Permission.GROUPS_READ):
        context["refused"] = True
    else:
        try:
            with brokers(place) as client:
                (now,) = live.topics_now(client, [client.topic(name, live.TIMEOUT_S)])
                read_back = live.read_back(client, now)
        except NotFound:
            context["pending"] = True
        except PenstockError as error:
            context["trouble"] = error
        else:
            rates = live.watch.sample(f"topic {now.topic_id}", now.written)
            longest = max((part.held for part in now.partitions), default=0)
            context |= {
                "now": now,
                "read_back": read_back,
                "rates": rates,
                "flows": flows(place.tenant.public_id, now.topic_id),
                "parts": [
                    (part, charts.pipe(part.held, part.held, longest, f"{part.held:,} messages", gate=False))
                    for part in now.partitions
                ],
            }
    return render(request, "web/parts/topic_live.html", context)


@in_tenant(Permission.TOPICS_WRITE)
@require_http_methods(["GET", "HEAD", "POST"])
def new_topic(request: HttpRequest, place: Place) -> HttpResponse:
    """Create a topic."""
    form = _form(
        request,
        name="",
        partitions="3",
        retention="7",
        retention_unit="days",
        retention_bytes="",
        replication="",
        min_insync_replicas="",
        durability="fsync",
        max_message_kib="1024",
    )
    if request.method == "POST":
        partitions = form.whole("partitions", "Partitions")
        settings = _settings(form)
        _check_each(form, place, partitions, settings)
        if not form.failed and partitions is not None:
            try:
                row = creation.create_topic(
                    place.actor,
                    place.tenant,
                    name=form.text("name"),
                    partitions=partitions,
                    settings=settings,
                )
            except PenstockError as error:
                _refuse(form, error)
            else:
                return _told(place, row, f"Topic {row.name} is made", f"Topic {row.name} is not there yet")
    context = {"here": "topics", "form": form, "partitions_max": limits.PARTITIONS_PER_TOPIC_MAX}
    return render(request, "web/topic_new.html", context, status=422 if form.failed else 200)


@in_tenant(Permission.TOPICS_WRITE)
@require_http_methods(["GET", "HEAD", "POST"])
def edit_topic(request: HttpRequest, place: Place, name: str) -> HttpResponse:
    """Change settings and add partitions."""
    row = queries.topic(place.tenant, name)
    retention, unit = _split_span(row.settings["retention_ms"])
    size = row.settings["retention_bytes"]
    form = _form(
        request,
        partitions=str(row.partitions),
        retention=retention,
        retention_unit=unit,
        retention_bytes="" if size < 0 else str(-(-size // limits.MIB)),
        replication=str(row.settings["replication"]),
        min_insync_replicas=str(row.settings["min_insync_replicas"]),
        durability=row.settings["durability"],
        max_message_kib=str(-(-row.settings["max_message_bytes"] // limits.KIB)),
    )
    if request.method == "POST":
        partitions = form.whole("partitions", "Partitions")
        settings = _settings(form)
        if not form.failed:
            try:
                changed = actions.update_topic(
                    place.actor, place.tenant, name, partitions=partitions, settings=settings
                )
            except PenstockError as error:
                _refuse(form, error)
            else:
                if changed.generation == row.generation:
                    return notices.put(redirect(place.url("topic", name)), "Nothing was changed.")
                return _told(place, changed, f"{name} is changed", f"The change of {name} is not there yet")
    context = {"here": "topics", "tab": "settings", "form": form, "topic": row}
    return render(request, "web/topic_edit.html", context, status=422 if form.failed else 200)


@in_tenant(Permission.TOPICS_WRITE)
@require_http_methods(["GET", "HEAD", "POST"])
def delete_topic(request: HttpRequest, place: Place, name: str) -> HttpResponse:
    """Delete a topic, once its name was typed."""
    row = queries.topic(place.tenant, name)
    form = _form(request, name="")
    if request.method == "POST":
        if form.text("name") != name:
            form.errors["name"] = f"Type {name} exactly to delete it"
        else:
            try:
                gone = actions.delete_topic(place.actor, place.tenant, name)
            except PenstockError as error:
                form.errors[""] = error.message
            else:
                in_request.deliver_now(actions.KIND_TOPIC, gone.public_id, gone.generation)
                return notices.put(redirect(place.url("topics")), f"Topic {name} is deleted.")
    context = {"here": "topics", "tab": "delete", "form": form, "topic": row}
    return render(request, "web/topic_delete.html", context, status=422 if form.failed else 200)


def shown_settings(row: Topic) -> list[tuple[str, str, str]]:
    """(name, value, what it means) of the settings that people ask for first."""
    from web import formats

    settings, possible = row.settings, queries.copies_possible()
    basis = "event time" if settings["retention_basis"] == "event" else "acceptance"
    return [
        ("Retention", formats.span(settings["retention_ms"]), f"by {basis}"),
        ("Size limit", formats.limit_size(settings["retention_bytes"]), "per partition"),
        (
            "Copies",
            str(settings["replication"]),
            f"of which {settings['min_insync_replicas']} must be in sync to write"
            + (f"; the brokers could hold {possible}" if settings["replication"] < possible else ""),
        ),
        (
            "Durability",
            settings["durability"],
            "acknowledged when on disk"
            if settings["durability"] == "fsync"
            else "acknowledged when in memory",
        ),
        ("Largest message", formats.limit_size(settings["max_message_bytes"]), ""),
        (
            "Timestamps",
            settings["timestamp_type"],
            "set by the producer" if settings["timestamp_type"] == "create" else "set on arrival",
        ),
    ]


def _form(request: HttpRequest, **defaults: str) -> Form:
    return Form.of(request.POST if request.method == "POST" else {}, **defaults)


def _settings(form: Form) -> dict[str, Any]:
    """The settings that the form names, in the contract's units."""
    settings: dict[str, Any] = {"durability": form.text("durability")}
    if form.text("retention_unit") == "unlimited":
        settings["retention_ms"] = -1
    elif (number := form.whole("retention", "Retention")) is not None:
        settings["retention_ms"] = number * _UNITS_MS.get(form.text("retention_unit"), DAY_MS)
    if form.text("retention_bytes") == "":
        settings["retention_bytes"] = -1
    elif (number := form.whole("retention_bytes", "Size limit")) is not None:
        settings["retention_bytes"] = number * limits.MIB
    if (number := form.whole("max_message_kib", "Largest message")) is not None:
        settings["max_message_bytes"] = number * limits.KIB
    for name in ("replication", "min_insync_replicas"):
        if form.text(name) and (number := form.whole(name, "Copies")) is not None:
            settings[name] = number
    return settings


def _check_each(form: Form, place: Place, partitions: int | None, settings: dict[str, Any]) -> None:
    """Everything that is wrong at once, not only what creating would name first."""
    checks: list[Callable[[], object]] = [
        lambda: check_topic_name(place.tenant.public_id, form.text("name")),
        lambda: actions.complete(settings),
    ]
    if partitions is not None:
        checks.append(lambda: actions.checked_partitions(partitions))
    for check in checks:
        try:
            check()
        except PenstockError as error:
            _refuse(form, error)


def _refuse(form: Form, error: PenstockError) -> None:
    """A refusal of a setting at the field that people typed it into."""
    form.refuse(error)
    if isinstance(error, AlreadyExists) and "name" in form.values:
        form.errors["name"] = form.errors.pop("")
    for setting, field in (("retention_ms", "retention"), ("max_message_bytes", "max_message_kib")):
        prefix = f"{setting}: "
        if form.errors.get("", "").startswith(prefix):
            form.errors[field] = form.errors.pop("").removeprefix(prefix)


def _split_span(milliseconds: int) -> tuple[str, str]:
    if milliseconds < 0:
        return "7", "unlimited"
    if milliseconds % DAY_MS == 0:
        return str(milliseconds // DAY_MS), "days"
    return str(max(1, milliseconds // 3_600_000)), "hours"


def _told(place: Place, row: Topic, done: str, waiting: str) -> HttpResponse:
    """To the topic, saying whether the brokers have it already, and what keeps them from it."""
    delivered = in_request.deliver_now(actions.KIND_TOPIC, row.public_id, row.generation)
    response = redirect(place.url("topic", row.name))
    if delivered:
        return notices.put(response, f"{done}.")
    told = queries.topic(place.tenant, row.name).conditions
    why = "; ".join(condition["message"] for condition in told) or "the brokers will hear of it in a moment"
    return notices.put(response, f"{waiting}: {why}.", "caution")
