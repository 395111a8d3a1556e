"""Where webhooks may lead: what is no such address, and what lies inside."""

import logging
import socket
from ipaddress import ip_address, ip_network

import pytest

from control_plane.webhooks.destinations import Unreachable, addresses, check_url, destination, refusal
from control_plane.webhooks.events import checked_patterns, wanted
from penstock.contract.errors import InvalidRequest

INSIDE = [
    "127.0.0.1",
    "127.255.255.254",
    "0.0.0.0",
    "10.0.0.1",
    "172.16.0.1",
    "192.168.1.1",
    "169.254.169.254",
    "100.64.0.1",
    "100.100.100.200",
    "168.63.129.16",
    "192.0.0.192",
    "198.18.0.1",
    "224.0.0.1",
    "239.1.1.1",
    "240.0.0.1",
    "255.255.255.255",
    "::1",
    "::",
    "fe80::1",
    "fc00::1",
    "fd00:ec2::254",
    "ff02::1",
    "::ffff:127.0.0.1",
    "::ffff:10.0.0.1",
    "::ffff:169.254.169.254",
    "64:ff9b::7f00:1",
    "64:ff9b::a9fe:a9fe",
    "64:ff9b:1::a00:1",
    "2002:7f00:1::",
    "2002:a9fe:a9fe::",
    "2001:0:0:0:0:0:80ff:fffe",
    "192.88.99.1",
    "2002:c058:6301::",
    "64:ff9b::c058:6301",
    "3ffe::1",
    "5f00::1",
    "::8.8.8.8",
    "::10.0.0.1",
    "::ffff:0:8.8.8.8",
    "::ffff:0:a00:1",
    "::ffff:8.8.8.8",
    "4000::1",
]


@pytest.mark.parametrize("text", INSIDE)
def test_no_address_of_this_network_or_its_cloud_is_connected_to(text: str) -> None:
    assert refusal(ip_address(text), ())


@pytest.mark.parametrize("text", ["8.8.8.8", "93.184.216.34", "2606:4700::1111", "64:ff9b::808:808"])
def test_public_addresses_are(text: str) -> None:
    assert refusal(ip_address(text), ()) == ""


def test_what_operators_open_is_open_and_nothing_beside() -> None:
    opened = (ip_network("10.20.0.0/16"),)
    assert refusal(ip_address("10.20.3.4"), opened) == ""
    assert refusal(ip_address("::ffff:10.20.3.4"), opened) == ""
    assert refusal(ip_address("10.21.0.1"), opened)
    assert refusal(ip_address("5f00::1"), (ip_network("5f00::/16"),)) == ""
    assert refusal(ip_address("192.88.99.1"), (ip_network("192.88.99.1"),)) == ""


@pytest.mark.parametrize(
    "url",
    [
        "http://hooks.example.com/",
        "ftp://hooks.example.com/",
        "hooks.example.com",
        "https://",
        "https:///path",
        "https://user:pass@hooks.example.com/",
        "https://hooks.example.com@127.0.0.1/",
        "https://hooks.example.com/#part",
        "https://hooks.example.com\\@127.0.0.1/",
        "https://hooks.example.com:99999/",
        "https://hooks.example.com:0/",
        "https://hooks.example.com:x/",
        "https://127.1/",
        "https://0x7f000001/",
        "https://2130706433/",
        "https://127.0.0.1.0x1/",
        "https://[::1%25eth0]/",
        "https://[::1/",
        "https://hooks..example.com/",
        "https://-.-/",
        "https://hooks.example.com/ space",
        "https://hooks.example.com/\r\nHost: inside",
        "https://h\u00f6oks.example.com/",
        "https://\uff11\uff12\uff17.0.0.1/",
        "https://127.0.0.1/",
        "https://[::ffff:127.0.0.1]/",
        "https://169.254.169.254/latest/meta-data",
        "https://localhost/",
        "https://a.localhost./",
        "https://vault/",
        "https://vault./",
        "https://hooks.example.com/" + "x" * 1_000,
    ],
)
def test_what_is_no_public_https_address_is_refused_at_once(url: str) -> None:
    with pytest.raises(InvalidRequest, match=r"^url: "):
        check_url(url, ())


def test_an_address_is_taken_apart() -> None:
    found = destination("https://Hooks.Example.com:8443?a=b")
    assert (found.host, found.port, found.target) == ("hooks.example.com", 8443, "/?a=b")
    assert found.authority == "hooks.example.com:8443"
    assert destination("https://[2606:4700::1111]/x").authority == "[2606:4700::1111]"


