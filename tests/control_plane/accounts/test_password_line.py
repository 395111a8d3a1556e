"""The work of passwords is bounded: a flood of wrong ones keeps neither threads nor other addresses waiting."""

import ast
import threading
import time
import unicodedata
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from django.contrib.auth import hashers
from django.test import Client

from penstock.contract.errors import Throttled
from tenants import password_line
from tenants.accounts import actions as accounts
from tenants.models import Person
from tenants.password_line import LIMIT, PasswordLine
from tests.architecture.house import ROOT
from tests.control_plane.world import ACTOR, PASSWORD, call
from tests.waiting import PATIENCE_S, wait_until
from web.forms.accounts import ResetForm, SignInForm

ATTACKER, OTHER, HONEST = "203.0.113.1", "203.0.113.2", "198.51.100.7"


class Counter:
    """Where passwords are checked: each of those who come in stays until it is let go."""

    def __init__(self, line: PasswordLine) -> None:
        self.line = line
        self.served: list[str] = []
        self._letting_go = threading.Semaphore(0)
        self._threads = ThreadPoolExecutor(100)
        self.refused = 0

    def come(self, address: str) -> "Future[str]":
        """Someone from there; returns when they wait, are being served, or were refused."""
        before = self.line.waiting, len(self.served), self.refused
        coming = self._threads.submit(self._be_served, address)
        wait_until(
            f"{address} is in the line",
            lambda: coming.done() or (self.line.waiting, len(self.served), self.refused) != before,
        )
        return coming

    def let_go(self, number: int = 1) -> None:
        self._letting_go.release(number)

    def close(self) -> None:
        self.let_go(1_000)
        self._threads.shutdown()

    def _be_served(self, address: str) -> str:
        try:
            with self.line.turn(address):
                self.served.append(address)
                assert self._letting_go.acquire(timeout=PATIENCE_S)
        except Throttled:
            self.refused += 1
            raise
        return address


@contextmanager
def counter(at_once: int = 1, waiting_max: int = 4, wait_s: float = PATIENCE_S) -> Iterator[Counter]:
    made = Counter(PasswordLine(at_once=at_once, waiting_max=waiting_max, wait_s=wait_s))
    try:
        yield made
    finally:
        made.close()


def test_no_more_than_the_bound_are_checked_at_once_and_the_rest_of_a_flood_is_refused_at_once() -> None:
    with counter(at_once=2, waiting_max=4) as checks:
        coming = [checks.come(ATTACKER) for _ in range(50)]
        assert (len(checks.served), checks.line.waiting, checks.refused) == (2, 4, 44)
        refused = coming[-1].exception()
        assert isinstance(refused, Throttled)
        assert refused.limit == LIMIT and refused.retry_after_s >= 1
        assert refused.message == (
            f"too many passwords are being checked at this moment; try again in {refused.retry_after_s} s"
        )


def test_a_flood_from_one_address_keeps_no_other_address_out_and_is_served_no_sooner() -> None:
    with counter() as checks:
        flood = [checks.come(ATTACKER) for _ in range(20)]
        honest = checks.come(HONEST)
        checks.let_go(3)
        assert honest.result(PATIENCE_S) == HONEST
        assert checks.served.index(HONEST) <= 2
        assert checks.refused == 20 - 5 + 1, "the flood's newest place has ended for it"
        assert isinstance(flood[4].exception(PATIENCE_S), Throttled)


def test_addresses_of_one_network_are_one_and_a_full_line_of_many_addresses_takes_none_more() -> None:
    with counter(waiting_max=2) as checks:
        checks.come("2001:db8::1")
        checks.come("2001:db8::2")
        checks.come("2001:db8::3")
        assert isinstance(checks.come("2001:db8::4").exception(PATIENCE_S), Throttled)
        assert not checks.come(OTHER).done()
        assert isinstance(checks.come(HONEST).exception(PATIENCE_S), Throttled)


def test_a_turn_that_does_not_come_in_time_is_refused_and_its_place_is_free() -> None:
    with counter(wait_s=0.01) as checks:
        checks.come(ATTACKER)
        assert isinstance(checks.come(HONEST).exception(PATIENCE_S), Throttled)
        assert checks.line.waiting == 0


def test_what_fails_at_its_turn_gives_the_turn_back() -> None:
    line = PasswordLine(at_once=1, waiting_max=0)
    for _ in range(3):
        with pytest.raises(ZeroDivisionError), line.turn(HONEST):
            raise ZeroDivisionError
    with line.turn(HONEST), pytest.raises(Throttled), line.turn(HONEST):
        pass


def test_nothing_else_of_the_service_hashes_or_checks_passwords() -> None:
    importers = set()
    for package in ("control_plane", "tenants", "quotas", "billing", "payments", "web", "local", "daemon"):
        for file in (ROOT / package).rglob("*.py"):
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                modules = (
                    [f"{node.module}.{alias.name}" for alias in node.names]
                    if isinstance(node, ast.ImportFrom)
                    else [alias.name for alias in node.names]
                    if isinstance(node, ast.Import)
                    else []
                )
                called = (
                    node.func.attr
                    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
                    else ""
                )
                if any("auth.hashers" in module for module in modules) or called in (
                    "check_password", "set_password", "scrypt", "pbkdf2_hmac",
                ):  # fmt: skip
                    importers.add(str(file.relative_to(ROOT)))
    assert importers == {str(Path("tenants") / "password_line.py")}


