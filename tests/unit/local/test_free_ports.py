"""Ports are given to one who asks at a time, and a server can have them."""

import socket

import pytest

from local.free_ports import HOST, free_port
from tests.waiting import PATIENCE_S


def test_a_server_listens_on_a_port_that_it_was_given() -> None:
    with socket.create_server((HOST, free_port(set()))) as server:
        socket.create_connection(server.getsockname(), timeout=PATIENCE_S).close()


def test_nobody_is_given_what_another_was_and_has_not_used_yet() -> None:
    port = free_port(set())
    with socket.socket() as asking, pytest.raises(OSError):
        asking.bind((HOST, port))


def test_nothing_answers_on_a_port_before_its_server_does() -> None:
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((HOST, free_port(set())), timeout=PATIENCE_S)


def test_only_so_many_are_kept() -> None:
    given: set[int] = set()
    first = free_port(given)
    for _ in range(64):
        free_port(given)
    assert len(given) == 65
    with socket.socket() as asking:
        asking.bind((HOST, first))
