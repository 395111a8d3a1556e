"""How much memory the web process takes, view after view and sign-in after sign-in:
`python -m benchmarks.web_memory --views 2000 --sign-ins 1000`.

A whole service runs beside it. Views show a topic with twenty messages of a megabyte, four at a time. Each sign-in is a
browser of its own, on an address of its own, that looks at the overview and signs out.
"""

import argparse
import re
import secrets
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from http.cookies import SimpleCookie
from itertools import count
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import psutil

from benchmarks.whole_service import WholeService
from penstock import Client
from penstock.rest.client import RestClient

MESSAGES = 20
MESSAGE_BYTES = 1_000_000
AT_ONCE = 4
SAMPLES = 8
_MIB = 2**20
_TIMEOUT_S = 60
_TOKEN = re.compile(r'name="csrfmiddlewaretoken" value="([^"]+)"')


class Browser:
    """Cookies and forms, from a loopback address of its own: attempts to sign in are counted by address."""

    _numbers = count(2)

    def __init__(self, url: str) -> None:
        number = next(self._numbers)
        parts = urlsplit(url)
        source = f"127.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"
        self._url = url
        self._connection = HTTPConnection(
            str(parts.hostname), parts.port, timeout=_TIMEOUT_S, source_address=(source, 0)
        )
        self._cookies: dict[str, str] = {}

    def get(self, path: str) -> str:
        return self._ask("GET", path, None)

    def fill(self, page: str, path: str, fields: dict[str, str]) -> None:
        """Send the form that stands on `page`."""
        token = _TOKEN.search(self.get(page))
        if token is None:
            raise RuntimeError(f"{page} has no form")
        self._ask("POST", path, {**fields, "csrfmiddlewaretoken": token[1]})

    def sign_in(self, fields: dict[str, str]) -> None:
        self.fill("/sign-in", "/sign-in", fields)

    def another(self) -> "Browser":
        """A further connection of the same person."""
        browser = Browser(self._url)
        browser._cookies = dict(self._cookies)
        return browser

    def close(self) -> None:
        self._connection.close()

    def _ask(self, method: str, path: str, fields: dict[str, str] | None) -> str:
        headers = {"Cookie": "; ".join(f"{name}={value}" for name, value in self._cookies.items())}
        if fields is not None:
            headers |= {"Content-Type": "application/x-www-form-urlencoded", "Referer": self._url}
        self._connection.request(method, path, None if fields is None else urlencode(fields), headers)
        response = self._connection.getresponse()
        content = response.read().decode()
        for set_cookie in response.headers.get_all("Set-Cookie", []):
            self._cookies |= {name: morsel.value for name, morsel in SimpleCookie(set_cookie).items()}
        if response.status not in (200, 302):
            raise RuntimeError(f"{method} {path}: {response.status}")
        return content


def measure(folder: Path, views: int, sign_ins: int) -> None:
    """Print the process's resident memory at the start and along the way."""
    with WholeService(folder) as service:
        web, *_ = service.processes("web")
        account = service.up.account
        with RestClient(service.api_url, service.api_key) as rest:
            home = f"/t/{next(rest.items('/v1/tenants'))['name']}"
            rest.post("/v1/topics", {"name": "large", "partitions": 1})
        fields = {"email": account.email, "password": account.password}
        _fill(service)
        owner = Browser(service.api_url)
        owner.sign_in(fields)

        def view(_: int) -> None:
            browser = owner.another()
            browser.get(f"{home}/topics/large/messages")
            browser.close()

        def visit(_: int) -> None:
            browser = Browser(service.api_url)
            browser.sign_in(fields)
            browser.get(f"{home}/overview/live")
            browser.fill(home, "/sign-out", {})
            browser.close()

        print(f"at the start: {_resident(web)} MiB", flush=True)
        _run("views", views, view, web, at_once=AT_ONCE)
        _run("sign-ins", sign_ins, visit, web, at_once=1)


def _run(what: str, number: int, act: Callable[[int], None], web: psutil.Process, *, at_once: int) -> None:
    with ThreadPoolExecutor(at_once) as pool:
        for sample in range(1, SAMPLES + 1):
            done = range(number * (sample - 1) // SAMPLES, number * sample // SAMPLES)
            list(pool.map(act, done))
            print(f"after {done.stop} {what}: {_resident(web)} MiB", flush=True)


def _fill(service: WholeService) -> None:
    with (
        Client(bootstrap=service.bootstrap, api_key=service.api_key) as client,
        client.producer() as producer,
    ):
        for _ in range(MESSAGES):
            producer.send("large", secrets.token_bytes(MESSAGE_BYTES)).result(timeout=_TIMEOUT_S)


def _resident(web: psutil.Process) -> int:
    return int(web.memory_info().rss // _MIB)


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--views", type=int, default=2_000)
    parser.add_argument("--sign-ins", type=int, default=1_000)
    asked = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="penstock-web-memory-") as folder:
        measure(Path(folder), asked.views, asked.sign_ins)


if __name__ == "__main__":
    main(sys.argv[1:])
