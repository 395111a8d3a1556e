"""What is recorded is what was read: values by their names, polls in consecutive pieces, damage as damage."""

from pathlib import Path

import pytest

from chaos.history_lines import lines, name_of, partition_of, pieces, value_of
from chaos.recording import Recorder


@pytest.mark.parametrize("number", [1, 400, 99_999])
def test_a_value_tells_its_name_only_as_it_was_sent(number: int) -> None:
    value = value_of("p1", number)
    assert name_of(value) == f"p1/{number}"
    assert name_of(value + b".") is None
    assert name_of(value.replace(b"|", b"")) is None
    assert name_of(b"") is None
    assert name_of(value[:-1] + b"!") is None


def test_partitions_of_two_incarnations_are_two() -> None:
    assert partition_of("scratch#1/0") != partition_of("scratch#2/0")
    assert partition_of("strict/1").topic_id == partition_of("strict/2").topic_id
    assert partition_of("strict/1").partition == 1


def test_a_poll_is_recorded_in_consecutive_pieces() -> None:
    found = [("a/0", 5, b"1"), ("a/0", 6, b"2"), ("a/1", 7, b"3"), ("a/1", 9, b"4"), ("a/0", 10, b"5")]
    assert list(pieces(found)) == [
        ("a/0", 5, [b"1", b"2"]),
        ("a/1", 7, [b"3"]),
        ("a/1", 9, [b"4"]),
        ("a/0", 10, [b"5"]),
    ]


def test_a_damaged_value_is_an_anomaly(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path)
    recorder.read("r1", [("a/0", 0, value_of("p", 3)), ("a/0", 1, b"something else")])
    recorder.close()
    anomaly, read = lines(recorder.path)
    assert (anomaly["is"], anomaly["invariant"]) == ("anomaly", "I19")
    assert "a/0:1 holds b'something else'" in anomaly["explanation"]
    assert read["values"][0] == "p/3"
