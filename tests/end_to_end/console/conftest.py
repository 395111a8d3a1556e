"""One service for the tests of this folder, one browser for those of a module; a person with their own tenant for
each test.

No browser outlives its module: its driver keeps an event loop running in this thread.
"""

import random
import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Dialog,
    Error,
    Page,
    Request,
    expect,
    sync_playwright,
)

from tests.conftest import FULL
from tests.end_to_end.console.service import Service, running_service
from tests.waiting import wait_until

CHROMIUM = "/usr/lib/chromium/chromium-headless-shell"
"""Chromium without a desktop: the other one draws a window with tabs and menus for each page, which takes half of its
processor time and which nothing looks at.
"""
FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"),
    *("--disable-sync", "--no-first-run"),
)
PASSWORD = "a horse, a battery"
TIMEOUT_MS = 120_000
"""For actions and for what is expected alike: on a machine with twenty busy processes a page takes seconds."""
MOTION_SHARES = 3
"""One of so many visitors, by chance, has not asked for less motion; in the long form none has."""
NO_FAULTS = ("Transition was aborted because of invalid state",)
"""A busy browser that shows the next page before it has faded out the last one says so."""
expect.set_options(timeout=TIMEOUT_MS)


@dataclass
class Visitor:
    """A person with their own browser. It notes the pages' complaints and the hosts that they called."""

    context: BrowserContext
    page: Page
    url: str
    tenant: str = ""
    complaints: list[str] = field(default_factory=list)
    hosts: set[str] = field(default_factory=set)
    hosts_expected: set[str] = field(default_factory=set)
    """Hosts beside the service that the test leads to."""
    expected: tuple[str, ...] = ()
    """Parts of complaints that belong to the test, such as a page that is not found."""

    def go(self, path: str) -> None:
        self.page.goto(f"{self.url}{path}")

    def here(self, path: str = "") -> None:
        """To a page of the visitor's tenant."""
        self.go(f"/t/{self.tenant}{path}")

    def sign_up(self) -> None:
        mark = secrets.token_hex(4)
        self.tenant = f"team-{mark}"
        self.go("/sign-up")
        self.page.get_by_label("E-mail address").fill(f"anna-{mark}@acme.example")
        self.page.get_by_label("Password").fill(PASSWORD)
        self.page.get_by_label("Name of your tenant").fill(self.tenant)
        self.page.get_by_role("button", name="Create account").click()
        self.page.wait_for_url(f"**/t/{self.tenant}")

    def make_topic(self, name: str, partitions: int = 3) -> None:
        self.here("/new-topic")
        self.page.get_by_label("Name", exact=True).fill(name)
        self.page.get_by_label("Partitions").fill(str(partitions))
        self.page.get_by_role("button", name="Create topic").click()
        self.page.wait_for_url(f"**/topics/{name}")
        wait_until(f"the brokers have {name}", self._can_be_written)

    def _can_be_written(self) -> bool:
        """A request waits for two seconds; what a busy machine does not deliver in them the worker delivers."""
        if self.page.get_by_text("every partition can be written").count():
            return True
        self.page.reload()
        return False

    def make_key(self, name: str) -> str:
        self.here("/new-key")
        self.page.get_by_label("Name", exact=True).fill(name)
        self.page.get_by_role("button", name="Create key").click()
        return self.page.locator("#the-key").inner_text()

    def send(self, topic: str, value: str, key: str = "") -> None:
        self.here(f"/topics/{topic}/send")
        self.page.get_by_label("Value", exact=True).fill(value)
        self.page.get_by_label("Key").fill(key)
        self.page.get_by_role("button", name="Send message").click()
        self.page.get_by_text("Accepted at offset").wait_for()

    def check(self) -> None:
        """No complaint of the browser, and nothing asked of another host."""
        expected = (*self.expected, *NO_FAULTS)
        left = [said for said in self.complaints if not any(part in said for part in expected)]
        assert left == []
        assert self.hosts <= {urlsplit(self.url).netloc} | self.hosts_expected


@pytest.fixture(scope="package")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    path: Path = tmp_path_factory.mktemp("console")
    with running_service(path) as running:
        yield running


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        yield opened
        opened.close()


NewVisitor = Callable[..., Visitor]


@pytest.fixture
def new_visitor(service: Service, browser: Browser) -> Iterator[NewVisitor]:
    """Opens another browser window of somebody else; at the end each is checked."""
    visitors: list[Visitor] = []

    def make(width: int = 1440, theme: Literal["light", "dark"] = "light") -> Visitor:
        context = browser.new_context(
            viewport={"width": width, "height": 900},
            color_scheme=theme,
            # Pictures of pages that fade and signs that turn take a fourth of the processor time.
            reduced_motion="no-preference" if FULL or random.randrange(MOTION_SHARES) == 0 else "reduce",
        )
        context.set_default_timeout(TIMEOUT_MS)
        page = context.new_page()
        visitor = Visitor(context=context, page=page, url=service.url)
        listen(visitor, page)
        visitors.append(visitor)
        return visitor

    yield make
    for visitor in visitors:
        visitor.context.close()
    for visitor in visitors:
        visitor.check()


def listen(visitor: Visitor, page: Page) -> None:
    def said(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            visitor.complaints.append(f"{message.type}: {message.text} at {page.url}")

    def broke(error: Error) -> None:
        visitor.complaints.append(f"script: {error.message} at {page.url}")

    def asked(request: Request) -> None:
        parts = urlsplit(request.url)
        if parts.scheme != "blob":
            visitor.hosts.add(parts.netloc)

    def dismiss(dialog: Dialog) -> None:
        visitor.complaints.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    page.on("console", said)
    page.on("pageerror", broke)
    page.on("request", asked)
    page.on("dialog", dismiss)


@pytest.fixture
def visitor(new_visitor: NewVisitor) -> Visitor:
    """Somebody who has just signed up."""
    made = new_visitor()
    made.sign_up()
    return made
