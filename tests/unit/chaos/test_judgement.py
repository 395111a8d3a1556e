"""The judge of histories finds each thing that must not be, by its invariant, and is content with a correct history."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from chaos.history_lines import FILE, history_file
from chaos.judgement import READ_S_MAX, REBALANCE_S_MAX, Verdict, judge, read_history

HEALED_S = 50.0
Line = dict[str, Any]


def line(what: str, at: float, **facts: Any) -> Line:
    return {"is": what, "at": at, **facts}


def sent(number: int, outcome: str | None, offset: int = -1, partition: str = "strict/0") -> list[Line]:
    facts = {"producer": "p", "number": number}
    began = line("sent", float(number), partition=partition, acks=-1, **facts)
    if outcome is None:
        return [began]
    return [began, line("outcome", number + 0.5, outcome=outcome, offset=offset, **facts)]


def read(reader: str, at: float, offset: int, *numbers: int, partition: str = "strict/0") -> Line:
    values = [f"p/{number}" for number in numbers]
    return line("read", at, reader=reader, partition=partition, offset=offset, values=values)


def look(at: float, committed: int, *, state: str = "stable", owners: tuple[str, ...] = ("a",)) -> Line:
    members = {owner: ["grouped/0"] for owner in owners}
    return line(
        "look", at, group="g", state=state, epoch=3, members=members, offsets={"grouped/0": committed}
    )


def correct() -> list[Line]:
    """Three acknowledged, one refused, one unknown that stands in the log; a reader, a group of one member."""
    return [
        line("run", 0.0, seed=7, metadata="sqlite", available=["SIGKILL"]),
        line("reader", 0.0, reader="r1", partitions=["strict/0"]),
        line("group", 0.0, group="g", partitions=["grouped/0"]),
        line("member", 0.0, member="m1", group="g"),
        *sent(1, "applied", 0),
        *sent(2, "applied", 1),
        line("fault", 2.6, number=1, kind="SIGKILL", aim="any", seconds=1.0),
        *sent(3, "not applied"),
        *sent(4, "unknown"),
        *sent(5, "applied", 3),
        line("fault over", 6.0, number=1),
        *sent(6, "applied", 0, "grouped/0"),
        line("assigned", 7.0, member="m1", partitions=["grouped/0"]),
        read("r1", 8.0, 0, 1, 2),
        line("mark", 8.1, client="r1", partition="strict/0", kind="high watermark", value=2),
        read("r1", 9.0, 2, 4, 5),
        line("mark", 9.1, client="r1", partition="strict/0", kind="high watermark", value=4),
        read("m1", 9.5, 0, 6, partition="grouped/0"),
        look(9.6, 1),
        line("healed", HEALED_S),
        look(HEALED_S + 1, 1),
        line("log start", 60.0, partition="strict/0", offset=0),
        line("log start", 60.0, partition="grouped/0", offset=0),
        line("final", 60.0, partition="strict/0", offset=0, values=["p/1", "p/2", "p/4", "p/5"]),
        line("final", 60.0, partition="grouped/0", offset=0, values=["p/6"]),
        line("end", 61.0),
    ]


def verdict_of(lines: list[Line], folder: Path) -> Verdict:
    (folder / FILE).write_text("".join(json.dumps(told) + "\n" for told in lines))
    return judge(read_history(history_file(folder)))


def test_a_correct_history_passes_and_is_counted(tmp_path: Path) -> None:
    verdict = verdict_of(correct(), tmp_path)
    assert verdict.violations == ()
    assert (verdict.acknowledged, verdict.refused, verdict.read) == (4, 1, 5)
    assert (verdict.lost, verdict.doubled, verdict.reordered) == (0, 0, 0)
    assert (verdict.unknown, verdict.unknown_applied) == (1, 1)
    assert verdict.faults == {"SIGKILL": (1, 3.0)}
    assert verdict.silence_s == 3.0
    assert verdict.about["seed"] == 7


def final_of(lines: list[Line]) -> Line:
    return next(told for told in lines if told["is"] == "final")


def lose_an_acknowledged_value(lines: list[Line]) -> None:
    final_of(lines)["values"].pop()


def store_a_value_twice(lines: list[Line]) -> None:
    final_of(lines)["values"].append("p/1")


def reorder_two_values(lines: list[Line]) -> None:
    final_of(lines)["values"][2:] = ["p/5", "p/4"]
    lines[:] = [told for told in lines if told["is"] != "read" or told["reader"] != "r1"]
    lines[:] = [told for told in lines if told["is"] != "reader"]
    next(told for told in lines if told.get("number") == 5 and told["is"] == "outcome")["offset"] = 2


def show_what_was_refused(lines: list[Line]) -> None:
    final_of(lines)["values"].append("p/3")


def take_a_watermark_back(lines: list[Line]) -> None:
    marks = [told for told in lines if told["is"] == "mark"]
    marks[1]["value"] = 1


def take_a_commit_back(lines: list[Line]) -> None:
    next(told for told in reversed(lines) if told["is"] == "look")["offsets"]["grouped/0"] = 0


def tell_two_readers_different_values(lines: list[Line]) -> None:
    lines.insert(-1, read("r2", 59.0, 1, 4))


def deliver_what_nobody_sent(lines: list[Line]) -> None:
    lines.insert(-1, read("r2", 59.0, 4, 99))


def deliver_a_value_of_another_topic(lines: list[Line]) -> None:
    lines.insert(-1, read("r2", 59.0, 1, 1, partition="grouped/0"))


def skip_an_offset(lines: list[Line]) -> None:
    second = [told for told in lines if told["is"] == "read" and told["reader"] == "r1"][1]
    second["offset"], second["values"] = 3, ["p/5"]


def step_back(lines: list[Line]) -> None:
    at = next(index for index, told in enumerate(lines) if told["is"] == "healed")
    lines.insert(at, read("r1", 49.0, 1, 2))


def keep_a_value_from_a_reader(lines: list[Line]) -> None:
    lines.remove([told for told in lines if told["is"] == "read" and told["reader"] == "r1"][1])


def deliver_too_late(lines: list[Line]) -> None:
    late = [told for told in lines if told["is"] == "read" and told["reader"] == "r1"][1]
    lines.remove(late)
    lines.insert(-1, {**late, "at": HEALED_S + READ_S_MAX + 1})


def keep_a_value_from_the_group(lines: list[Line]) -> None:
    lines[:] = [told for told in lines if told["is"] not in ("look",) and told.get("reader") != "m1"]


def give_a_partition_to_two_members(lines: list[Line]) -> None:
    at = next(index for index, told in enumerate(lines) if told["is"] == "look")
    lines[at] = look(9.6, 1, owners=("a", "b"))


def commit_what_nobody_was_given(lines: list[Line]) -> None:
    next(told for told in reversed(lines) if told["is"] == "look")["offsets"]["grouped/0"] = 2


def never_become_stable(lines: list[Line]) -> None:
    lines[:] = [told for told in lines if told["is"] != "look" or told["at"] < HEALED_S]
    lines.insert(-1, look(HEALED_S + REBALANCE_S_MAX - 1, 1, state="reconciling"))
    lines.insert(-1, look(HEALED_S + REBALANCE_S_MAX + 1, 1))


def leave_a_send_without_an_outcome(lines: list[Line]) -> None:
    lines[-1:-1] = sent(8, None)


def notice_something(lines: list[Line]) -> None:
    lines.insert(-1, line("anomaly", 60.5, invariant="I18", explanation="broker 1: Traceback"))


def stop_in_the_middle(lines: list[Line]) -> None:
    lines.pop()


BAD: tuple[tuple[str, Callable[[list[Line]], None]], ...] = (
    ("I1 ", lose_an_acknowledged_value),
    ("I4 ", store_a_value_twice),
    ("I5 ", reorder_two_values),
    ("I2 ", show_what_was_refused),
    ("I13 ", take_a_watermark_back),
    ("I13 ", take_a_commit_back),
    ("I3 ", tell_two_readers_different_values),
    ("I19 ", deliver_what_nobody_sent),
    ("I19 ", deliver_a_value_of_another_topic),
    ("I6:", skip_an_offset),
    ("I6:", step_back),
    ("I9:", keep_a_value_from_a_reader),
    ("I9:", deliver_too_late),
    ("I14:", keep_a_value_from_the_group),
    ("I14:", give_a_partition_to_two_members),
    ("I14:", commit_what_nobody_was_given),
    ("I14:", never_become_stable),
    ("I9:", leave_a_send_without_an_outcome),
    ("I18 ", notice_something),
    ("the history has no end", stop_in_the_middle),
)


@pytest.mark.parametrize(("invariant", "spoil"), BAD, ids=[spoil.__name__ for _, spoil in BAD])
def test_what_must_not_be_is_found(
    invariant: str, spoil: Callable[[list[Line]], None], tmp_path: Path
) -> None:
    lines = correct()
    spoil(lines)
    verdict = verdict_of(lines, tmp_path)
    assert not verdict.passed
    assert any(violation.startswith(invariant) for violation in verdict.violations), verdict.violations


def test_what_was_lost_doubled_and_reordered_is_counted(tmp_path: Path) -> None:
    for spoil, counts in (
        (lose_an_acknowledged_value, (1, 0, 0)),
        (store_a_value_twice, (0, 1, 1)),
        (reorder_two_values, (0, 0, 1)),
    ):
        lines = correct()
        spoil(lines)
        verdict = verdict_of(lines, tmp_path)
        assert (verdict.lost, verdict.doubled, verdict.reordered) == counts, spoil.__name__


def test_a_topic_that_was_deleted_owes_nothing(tmp_path: Path) -> None:
    lines = correct()
    lines[-1:-1] = [
        *sent(9, "applied", 0, "scratch-1#1/0"),
        read("fuzzer-1", 60.2, 0, 9, partition="scratch-1#1/0"),
        line("deleted", 60.3, partitions=["scratch-1#1/0"]),
    ]
    verdict = verdict_of(lines, tmp_path)
    assert verdict.violations == ()
    assert verdict.acknowledged == 4


def test_a_member_may_read_again_from_where_the_group_stands(tmp_path: Path) -> None:
    lines = correct()
    at = next(index for index, told in enumerate(lines) if told["is"] == "healed")
    lines[at:at] = [
        line("revoked", 40.0, member="m1", partitions=["grouped/0"]),
        line("assigned", 41.0, member="m1", partitions=["grouped/0"]),
        read("m1", 42.0, 0, 6, partition="grouped/0"),
    ]
    assert verdict_of(lines, tmp_path).violations == ()


def test_a_last_line_that_was_not_written_whole_is_left_out_and_a_broken_one_is_named(tmp_path: Path) -> None:
    verdict_of(correct(), tmp_path)
    file = tmp_path / FILE
    file.write_text(file.read_text() + '{"is":"sent","at":6')
    assert judge(read_history(file)).passed
    file.write_text("{}\n" + file.read_text())
    with pytest.raises(ValueError, match="line 1 is no line of a history"):
        read_history(file)
