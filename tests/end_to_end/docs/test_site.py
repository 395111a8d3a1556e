"""The built site: its search answers what people ask, and its pages are accessible."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.end_to_end.accessible import serious
from tests.end_to_end.console.conftest import TIMEOUT_MS, browser
from tests.integration.installed import ROOT

__all__ = ["browser"]
pytestmark = [pytest.mark.slow, pytest.mark.processes]

FIRST = 3
QUESTIONS = {
    "queue": "guides/groups",
    "lag": "guides/groups",
    "consumer group": "guides/groups",
    "replay": "guides/groups",
    "price": "guides/usage-and-verification",
    "how much does it cost": "guides/usage-and-verification",
    "verify invoice": "guides/usage-and-verification",
    "forecast": "guides/usage-and-verification",
    "delete topic": "guides/recycle-bin",
    "restore topic": "guides/recycle-bin",
    "tax": "guides/payments",
    "invoice": "guides/payments",
    "stripe": "guides/payments",
    "refund": "guides/payments",
    "login": "guides/people",
    "password": "guides/people",
    "2fa": "guides/people",
    "invite": "guides/people",
    "close account": "guides/people",
    "docker": "guides/own-hosts",
    "kubernetes": "guides/own-hosts",
    "postgresql": "guides/running-it",
    "drain": "guides/running-it",
    "first message": "guides/quickstart",
    "getting started": "guides/quickstart",
    "install": "guides/installing",
    "python": "guides/installing",
    "exactly once": "guides/delivery-guarantees",
    "order": "guides/delivery-guarantees",
    "idempotent": "guides/delivery-guarantees",
    "producer": "guides/producers-and-consumers",
    "hot key": "guides/producers-and-consumers",
    "api key": "guides/keys-and-access",
    "rotate key": "guides/keys-and-access",
    "service account": "guides/keys-and-access",
    "budget": "guides/budgets",
    "webhook": "guides/webhooks",
    "backup": "guides/metadata-store",
    "etcd": "guides/metadata-store",
    "tls": "guides/certificates",
    "upgrade": "guides/upgrading",
    "balancer": "guides/placement",
    "terraform": "guides/terraform",
    "yaml": "guides/declared",
    "audit log": "guides/audit",
    "unused": "guides/access-reports",
    "margin": "guides/unit-economics",
    "quota": "reference/limits",
    "message size": "reference/limits",
    "retention": "reference/topic-settings",
    "openapi": "reference/rest",
    "metrics": "reference/metrics",
    "error code": "reference/errors",
    "environment variable": "reference/settings",
}
"""A question as it is typed, and the page that has the answer."""
PAGES = ("index", "guides/people", "reference/exit-codes", "architecture/election")
WINDOWS: tuple[tuple[int, Literal["light", "dark"]], ...] = ((1280, "light"), (390, "dark"))


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """A test's output has no line for each request."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the site, built from the tree as `make docs` does."""
    folder = tmp_path_factory.mktemp("site")
    mkdocs = Path(sys.executable).with_name("mkdocs")
    assert mkdocs.exists(), "`make test` and `make docs` install what builds the site"
    built = subprocess.run(
        [mkdocs, "build", "--quiet", "--site-dir", folder], cwd=ROOT, capture_output=True, text=True
    )
    assert built.returncode == 0, built.stderr
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=folder)) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        serving.join()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    context = browser.new_context(reduced_motion="reduce")
    context.set_default_timeout(TIMEOUT_MS)
    yield context.new_page()
    context.close()


def test_the_search_leads_each_question_to_its_page_and_to_guides_before_decisions(
    site: str, page: Page
) -> None:
    page.goto(f"{site}/index.html")
    faults = []
    for question, answer in QUESTIONS.items():
        pages = _results(page, question)
        if answer not in pages[:FIRST]:
            faults.append(f"{question!r} leads to {pages[:FIRST]}, not to {answer}")
        kinds = [name.split("/")[0] for name in pages if name.startswith(("guides/", "decisions/"))]
        if kinds != sorted(kinds, reverse=True):
            faults.append(f"{question!r} shows a decision before a guide: {pages}")
    assert not faults, "words of pages are in docs/site/search.py:\n" + "\n".join(faults)


def _results(page: Page, question: str) -> list[str]:
    """Pages that the box of the search lists for a question, best first, without their sections."""
    box = page.locator("input.md-search__input")
    box.fill("")
    # The theme listens to keys, which filling a box alone presses none of.
    box.press("End")
    expect(page.locator(".md-search-result__meta")).to_have_text("Type to start searching")
    box.fill(question)
    box.press("End")
    expect(page.locator(".md-search-result__meta")).to_contain_text("matching document")
    links = page.locator(".md-search-result__item > a").evaluate_all(
        "links => links.map(link => new URL(link.href).pathname)"
    )
    return [link.removeprefix("/").removesuffix(".html") for link in links]


def test_pages_of_the_site_are_accessible_and_fit_into_the_window(site: str, page: Page) -> None:
    for width, theme in WINDOWS:
        page.set_viewport_size({"width": width, "height": 900})
        page.emulate_media(color_scheme=theme, reduced_motion="reduce")
        for name in PAGES:
            page.goto(f"{site}/{name}.html")
            assert serious(page) == [], f"{name} {width} {theme}"
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), f"{name} {width}"
