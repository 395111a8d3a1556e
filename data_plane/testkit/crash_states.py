"""Every state that a crash may leave of a few disk operations, for tests of storage protocols."""

import itertools
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from data_plane.testkit.disk import SimDisk
from data_plane.testkit.medium import PAGE_SECTORS, CutChoice, FileChoice, Inode, Medium, NameOperation

GROUPS_MAX = 5
"""Up to this many unsynced sectors (else pages) of a file are taken apart in all combinations."""

SIZES_TRIED_MAX = 3
"""Of the sizes that a file had meanwhile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exploration:
    """What `explore_crashes` covered."""

    points: int
    states: int
    exhaustive: bool
    """False: some point had more states than allowed; its extremes and a sample were tried."""


def explore_crashes(
    disk: SimDisk, operate: Callable[[], None], check: Callable[[SimDisk, str], None], *,
    states_per_point_max: int = 512, seed: int = 0,
) -> Exploration:  # fmt: skip
    """Run `operate`; at each of its disk operations call `check` on every disk that a crash may leave.

    `operate` works on `disk` with synchronous calls (`sync_now`). `check` gets a fresh disk and where the
    crash was ("before sync journal/7", "at the end"); it recovers and asserts. What `operate` was promised
    so far is in the test's own variables: `check` runs while `operate` stands still.
    """
    rng = random.Random(seed)
    points = states = 0
    exhaustive = True

    def visit(where: str) -> None:
        nonlocal points, states, exhaustive
        points += 1
        choices = list(cut_choices(disk.medium, states_per_point_max + 1))
        if len(choices) > states_per_point_max:
            exhaustive = False
            choices = choices[: states_per_point_max // 2]
            choices += [disk.medium.random_choice(rng) for _ in range(states_per_point_max // 2)]
        for choice in choices:
            states += 1
            check(SimDisk(disk.medium.after_cut(choice)), where)

    disk.hook = lambda kind, path: visit(f"before {kind} {path}")
    try:
        operate()
    finally:
        disk.hook = None
    visit("at the end")
    return Exploration(points=points, states=states, exhaustive=exhaustive)


def cut_choices(medium: Medium, limit: int) -> Iterator[CutChoice]:
    """Every choice a cut has now, at most `limit`, by pages where a file has many unsynced sectors."""
    files = medium.unsettled()
    names = list(itertools.islice(_closed_subsets(medium.pending), limit))
    per_file = [list(_file_choices(inode)) for inode in files]
    pairs = ((kept, chosen) for kept in names for chosen in itertools.product(*per_file))
    for operations, chosen in itertools.islice(pairs, limit):
        choices = {id(inode): choice for inode, choice in zip(files, chosen, strict=True)}
        yield CutChoice(operations=operations, files=choices)


def _closed_subsets(operations: list[NameOperation]) -> Iterator[tuple[int, ...]]:
    """Subsets in which no operation stands without the earlier ones on its names."""
    everything = tuple(operation.number for operation in operations)
    yield everything
    if operations:
        yield ()

    def extend(
        at: int, kept: tuple[int, ...], dropped: frozenset[tuple[int, str]]
    ) -> Iterator[tuple[int, ...]]:
        if at == len(operations):
            if kept and kept != everything:
                yield kept
            return
        operation = operations[at]
        if dropped.isdisjoint(operation.names):
            yield from extend(at + 1, (*kept, operation.number), dropped)
        yield from extend(at + 1, kept, dropped.union(operation.names))

    yield from extend(0, (), frozenset())


def _file_choices(inode: Inode) -> Iterator[FileChoice]:
    sectors = sorted(inode.dirty)
    groups: list[tuple[int, ...]] = [(sector,) for sector in sectors]
    if len(groups) > GROUPS_MAX:
        pages: dict[int, list[int]] = {}
        for sector in sectors:
            pages.setdefault(sector // PAGE_SECTORS, []).append(sector)
        groups = [tuple(page) for page in pages.values()]
    if len(groups) > GROUPS_MAX:
        kept_groups = _structured(len(groups))
    else:
        kept_groups = list(itertools.product((True, False), repeat=len(groups)))
    shrinks = (True, False) if inode.shrinks else (True,)
    for kept, keeps_shrink, keeps_size in itertools.product(kept_groups, shrinks, (True, False)):
        chosen = tuple(sector for group, keep in zip(groups, kept, strict=True) if keep for sector in group)
        without_size = FileChoice(sectors=chosen, keeps_shrink=keeps_shrink)
        if not keeps_size:
            yield without_size
        elif (length := len(inode.after_cut(without_size))) < len(inode.data):
            yield FileChoice(sectors=chosen, keeps_shrink=keeps_shrink, keeps_size=True)
            between = dict.fromkeys(size for _, size in inode.sizes if length < size < len(inode.data))
            for size in list(between)[:SIZES_TRIED_MAX]:
                yield FileChoice(sectors=chosen, keeps_shrink=keeps_shrink, keeps_size=True, size=size)


def _structured(count: int) -> list[tuple[bool, ...]]:
    """Of many pages: all, none, each prefix, each with one missing, each alone."""
    prefixes = [tuple(at < end for at in range(count)) for end in range(count, -1, -1)]
    one_missing = [tuple(at != missing for at in range(count)) for missing in range(count)]
    alone = [tuple(at == kept for at in range(count)) for kept in range(count)]
    return list(dict.fromkeys([*prefixes, *one_missing, *alone]))
