"""Locust users of the whole service at once: messages, REST, newcomers and people at the console.

`make load` starts a service and runs it. Against a service that runs:

    .venv/bin/locust -f benchmarks/load/mixed.py --headless -u 13 -r 13 -t 10m --stop-timeout 120 \\
        --host http://127.0.0.1:8000 --topic load

The host is the control plane. The brokers, and the key that the users of messages have, are the profile's. An
answer that its user does not expect is a failure; each user's pace stays below the limits that refuse.
"""

import itertools
import re
import secrets
import time
from collections.abc import Callable, Collection, Mapping
from typing import Any, ClassVar
from urllib.parse import urlsplit

from locust import HttpUser, constant_pacing, events, task

from benchmarks.load import (
    locustfile,
)  # not its class: Locust runs every class of users that this module names
from penstock import Client, PenstockError

FIRST_MESSAGE = "sign-up to first message"
ANSWER_S = 30.0
_LOOK_S = 0.2
_CSRF = re.compile(r'name="csrfmiddlewaretoken" value="([^"]+)"')
_OK, _MADE = (200,), (201, 202)
_DONE = (200, 202)
"""A change that the brokers do not have yet is answered with 202."""
_names = itertools.count()


class Unexpected(Exception):
    """An answer that its user cannot go on with; it is counted as a failure where it was received."""


@events.user_error.add_listener  # type: ignore[untyped-decorator]
def _count_errors(user_instance: Any, exception: Exception, **_: Any) -> None:
    """Locust only lists what a user raises. Here it is a failure too, as `make load` promises none."""
    if not isinstance(exception, Unexpected):
        _tell(user_instance, "an error of the user", 0.0, exception)


def _tell(user: Any, what: str, took_s: float, failure: Exception | None) -> None:
    user.environment.events.request.fire(
        request_type="penstock",
        name=what,
        response_time=took_s * 1000,
        response_length=0,
        exception=failure,
        context={},
    )


class MessageUser(locustfile.PenstockUser):
    """Sends and reads on the topic that all of its kind share: about 60 messages a second each."""

    fixed_count = 4
    wait_time = constant_pacing(0.2)


class _Account(HttpUser):
    """Someone who signs up with a tenant of their own."""

    abstract = True

    def on_start(self) -> None:
        self.email = ""
        self.password = ""
        self.token = ""
        self.tenant = ""

    def sign_up(self) -> None:
        name = f"load-{time.time_ns()}-{next(_names)}"
        self.email = f"{name}@load.example"
        self.password = secrets.token_urlsafe(12)
        body = {"email": self.email, "password": self.password, "tenant": name}
        self.token = ""
        made = self.ask("POST", "/v1/sign-up", _MADE, body)
        self.token = str(made["token"])
        self.tenant = str(made["tenant"]["id"])

    def ask(
        self,
        method: str,
        path: str,
        expected: Collection[int],
        body: Mapping[str, Any] | None = None,
        *,
        name: str = "",
        if_match: str = "",
    ) -> dict[str, Any]:
        """The answer's object, and its ETag as `ETag`; an unexpected answer is a failure and an `Unexpected`."""
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        if if_match:
            headers["If-Match"] = if_match
        shown = name or path.partition("?")[0]
        with self.client.request(
            method,
            path,
            json=body,
            headers=headers,
            timeout=ANSWER_S,
            name=f"{method} {shown}",
            catch_response=True,
        ) as answer:
            if answer.status_code not in expected:
                answer.failure(f"{answer.status_code}: {(answer.text or '')[:300]}")
                raise Unexpected(f"{method} {path}: {answer.status_code}")
            answer.success()
            found: dict[str, Any] = answer.json() if answer.content else {}
            return found | {"ETag": answer.headers.get("ETag", "")}


class RestUser(_Account):
    """One person's programs: topics, entries, keys and quotas made, changed and removed, and much read."""

    fixed_count = 4
    wait_time = constant_pacing(1.0)
    _READS: ClassVar = (
        *("/v1/topics?limit=50", "/v1/usage", "/v1/usage?by=topic", "/v1/audit?limit=20", "/v1/acls"),
        *("/v1/quotas", "/v1/keys", "/v1/invoices", "/v1/people", "/v1/access", "/v1/availability"),
        *("/v1/bin/topics", "/v1/tenants", "/v1/plans", "/v1/sign-ins"),
    )

    def on_start(self) -> None:
        super().on_start()
        self._numbers = itertools.count()
        self.sign_up()

    @task(6)
    def read(self) -> None:
        for path in self._READS:
            self.ask("GET", path, _OK)

    @task(3)
    def topic(self) -> None:
        """A topic's life, to the bin and out of it."""
        path = f"/v1/topics/life-{next(self._numbers)}"
        shown = "/v1/topics/{name}"
        self.ask("POST", "/v1/topics", _MADE, {"name": path.rpartition("/")[2], "partitions": 1})
        found = self.ask("GET", path, _OK, name=shown)
        change = {"partitions": 2}
        tried = self.ask("PATCH", f"{path}?dry_run=true", _OK, change, name=f"{shown} (dry run)")
        if not tried.get("dry_run", True):
            raise Unexpected(f"{path}: a dry run that is none")
        self.ask("PATCH", path, _DONE, change, name=shown, if_match=found["ETag"])
        self.ask("PATCH", path, (412,), {"partitions": 3}, name=f"{shown} (changed since)", if_match='"0"')
        self.ask("DELETE", f"{path}?purge=true", (*_DONE, 204), name=shown)
        self.ask("GET", path, (404,), name=f"{shown} (deleted)")

    @task(2)
    def entry(self) -> None:
        """An entry of the access list comes and goes."""
        body = {
            "effect": "allow",
            "principal": "everyone",
            "resource": "topic",
            "name": f"entry-{next(self._numbers)}",
            "pattern": "prefix",
            "operations": ["consume"],
        }
        made = self.ask("POST", "/v1/acls", _MADE, body)
        who = f"/v1/access/who?resource=topic&name={body['name']}&operation=consume"
        self.ask("GET", who, _OK)
        self.ask("DELETE", f"/v1/acls/{made['id']}", (*_DONE, 204), name="/v1/acls/{acl}")

    @task(1)
    def key(self) -> None:
        """A key is made, tried, and revoked."""
        made = self.ask("POST", "/v1/keys", _MADE, {"name": f"key-{next(self._numbers)}"})
        session, self.token = self.token, str(made["key"])
        try:
            self.ask("GET", "/v1/topics?limit=50", _OK)
        finally:
            self.token = session
        self.ask("DELETE", f"/v1/keys/{made['id']}", (*_DONE, 204), name="/v1/keys/{key}")


