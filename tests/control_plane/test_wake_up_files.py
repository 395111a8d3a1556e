"""The embedded transport: messages are read whole, once, in order, whatever many processes do at a time."""

import multiprocessing
import os
import queue
import threading
from pathlib import Path
from typing import Any

import pytest
from kombu.connection import Connection

from control_plane import wake_up_files
from tests.waiting import PATIENCE_S

MESSAGES = 150


def connection(folder: Path) -> Connection:
    (folder / "messages").mkdir(exist_ok=True)
    return Connection(
        f"{wake_up_files.NAME}://localhost//",
        transport_options={
            "data_folder_in": str(folder / "messages"),
            "data_folder_out": str(folder / "messages"),
            "control_folder": str(folder / "control"),
        },
    )


def put(folder: Path, first: int) -> None:
    with connection(folder) as opened, opened.channel() as channel:
        for number in range(first, first + MESSAGES):
            # Large enough that a message written in place would be seen half written.
            channel._put("penstock", {"number": number, "padding": "x" * 20_000})


def put_one(folder: Path, number: int) -> None:
    with connection(folder) as opened, opened.channel() as channel:
        channel._put("penstock", {"number": number})


def taken(channel: Any) -> int | None:
    try:
        return int(channel._get("penstock")["number"])
    except queue.Empty:
        return None


def test_messages_come_in_the_order_in_which_they_were_sent(tmp_path: Path) -> None:
    put(tmp_path, 0)
    with connection(tmp_path) as opened, opened.channel() as channel:
        assert [taken(channel) for _ in range(MESSAGES + 1)] == [*range(MESSAGES), None]
    assert list((tmp_path / "messages").iterdir()) == []


@pytest.mark.processes
def test_readers_beside_writers_read_each_message_once_and_whole(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=put, args=(tmp_path, n * MESSAGES)) for n in range(2)]
    found: list[int] = []
    done = threading.Event()

    def read() -> None:
        with connection(tmp_path) as opened, opened.channel() as channel:
            while not done.is_set() or any((tmp_path / "messages").iterdir()):
                number = taken(channel)
                if number is not None:
                    found.append(number)

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(PATIENCE_S)
    done.set()
    for reader in readers:
        reader.join(PATIENCE_S)
    assert [writer.exitcode for writer in writers] == [0, 0]
    assert sorted(found) == list(range(2 * MESSAGES))


def test_a_message_that_cannot_be_read_is_dropped_and_the_next_is_read(tmp_path: Path) -> None:
    put(tmp_path, 0)
    first = sorted((tmp_path / "messages").iterdir())[0]
    first.write_text("")
    with connection(tmp_path) as opened, opened.channel() as channel:
        assert taken(channel) == 1


def test_queues_are_bound_once_however_many_bind_them(tmp_path: Path) -> None:
    def bind() -> None:
        with connection(tmp_path) as opened, opened.channel() as channel:
            for number in range(10):
                channel._queue_bind("penstock", f"key-{number}", "", "penstock")

    binders = [threading.Thread(target=bind) for _ in range(4)]
    for binder in binders:
        binder.start()
    for binder in binders:
        binder.join(PATIENCE_S)
    with connection(tmp_path) as opened, opened.channel() as channel:
        assert sorted(row.routing_key for row in channel.get_table("penstock")) == [
            f"key-{number}" for number in range(10)
        ]


def test_a_message_is_read_that_comes_after_the_folder_was_seen_empty(tmp_path: Path) -> None:
    with connection(tmp_path) as opened, opened.channel() as channel:
        for number in range(20):
            assert taken(channel) is None and taken(channel) is None
            put_one(tmp_path, number)
            assert taken(channel) == number


def test_an_empty_folder_that_has_not_changed_is_not_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[object] = []
    listed = os.listdir

    def note(folder: Any) -> list[str]:
        read.append(folder)
        return listed(folder)

    monkeypatch.setattr(os, "listdir", note)
    with connection(tmp_path) as opened, opened.channel() as channel:
        os.utime(tmp_path / "messages", ns=(1, 1))  # changed long ago
        assert taken(channel) is None and len(read) == 1
        assert taken(channel) is None and len(read) == 1
        put_one(tmp_path, 7)
        assert taken(channel) == 7
