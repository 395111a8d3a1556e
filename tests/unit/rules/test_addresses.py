"""Addresses: what is one, and which never leave the machine."""

import pytest

from penstock.rules.addresses import counted_address, is_loopback, split_address


@pytest.mark.parametrize(
    ("address", "parts"),
    [
        ("127.0.0.1:9092", ("127.0.0.1", 9092)),
        ("broker.example:65535", ("broker.example", 65_535)),
        ("[::1]:80", ("::1", 80)),
        ("localhost:0", ("localhost", 0)),
    ],
)
def test_an_address_is_a_host_and_a_port(address: str, parts: tuple[str, int]) -> None:
    assert split_address(address) == parts


@pytest.mark.parametrize(
    "address",
    ["", "broker", ":9092", "broker:", "broker:x", "broker:-1", "broker:65536", "broker:٣", "b:000080"],
)
def test_what_has_no_host_or_no_port_is_none(address: str) -> None:
    with pytest.raises(ValueError, match="host:port required"):
        split_address(address)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.8.9.1", "::1"])
def test_loopback_hosts_are_this_machine(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["", "localhost.example", "10.0.0.1", "0.0.0.0", "::", "::2"])
def test_other_hosts_may_be_another_machine(host: str) -> None:
    assert not is_loopback(host)


@pytest.mark.parametrize(
    ("host", "one"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:0db8:0001:0002"),
        ("fe80::1%eth0", "fe80:0000:0000:0000"),
        ("[2001:db8::1]", "2001:0db8:0000:0000"),
        ("worker:3", "worker:3"),
    ],
)
def test_a_customers_64_bits_are_one_address(host: str, one: str) -> None:
    assert counted_address(host) == one
