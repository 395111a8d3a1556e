"""Messages of a topic: reading them, following the tail, and sending one."""

import re
import time
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_http_methods, require_safe

from control_plane.topics import queries
from penstock import Message
from penstock.contract.errors import InvalidRequest, NotFound, PenstockError
from tenants.roles import Permission
from web import browsing, decoding, formats
from web.broker_access import brokers
from web.forms.console_form import posted
from web.forms.fields import moment_ms
from web.forms.messages import LookForm, SendForm
from web.tenant_access import TenantAccess, in_tenant

SEND_S = 12.0
HASTE: dict[str, Any] = {"linger_ms": 0, "max_block_ms": 5_000, "delivery_timeout_ms": 10_000}
"""A person waits: a message that cannot be sent soon is refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """One message as the page shows it. It has a part of the message's bytes alone: what a template was given lives on
    until the collector of cycles comes, and messages are large.
    """

    partition: int
    offset: int
    key: decoding.Content
    value: decoding.Content
    headers: tuple[tuple[str, decoding.Content], ...]
    at: str


@in_tenant(Permission.MESSAGES_READ)
@require_safe
def messages(request: HttpRequest, access: TenantAccess, name: str) -> HttpResponse:
    """A page of messages from the position that the address names."""
    row = queries.topic(access.tenant, name)
    form = LookForm.asked(request.GET, count=row.partitions)
    context: dict[str, Any] = {
        "here": "topics",
        "tab": "messages",
        "topic": row,
        "form": form,
    }
    if form.is_valid():
        try:
            page = _read(access, name, row.partitions, form)
        except InvalidRequest as error:
            form.refuse(error)
        except PenstockError as error:
            context["trouble"] = error
        else:
            context |= _page_context(access, name, page, form)
    return render(request, "web/messages.html", context, status=form.status)


@in_tenant(Permission.MESSAGES_READ)
@require_safe
def tail(request: HttpRequest, access: TenantAccess, name: str) -> HttpResponse:
    """New messages since the offsets that the address names."""
    row = queries.topic(access.tenant, name)
    after = _offsets(request.GET.get("after", ""), row.partitions)
    context: dict[str, Any] = {"topic": row}
    try:
        with brokers(access) as client, browsing.Reader(client, name, sorted(after)) as reader:
            marks = reader.marks()
            passed = 0
            starts = {}
            for part, offset in after.items():
                begin, end = marks[part]
                starts[part] = max(offset, begin, end - browsing.TAIL_MAX)
                passed += max(0, starts[part] - max(offset, begin))
            ends = {part: end for part, (_, end) in marks.items()}
            found, _ = reader.read(starts, ends, browsing.TAIL_MAX)
            skipped = reader.skipped
    except PenstockError as error:
        context |= {"trouble": error, "after": request.GET.get("after", "")}
    else:
        found.sort(key=lambda message: (-message.timestamp_ms, -message.offset))
        reached = {part: max(ends[part], after[part]) for part in after}
        context |= {
            "items": [_shown(message) for message in found],
            "passed": passed,
            "skipped": skipped,
            "after": _after_text(reached),
        }
    return render(request, "web/parts/tail.html", context)


@in_tenant(Permission.MESSAGES_READ)
@require_safe
def message(
    request: HttpRequest, access: TenantAccess, name: str, partition: str, offset: str
) -> HttpResponse:
    """One message, with more bytes than a list shows."""
    context: dict[str, Any] = {"here": "topics", "topic": queries.topic(access.tenant, name)}
    context["item"] = _shown(_one(access, name, partition, offset), decoding.SHOWN_MAX)
    context |= {"partition": int(partition), "offset": int(offset)}
    return render(request, "web/message.html", context)


@in_tenant(Permission.MESSAGES_READ)
@require_safe
def message_value(
    request: HttpRequest, access: TenantAccess, name: str, partition: str, offset: str
) -> HttpResponse:
    """The value of one message, byte for byte, as a file: browsers must never show it as a page."""
    value = _one(access, name, partition, offset).value
    if value is None:
        raise NotFound(f"{name}-{partition}: the message at offset {offset} has no value")
    response = HttpResponse(value, content_type="application/octet-stream")
    response.headers["Content-Disposition"] = f'attachment; filename="{name}-{partition}-{offset}"'
    return response


@in_tenant(Permission.MESSAGES_WRITE)
@require_http_methods(["GET", "HEAD", "POST"])
def produce(request: HttpRequest, access: TenantAccess, name: str) -> HttpResponse:
    """Send one message and show its partition and offset."""
    row = queries.topic(access.tenant, name)
    form = SendForm(row.partitions, posted(request))
    context: dict[str, Any] = {"here": "topics", "tab": "produce", "topic": row, "form": form}
    status = form.status
    if form.is_valid():
        given = form.cleaned_data
        try:
            with brokers(access) as client, client.producer(**HASTE) as producer:
                receipt = producer.send(
                    name,
                    None if given["empty"] else given["value"].encode(),
                    key=given["key"].encode() or None,
                    headers=given["headers"],
                    partition=given["partition"],
                ).result(timeout=SEND_S)
        except PenstockError as error:
            status = 422
            if form.field_of(error):
                form.refuse(error)
            else:
                # An error about no field is shown above the form, and says whether the message was sent.
                context["trouble"] = error
        else:
            context["receipt"] = receipt
            context["receipt_time"] = formats.time_of(int(time.time() * 1000))
    return render(request, "web/produce.html", context, status=status)


def _read(access: TenantAccess, name: str, count: int, form: LookForm) -> browsing.Page:
    wanted = form.cleaned_data
    limit, at, partition = wanted["limit"], wanted["at"], wanted["partition"]
    parts = [partition] if partition is not None else list(range(min(count, browsing.PARTITIONS_MAX)))
    key = (wanted["key"] or "").encode()
    if at == "key" and partition is None:
        parts = [browsing.partition_for(key, count)]
    when = moment_ms(wanted["time"]) if at == "time" else None
    with brokers(access) as client, browsing.Reader(client, name, parts) as reader:
        if at == "newest":
            return browsing.newest(reader, limit)
        if at == "key":
            return browsing.with_key(reader, parts[0], key, limit)
        return browsing.since(reader, dict.fromkeys(parts, wanted["offset"] or 0), when, limit)


def _page_context(access: TenantAccess, name: str, page: browsing.Page, form: LookForm) -> dict[str, Any]:
    at, limit = form.cleaned_data["at"], form.cleaned_data["limit"]
    context: dict[str, Any] = {
        "items": [_shown(message) for message in page.messages],
        "read": replace(page, messages=()),
        "skipped": page.skipped,
        "stored": sum(end - begin for begin, end in page.marks.values()),
        "after": _after_text({part: end for part, (_, end) in page.marks.items()}),
        "follows": at == "newest",
        "searched_partition": next(iter(page.marks)) if at == "key" else None,
    }
    if len(page.marks) == 1 and at != "key":
        ((partition, (begin, end)),) = page.marks.items()
        if page.first > begin:
            context["older"] = _address(access, name, partition, max(begin, page.first - limit), limit)
        if page.end < end:
            context["newer"] = _address(access, name, partition, page.end, limit)
    return context


def _address(access: TenantAccess, name: str, partition: int, offset: int, limit: int) -> str:
    query = urlencode({"partition": partition, "at": "offset", "offset": offset, "limit": limit})
    return f"{access.url('messages', name)}?{query}"


def _shown(message: Message, most: int = decoding.LISTED_MAX) -> Shown:
    return Shown(
        partition=message.partition,
        offset=message.offset,
        key=decoding.decode(message.key, most),
        value=decoding.decode(message.value, most),
        headers=tuple(
            (decoding.visible(header, one_line=True), decoding.decode(content, decoding.LISTED_MAX))
            for header, content in message.headers
        ),
        at=formats.time_of(message.timestamp_ms),
    )


def _one(access: TenantAccess, name: str, partition: str, offset: str) -> Message:
    """The message at this offset. Raises `NotFound`, and the errors of reading."""
    row = queries.topic(access.tenant, name)
    missing = NotFound(f"{name}-{partition[:20]}: no message at offset {offset[:20]}")
    if not re.fullmatch(r"[0-9]{1,6}", partition) or int(partition) >= row.partitions:
        raise missing
    if not re.fullmatch(r"[0-9]{1,18}", offset):
        raise missing
    part, at = int(partition), int(offset)
    with brokers(access) as client, browsing.Reader(client, name, [part]) as reader:
        found = browsing.since(reader, {part: at}, None, 1).messages
    if not found or found[0].offset != at:
        raise missing
    return found[0]


def _offsets(text: str, count: int) -> dict[int, int]:
    """`0:12,1:7` as partition -> offset. Raises `InvalidRequest`."""
    found: dict[int, int] = {}
    for part in text[:8_000].split(","):
        match = re.fullmatch(r"(\d{1,6}):(\d{1,18})", part)
        if match is None or int(match[1]) >= count or len(found) > browsing.PARTITIONS_MAX:
            raise InvalidRequest("after: partitions and offsets such as 0:12,1:7")
        found[int(match[1])] = int(match[2])
    return found


def _after_text(offsets: dict[int, int]) -> str:
    return ",".join(f"{part}:{offset}" for part, offset in sorted(offsets.items()))