def test_one_address_inside_among_public_ones_refuses_the_name(monkeypatch: pytest.MonkeyPatch) -> None:
    both = [
        (socket.AF_INET, 1, 6, "", ("8.8.8.8", 443)),
        (socket.AF_INET6, 1, 6, "", ("fe80::1%2", 443, 0, 2)),
    ]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: both)
    with pytest.raises(Unreachable):
        addresses(destination("https://hooks.example.com/"), (), 5.0)


def test_a_name_that_leads_inside_and_one_that_is_not_there_have_one_text_and_operators_read_the_address(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    asked: list[str] = []

    def answer(host: str, *_: object, **__: object) -> list[object]:
        asked.append(host)
        if host.startswith("away"):
            raise socket.gaierror(-2, "Name or service not known")
        return [(socket.AF_INET, 1, 6, "", ("10.3.4.5", 443))]

    monkeypatch.setattr(socket, "getaddrinfo", answer)
    texts = []
    with caplog.at_level(logging.INFO, logger="control_plane.webhooks.destinations"):
        for host in ("away.example.com", "here.example.com"):
            with pytest.raises(Unreachable) as raised:
                addresses(destination(f"https://{host}/"), (), 5.0)
            texts.append(str(raised.value).replace(host, "HOST"))
    assert texts == ["no public address was found for HOST"] * 2
    assert [vars(record)["address"] for record in caplog.records] == ["10.3.4.5"]
    assert asked == ["away.example.com.", "here.example.com."], "whole names: no search domain completes them"


def test_a_name_of_one_label_leads_to_what_operators_opened_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def answer(host: str, *_: object, **__: object) -> list[object]:
        asked.append(host)
        return [(socket.AF_INET, 1, 6, "", ("8.8.8.8" if host == "outside" else "10.20.3.4", 443))]

    monkeypatch.setattr(socket, "getaddrinfo", answer)
    opened = (ip_network("10.20.0.0/16"),)
    with pytest.raises(Unreachable, match="no public address was found for vault"):
        addresses(destination("https://vault/"), (), 5.0)
    assert asked == [], "it is not even resolved"
    check_url("https://vault/", opened)
    assert addresses(destination("https://vault/"), opened, 5.0) == [ip_address("10.20.3.4")]
    with pytest.raises(Unreachable):
        addresses(destination("https://outside/"), opened, 5.0)


def test_a_name_that_this_host_alone_knows_leads_to_what_operators_opened_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []

    def answer(host: str, *_: object, **__: object) -> list[object]:
        asked.append(host)
        if host.endswith("."):
            raise socket.gaierror(-2, "Name or service not known")
        return [(socket.AF_INET, 1, 6, "", ("8.8.8.8" if host.startswith("outside") else "10.20.3.4", 443))]

    monkeypatch.setattr(socket, "getaddrinfo", answer)
    opened = (ip_network("10.20.0.0/16"),)
    here, outside = destination("https://vault.internal/"), destination("https://outside.internal/")
    with pytest.raises(Unreachable):
        addresses(here, (), 5.0)
    assert asked == ["vault.internal."], "where nothing is opened, search domains complete nothing"
    assert addresses(here, opened, 5.0) == [ip_address("10.20.3.4")]
    with pytest.raises(Unreachable, match=r"no public address was found for outside\.internal"):
        addresses(outside, opened, 5.0)


@pytest.mark.parametrize(
    ("pattern", "event", "fits"),
    [
        ("*", "audit.topic.create", True),
        ("audit.*", "audit.topic.create", True),
        ("audit.topic.*", "audit.topic.create", True),
        ("audit.topic.create", "audit.topic.create", True),
        ("audit.topic.*", "audit.topics.create", False),
        ("audit.topic", "audit.topic.create", False),
        ("audit.*", "auditor.x", False),
    ],
)
def test_patterns_are_read_by_whole_words(pattern: str, event: str, fits: bool) -> None:
    assert wanted(event, [pattern]) is fits


@pytest.mark.parametrize(
    "patterns",
    [
        [],
        [""],
        ["audit*"],
        ["*.create"],
        ["audit..x"],
        ["Audit.x"],
        ["audits.*"],
        ["audit." + "x" * 100],
        ["audit.a"] * 51,
    ],
)
def test_patterns_that_mean_nothing_are_refused(patterns: list[str]) -> None:
    with pytest.raises(InvalidRequest, match=r"^events: "):
        checked_patterns(patterns, ["audit"])
    assert checked_patterns(["audit.b", "audit.a.*", "audit.b", "*"], ["audit"]) == [
        "*",
        "audit.a.*",
        "audit.b",
    ]
