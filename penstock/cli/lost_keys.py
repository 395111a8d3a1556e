"""Finds the key whose text was lost when a run of `penstock apply` was killed, and revokes it: the next makes another.

The same request is sent again, with its idempotency key. Either the first one has made the key: the service says
which, without its text. Or it never arrived: then the key is made now, and revoked like the other, since the file may
want none by now.
"""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

from penstock.cli.display import line
from penstock.cli.new_keys import Request, unanswered, unanswered_file
from penstock.cli.output import say
from penstock.contract.errors import AlreadyExists, ConfigurationError, NotFound, PenstockError
from penstock.rest.client import RestClient, segment

REMEMBERED = timedelta(hours=23)
"""The service knows a request again for 24 hours."""
_CLOCKS = timedelta(minutes=5)
_MADE = re.compile(r"(key_\w+) was made by the first request with this key")


def revoke_lost(
    rest: RestClient, keys_to: str | None, timeout_s: float, *, now: datetime | None = None
) -> None:
    """Nothing where no answer was lost. Raises `ConfigurationError` where it cannot be found which key it is."""
    request = unanswered(keys_to)
    if request is None or keys_to is None:
        return
    file = unanswered_file(Path(keys_to))
    asked_at = datetime.fromisoformat(request.asked_at).astimezone(UTC)
    what = f"key {request.name} of {request.service_account}"
    by_hand = (
        f"{file}: {what} was asked for at {request.asked_at}, and the answer was lost. If penstock key list shows a "
        "key of that time, revoke it; then remove this file"
    )
    if (datetime.now(UTC) if now is None else now) - asked_at > REMEMBERED:
        raise ConfigurationError(by_hand)
    try:
        made = rest.post(
            "/v1/keys", request.body, timeout_s=timeout_s, idempotency_key=request.idempotency_key
        )
        key_id, is_new = str(made["id"]), True
    except AlreadyExists as error:
        found = _MADE.search(error.message)
        if found is None:
            # Another key stands in the way: the first request, too, made none.
            file.unlink(missing_ok=True)
            return
        key_id, is_new = found[1], False
    except PenstockError as error:
        raise type(error)(f"{error.message}; {by_hand}") from error
    try:
        rest.delete(f"/v1/keys/{segment(key_id)}", timeout_s=timeout_s)
    except NotFound:
        pass  # it is gone already
    if is_new and (others := _others(rest, request, asked_at - _CLOCKS, timeout_s, without=key_id)):
        # Another credential than that of the first run has other idempotency keys.
        raise ConfigurationError(f"{by_hand}: it may be {', '.join(others)}")
    file.unlink(missing_ok=True)
    if is_new:
        say(line(f"The request for {what} of an earlier run had not arrived."))
    else:
        say(
            line(
                f"The text of {what} was lost when an earlier run ended: {key_id} is revoked, and made again."
            )
        )


def _others(
    rest: RestClient, request: Request, since: datetime, timeout_s: float, *, without: str
) -> list[str]:
    """Valid keys of that name and account which were made since."""
    account = request.body["service_account"]
    return [
        key["id"]
        for key in rest.items("/v1/keys", timeout_s=timeout_s)
        if key["id"] != without
        and key["name"] == request.name
        and key["service_account"] == account
        and key["revoked_at"] is None
        and datetime.fromisoformat(key["created_at"]) >= since
    ]