class Newcomer(_Account):
    """Signs up, and sends and reads a first message; then the tenant is closed."""

    fixed_count = 3
    wait_time = constant_pacing(12.0)

    @task
    def come_and_go(self) -> None:
        began = time.perf_counter()
        self.sign_up()
        topic = self.ask("POST", "/v1/topics", _MADE, {"name": "first", "partitions": 1})
        made = self.ask("POST", "/v1/keys", _MADE, {"name": "first"})
        self._until(topic, "/v1/topics/first", lambda now: now["delivered_generation"] >= topic["generation"])
        self._until(made, f"/v1/keys/{made['id']}", lambda now: bool(now["delivered"]), name="/v1/keys/{key}")
        try:
            self._send_and_read(str(made["key"]), began)
        except PenstockError as error:
            _tell(self, FIRST_MESSAGE, time.perf_counter() - began, error)
        self.ask("POST", "/v1/sign-out", (*_DONE, 204))
        self.token = ""
        again = self.ask("POST", "/v1/sign-in", (200, 201), {"email": self.email, "password": self.password})
        self.token = str(again["token"])
        self.ask("DELETE", f"/v1/tenants/{self.tenant}", _DONE, name="/v1/tenants/{tenant}")
        self.ask("POST", "/v1/sign-out", (*_DONE, 204))

    def _until(
        self, found: dict[str, Any], path: str, is_there: Callable[[dict[str, Any]], bool], *, name: str = ""
    ) -> None:
        """What was made may reach the brokers after the answer, on a busy machine."""
        deadline = time.monotonic() + ANSWER_S
        while not is_there(found):
            if time.monotonic() > deadline:
                late = Unexpected(f"{path} did not reach the brokers")
                _tell(self, FIRST_MESSAGE, ANSWER_S, late)
                raise late
            time.sleep(_LOOK_S)
            found = self.ask("GET", path, _OK, name=name)

    def _send_and_read(self, key: str, began: float) -> None:
        with Client(api_key=key) as client:
            client.producer().send("first", b"hello").result(ANSWER_S)
            _tell(self, FIRST_MESSAGE, time.perf_counter() - began, None)
            sent = time.perf_counter()
            with client.consumer("first") as consumer:
                read = [message.value for message in consumer.poll(timeout=ANSWER_S)]
            wrong = None if read == [b"hello"] else Unexpected(f"{read!r} came back for one message")
            _tell(self, "first message read", time.perf_counter() - sent, wrong)


class ConsoleUser(_Account):
    """Signs in at the console, looks at every page of the tenant, and signs out."""

    fixed_count = 2
    wait_time = constant_pacing(10.0)
    _PAGES: ClassVar = (
        "overview",
        "topics",
        "groups",
        "keys",
        "access",
        "usage",
        "invoices",
        "people",
        "audit",
        "bin",
    )

    def on_start(self) -> None:
        super().on_start()
        self.sign_up()
        self.ask("POST", "/v1/sign-out", (*_DONE, 204))

    @task
    def look_around(self) -> None:
        self.client.cookies.clear()
        form = {"email": self.email, "password": self.password}
        first = self._post("/sign-in", form, self._page("/sign-in"))
        home = urlsplit(first.url).path.rstrip("/").removesuffix("/overview")
        last = ""
        for page in self._PAGES:
            path = home if page == "overview" else f"{home}/{page}"
            last = self._page(path, name=f"/t/{{tenant}}/{page}")
        self._post("/sign-out", {}, last)

    def _page(self, path: str, *, name: str = "") -> str:
        with self.client.get(
            path, timeout=ANSWER_S, name=f"GET {name or path}", catch_response=True
        ) as answer:
            if answer.status_code != 200 or (path != "/sign-in" and "/sign-in" in answer.url):
                answer.failure(f"{answer.status_code} at {answer.url}")
                raise Unexpected(f"{path}: {answer.status_code}")
            return str(answer.text)

    def _post(self, path: str, form: Mapping[str, str], page: str) -> Any:
        token = _CSRF.search(page)
        if token is None:
            raise Unexpected(f"{path}: the page has no form")
        with self.client.post(
            path,
            data={**form, "csrfmiddlewaretoken": token[1]},
            headers={"Referer": f"{self.host}{path}"},
            timeout=ANSWER_S,
            name=f"POST {path}",
            catch_response=True,
        ) as answer:
            if answer.status_code != 200:
                answer.failure(f"{answer.status_code} at {answer.url}")
                raise Unexpected(f"{path}: {answer.status_code}")
            return answer