EMAIL = "ann@example.com"
NEW = "another horse, another battery"
SIGN_UP = {"email": "bob@example.com", "password": PASSWORD, "tenant": "hooli"}
OVER_REST = (
    ("/v1/sign-in", {"email": EMAIL, "password": PASSWORD}, False),
    ("/v1/sign-in", {"email": "nobody@example.com", "password": PASSWORD}, False),
    ("/v1/sign-up", SIGN_UP, False),
    ("/v1/password", {"present": PASSWORD, "new": NEW}, True),
    ("/v1/recovery-codes", {"present": PASSWORD}, True),
    ("/v1/password/reset", {"token": "{link}", "new": NEW}, False),
)
"""Each way to have a password hashed or checked: path, body, and whether by a person who has signed in."""
ON_PAGES = (
    ("/sign-in", {"email": EMAIL, "password": PASSWORD}, False),
    ("/sign-up", SIGN_UP, False),
    ("/account", {"present": PASSWORD, "new": NEW}, True),
    ("/account/address", {"email": "eve@example.com", "present": PASSWORD}, True),
    ("/reset/{link}", {"new": NEW}, False),
)


@pytest.mark.django_db
def test_a_full_line_refuses_every_way_to_have_a_password_checked_and_says_when_to_come_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    browser = Client()
    browser.post("/sign-up", {"email": EMAIL, "password": PASSWORD, "tenant": "acme"})
    token = call("POST", "/v1/sign-in", {"email": EMAIL, "password": PASSWORD}).body["token"]
    _, link = accounts.make_reset(ACTOR, Person.objects.get(email=EMAIL))
    full = PasswordLine(at_once=1, waiting_max=0)
    monkeypatch.setattr(password_line, "line", full)
    said = "too many passwords are being checked at this moment; try again in 1 s"
    with full.turn(ATTACKER):
        for path, body, signed_in in OVER_REST:
            filled = {name: value.format(link=link) for name, value in body.items()}
            answer = call("POST", path, filled, token=token if signed_in else "")
            assert (answer.status, answer.body.get("limit")) == (429, LIMIT), (path, answer.body)
            assert (answer.body["detail"], answer.headers["Retry-After"]) == (said, "1"), path
        for path, body, signed_in in ON_PAGES:
            page = (browser if signed_in else Client()).post(path.format(link=link), body)
            assert page.status_code == 429, path
            assert said[1:] in page.content.decode(), path
    assert call("POST", "/v1/sign-in", {"email": EMAIL, "password": PASSWORD}).status == 200
    assert browser.post("/account", {"present": PASSWORD, "new": NEW}).status_code == 302


COMPOSED = "caf\u00e9 \u1eadp th\u1ebf"
DECOMPOSED = unicodedata.normalize("NFD", COMPOSED)


def test_a_password_is_the_same_however_a_keyboard_makes_its_characters_and_spaces() -> None:
    hashed = password_line.hash_password(DECOMPOSED, source="")
    for typed in (DECOMPOSED, COMPOSED, COMPOSED.replace(" ", "\u00a0"), DECOMPOSED.replace(" ", "\u3000")):
        assert password_line.is_password(typed, hashed, source=""), ascii(typed)
    for typed in (COMPOSED.upper(), COMPOSED.replace(" ", ""), COMPOSED.replace("\u00e9", "e")):
        assert not password_line.is_password(typed, hashed, source=""), ascii(typed)


def test_a_password_that_was_hashed_as_it_was_typed_goes_on_working_as_it_was_typed() -> None:
    hashed = hashers.make_password(DECOMPOSED)
    assert password_line.is_password(DECOMPOSED, hashed, source="")
    assert not password_line.is_password(COMPOSED, hashed, source="")


def test_an_address_that_no_person_has_takes_the_work_of_one_that_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hashed = password_line.hash_password("another one", source="")
    work: list[str] = []

    def made(password: str) -> str:
        work.append("made")
        return ""

    def checked(password: str, kept: str) -> bool:
        work.append("checked")
        return False

    monkeypatch.setattr(hashers, "make_password", made)
    monkeypatch.setattr(hashers, "check_password", checked)
    for typed, expected in ((COMPOSED, 1), (DECOMPOSED, 2)):
        work.clear()
        password_line.check_nothing(typed, source="")
        password_line.is_password(typed, hashed, source="")
        assert work == ["made"] * expected + ["checked"] * expected


def test_half_a_million_marks_in_a_password_keep_nobody_waiting() -> None:
    """To normalise them would take minutes, and no other thread of the process would run."""
    marks = "a" + "\u0301" * 250_000 + "\u0316" * 250_000
    began = time.monotonic()
    assert password_line.prepared(marks) == marks
    for form in (SignInForm({"email": "ann@acme.example", "password": marks}), ResetForm({"new": marks})):
        assert not form.is_valid()
    assert time.monotonic() - began < PATIENCE_S / 4
