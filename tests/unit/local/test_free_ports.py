"""Ports are given to one who asks at a time, and a server can have them."""

import os
import socket
import threading

import pytest

from local.free_ports import HOST, PortTaken, free_port, require_free
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


def test_a_port_that_was_given_out_and_is_not_used_yet_is_free_for_its_server() -> None:
    require_free("web", free_port(set()))


def test_a_port_that_another_process_listens_on_is_named_with_it_and_with_what_to_do() -> None:
    with socket.create_server((HOST, 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(PortTaken) as refused:
            require_free("web", port)
    assert refused.value.message.startswith(f"web: {HOST}:{port} is taken by process {os.getpid()} (")
    assert "End the process that listens there" in refused.value.remedy


def test_a_port_that_is_let_go_in_a_moment_is_waited_for() -> None:
    with socket.create_server((HOST, 0)) as server:
        lets_go = threading.Timer(0.3, server.close)
        lets_go.start()
        require_free("web", server.getsockname()[1])
        lets_go.join(PATIENCE_S)
