"""One rebalance, line by line: who beats with which epoch and partitions, what is answered, what is logged."""

import json

import pytest

from tests.unit.groups.setup import Places, Running, partition

pytestmark = pytest.mark.both_cores


def numbers(places: Places) -> str:
    return ",".join(str(where.partition) for where in places) or "-"


def beat_lines(group: Running, member: str, epoch: int, owned: Places = ()) -> list[str]:
    before = len(group.log)
    answer = group.beat(member, epoch, owned)
    lines = [
        f"{member} {epoch} owns {numbers(owned)} -> {answer.epoch} may {numbers(answer.assigned)}"
        f" again in {answer.heartbeat_ms}"
    ]
    for record in group.log[before:]:
        kind, _, _, *rest = json.loads(record.key)
        value = json.loads(record.value or b"null")
        shown = "gone" if value is None else f"epoch {value['epoch']}"
        if value is not None and kind == "member":
            for field in ("assigned", "revoking", "target"):
                found = [
                    n if isinstance(n, int) else n[0] for places in value[field].values() for n in places
                ]
                shown += f" {field} {','.join(map(str, found)) or '-'}"
        lines.append(f"    {' '.join([kind, *map(str, rest)])}: {shown}")
    return lines


TRANSCRIPT = """\
a 0 owns - -> 1 may 0,1,2,3 again in 1000
    group: epoch 1
    member a: epoch 1 assigned 0,1,2,3 revoking - target 0,1,2,3
b 0 owns - -> 2 may - again in 200
    group: epoch 2
    member a: epoch 1 assigned 0,1,2,3 revoking - target 0,1
    member b: epoch 2 assigned - revoking - target 2,3
a 1 owns 0,1,2,3 -> 1 may 0,1 again in 200
    member a: epoch 1 assigned 0,1 revoking 2,3 target 0,1
b 2 owns - -> 2 may - again in 200
a 1 owns 0,1,2 -> 1 may 0,1 again in 200
    member a: epoch 1 assigned 0,1 revoking 2 target 0,1
b 2 owns - -> 2 may 3 again in 200
    member b: epoch 2 assigned 3 revoking - target 2,3
a 1 owns 0,1 -> 2 may 0,1 again in 1000
    member a: epoch 2 assigned 0,1 revoking - target 0,1
b 2 owns 3 -> 2 may 2,3 again in 1000
    member b: epoch 2 assigned 2,3 revoking - target 2,3
a 2 owns 0,1 -> 2 may 0,1 again in 1000
a -1 owns 0,1 -> -1 may - again in 0
    group: epoch 3
    member a: gone
    member b: epoch 2 assigned 2,3 revoking - target 0,1,2,3
b 2 owns 2,3 -> 3 may 0,1,2,3 again in 1000
    member b: epoch 3 assigned 0,1,2,3 revoking - target 0,1,2,3"""


def test_a_second_member_takes_its_half_and_gets_the_rest_when_the_first_leaves() -> None:
    group = Running(orders=4)
    p = tuple(partition("orders", number) for number in range(4))
    lines = [
        *beat_lines(group, "a", 0),
        *beat_lines(group, "b", 0),
        *beat_lines(group, "a", 1, p),
        *beat_lines(group, "b", 2),
        *beat_lines(group, "a", 1, p[:3]),
        *beat_lines(group, "b", 2),
        *beat_lines(group, "a", 1, p[:2]),
        *beat_lines(group, "b", 2, p[3:]),
        *beat_lines(group, "a", 2, p[:2]),
        *beat_lines(group, "a", -1, p[:2]),
        *beat_lines(group, "b", 2, p[2:]),
    ]
    assert "\n".join(lines) == TRANSCRIPT
