"""Who reads what: range and sticky assignment of partitions to the members of a group (RL83).

An assignor is a function of (subscriptions, partition counts, assignment so far) to the next assignment. All mappings
keep the members' order, which is the caller's; the result lists partitions in order.
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Mapping, Sequence
from heapq import heapify, heapreplace

from penstock.contract.errors import InvalidRequest
from penstock.contract.ids import TopicId, TopicPartition

Subscriptions = Mapping[str, Sequence[TopicId]]
Counts = Mapping[TopicId, int]
Assignment = Mapping[str, Sequence[TopicPartition]]
Assignor = Callable[[Subscriptions, Counts, Assignment], dict[str, tuple[TopicPartition, ...]]]


def _subscribers(subscriptions: Subscriptions, counts: Counts) -> dict[TopicId, list[str]]:
    """Who subscribes to each topic, in the members' order. Members with the same topics are looked at together."""
    alike: dict[tuple[TopicId, ...], list[str]] = {}
    for member, topics in subscriptions.items():
        alike.setdefault(tuple(topics), []).append(member)
    found: dict[TopicId, list[str]] = {topic: [] for topic in sorted(counts)}
    for topics, members in alike.items():
        for topic in topics:
            if topic in found:
                found[topic] += members
    if len(alike) > 1:
        rank = {member: number for number, member in enumerate(subscriptions)}
        for members in found.values():
            members.sort(key=rank.__getitem__)
    return found


def range_assignment(
    subscriptions: Subscriptions, counts: Counts, current: Assignment
) -> dict[str, tuple[TopicPartition, ...]]:
    """Each topic in runs of neighbours, the first members getting one more: equal keys of topics with equal counts
    meet in one member.
    """
    assigned: dict[str, list[TopicPartition]] = {member: [] for member in subscriptions}
    for topic, members in _subscribers(subscriptions, counts).items():
        if not members:
            continue
        each, more = divmod(counts[topic], len(members))
        first = 0
        for rank, member in enumerate(members):
            end = first + each + (rank < more)
            assigned[member] += [TopicPartition(topic, number) for number in range(first, end)]
            first = end
    return {member: tuple(partitions) for member, partitions in assigned.items()}


def sticky_assignment(
    subscriptions: Subscriptions, counts: Counts, current: Assignment
) -> dict[str, tuple[TopicPartition, ...]]:
    """Members keep their partitions, except where balance requires a move: with equal subscriptions loads differ by
    one at most, and no partition moves without need.
    """
    wanted = {member: frozenset(topics) for member, topics in subscriptions.items()}
    assigned: dict[str, list[TopicPartition]] = {member: [] for member in subscriptions}
    kept: set[TopicPartition] = set()
    for member, topics in wanted.items():
        for where in current.get(member, ()):
            if (
                where.topic_id in topics
                and where.partition < counts.get(where.topic_id, 0)
                and where not in kept
            ):
                kept.add(where)
                assigned[member].append(where)
    rank = {member: number for number, member in enumerate(subscriptions)}
    emptiest: dict[tuple[str, ...], list[tuple[int, int, str]]] = {}
    for topic, members in _subscribers(subscriptions, counts).items():
        if not members:
            continue
        # Topics with the same subscribers share a heap; a load that has grown meanwhile is put right when it is met.
        heap = emptiest.get(tuple(members))
        if heap is None:
            heap = emptiest[tuple(members)] = [(len(assigned[m]), rank[m], m) for m in members]
            heapify(heap)
        for number in range(counts[topic]):
            where = TopicPartition(topic, number)
            if where in kept:
                continue
            while heap[0][0] != len(assigned[heap[0][2]]):
                heapreplace(heap, (len(assigned[heap[0][2]]), *heap[0][1:]))
            _, order, member = heap[0]
            assigned[member].append(where)
            heapreplace(heap, (len(assigned[member]), order, member))
    return _balanced(wanted, assigned, rank)


def _balanced(
    wanted: Mapping[str, frozenset[TopicId]],
    assigned: dict[str, list[TopicPartition]],
    rank: Mapping[str, int],
) -> dict[str, tuple[TopicPartition, ...]]:
    """Places move one by one from a fuller member to an emptier one that may have them, until none can.

    Every move makes the sum of squared loads smaller, so there is an end.
    """
    for partitions in assigned.values():
        partitions.sort()
    by_load = sorted((len(partitions), rank[member], member) for member, partitions in assigned.items())
    while (move := _next_move(wanted, assigned, by_load)) is not None:
        giver, taker, index = move
        for member in (giver, taker):
            del by_load[bisect_left(by_load, (len(assigned[member]), rank[member], member))]
        insort(assigned[taker], assigned[giver].pop(index))
        for member in (giver, taker):
            insort(by_load, (len(assigned[member]), rank[member], member))
    return {member: tuple(partitions) for member, partitions in assigned.items()}


def _next_move(
    wanted: Mapping[str, frozenset[TopicId]],
    assigned: Mapping[str, Sequence[TopicPartition]],
    by_load: Sequence[tuple[int, int, str]],
) -> tuple[str, str, int] | None:
    """(giver, taker, where in the giver's partitions); None when balance is reached."""
    for giver_load, _, giver in reversed(by_load):
        for taker_load, _, taker in by_load:
            if giver_load - taker_load < 2:
                break
            partitions, topics = assigned[giver], wanted[taker]
            for index in range(len(partitions) - 1, -1, -1):
                if partitions[index].topic_id in topics:
                    return giver, taker, index
    return None


ASSIGNORS: dict[str, Assignor] = {"range": range_assignment, "sticky": sticky_assignment}
DEFAULT_ASSIGNOR = "sticky"


def assignor(name: str) -> Assignor:
    """By name. Raises `InvalidRequest`."""
    found = ASSIGNORS.get(name)
    if found is None:
        raise InvalidRequest(f"assignor: {name[:100]!r} is not one of {', '.join(ASSIGNORS)}")
    return found
