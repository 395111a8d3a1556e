"""A proxy that ends TLS: it is believed where it is configured, and nobody else is."""

import http.client
import json
import re
from collections.abc import Iterator
from http.cookies import SimpleCookie
from ipaddress import ip_network
from urllib.parse import urlencode

import pytest

from control_plane.api.client_address import client_of
from tests.control_plane.api.web_process import web_process
from tests.waiting import PATIENCE_S

PROXY, STRANGER = "127.0.0.2", "127.0.0.3"
"""Both are this machine, on which each web process listens."""
HOST = "penstock.example"
PERSON_PER_MINUTE = 30
TRUSTED = (ip_network("10.0.0.0/8"), ip_network("192.0.2.7"), ip_network("fd00::/8"))


@pytest.mark.parametrize(
    ("peer", "forwarded_for", "client"),
    [
        ("10.0.0.1", "203.0.113.5", "203.0.113.5"),
        ("10.0.0.1", "1.2.3.4, 203.0.113.5", "203.0.113.5"),
        ("10.0.0.1", "1.2.3.4, 203.0.113.5, 192.0.2.7", "203.0.113.5"),
        ("10.0.0.1", "10.9.9.9", "10.9.9.9"),
        ("10.0.0.1", "", "10.0.0.1"),
        ("10.0.0.1", "unknown", "10.0.0.1"),
        ("10.0.0.1", "1.2.3.4, garbage, 192.0.2.7", "192.0.2.7"),
        ("::ffff:10.0.0.1", "2001:db8::1", "2001:db8::1"),
        ("fd00::1", "203.0.113.5,", "203.0.113.5"),
        ("203.0.113.9", "1.2.3.4", "203.0.113.9"),
        ("", "1.2.3.4", ""),
        ("10.0.0.1", "203.0.113.5:4711", "203.0.113.5"),
        ("10.0.0.1", "1.2.3.4, 203.0.113.5:4711, 192.0.2.7:80", "203.0.113.5"),
        ("10.0.0.1", "[2001:db8::1]:4711", "2001:db8::1"),
        ("10.0.0.1", "[2001:db8::1]", "2001:db8::1"),
        ("10.0.0.1", "203.0.113.5:", "10.0.0.1"),
        ("10.0.0.1", "203.0.113.5:port", "10.0.0.1"),
        ("10.0.0.1", "[]:80", "10.0.0.1"),
    ],
)
def test_the_client_is_the_nearest_address_that_is_no_trusted_proxys(
    peer: str, forwarded_for: str, client: str
) -> None:
    assert client_of(peer, forwarded_for, TRUSTED) == client


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    settings = {"public_url": f"https://{HOST}", "trusted_proxies": [PROXY]}
    with web_process(tmp_path_factory.mktemp("proxied"), **settings) as port:
        yield port


def ask(
    port: int, source: str, method: str, path: str, body: str = "", **headers: str
) -> tuple[http.client.HTTPResponse, str]:
    """An answer to a request that comes from `source`, and its body."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S, source_address=(source, 0))
    try:
        given = {"Host": HOST, **{name.replace("_", "-"): value for name, value in headers.items()}}
        connection.request(method, path, body, given)
        answer = connection.getresponse()
        return answer, answer.read().decode()
    finally:
        connection.close()


@pytest.mark.slow
@pytest.mark.processes
def test_forms_of_the_console_are_taken_through_the_proxy_and_browsers_are_told_to_stay_with_tls(
    port: int,
) -> None:
    by_tls = {"X_Forwarded_Proto": "https", "X_Forwarded_For": "203.0.113.1"}
    page, text = ask(port, PROXY, "GET", "/sign-in", **by_tls)
    assert page.status == 200
    assert page.getheader("Strict-Transport-Security") == "max-age=31536000"
    cookie = SimpleCookie(page.getheader("Set-Cookie"))["penstock-csrf"].value
    (token,) = set(re.findall(r'name="csrfmiddlewaretoken" value="([^"]+)"', text))
    form = {"csrfmiddlewaretoken": token, "email": "nobody@example.com", "password": "a horse, a battery"}
    answer, said = ask(
        port,
        PROXY,
        "POST",
        "/sign-in",
        urlencode(form),
        Content_Type="application/x-www-form-urlencoded",
        Cookie=f"penstock-csrf={cookie}",
        Origin=f"https://{HOST}",
        Referer=f"https://{HOST}/sign-in",
        **by_tls,
    )
    assert answer.status != 403 and "form was refused" not in said, said


@pytest.mark.slow
@pytest.mark.processes
def test_a_stranger_is_not_believed_to_have_come_by_tls(port: int) -> None:
    page, _ = ask(port, STRANGER, "GET", "/sign-in", X_Forwarded_Proto="https")
    assert page.status == 200 and page.getheader("Strict-Transport-Security") is None


def sign_in(port: int, source: str, forwarded_for: str, email: str) -> int:
    """Without a password: nothing is hashed, so that a busy machine takes them within a minute too; each counts."""
    body = json.dumps({"email": email})
    answer, _ = ask(
        port,
        source,
        "POST",
        "/v1/sign-in",
        body,
        Content_Type="application/json",
        X_Forwarded_For=forwarded_for,
    )
    return answer.status


@pytest.mark.slow
@pytest.mark.processes
def test_attempts_to_sign_in_are_counted_by_the_clients_address(port: int) -> None:
    ann, bob = "ann@example.com", "bob@example.com"
    tries = [sign_in(port, PROXY, "203.0.113.1", ann) for _ in range(2 * PERSON_PER_MINUTE)]
    assert set(tries) == {400, 429}, "one address is slowed down"
    assert sign_in(port, PROXY, "203.0.113.2", ann) == 400, "and another behind the same proxy is not"
    tries = [sign_in(port, STRANGER, f"203.0.113.{n}", bob) for n in range(2 * PERSON_PER_MINUTE)]
    assert set(tries) == {400, 429}, "a stranger's header makes no new client"
