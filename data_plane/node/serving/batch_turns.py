"""When the batches of one produce stream have their turn.

    its topic's paces, where a budget slows that --> its principal's pace --> its tenant's pace --> begun

What waits behind one pace is not in the next ones, so it delays nothing that is not bounded by the same one. How
much waits is bounded by the paces (`Pace.hold_ms_max`), and by the credit of the stream.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from data_plane.node.serving.allowance import Allowance
from data_plane.node.stats import NodeStats
from data_plane.throttling.pacing import Pace
from penstock.contract.ids import TopicId
from penstock.contract.v1 import log_pb2 as pb


class Waiting:
    """A batch of the stream. No dataclass, since mypyc knows no field of a `memoryview`."""

    def __init__(
        self,
        acks: int,
        wanted: pb.ProduceBatch,
        batch: memoryview,
        since_ms: float,
        topics: Sequence[Pace] = (),
    ) -> None:
        """`topics`: the paces of its topic, where a budget slows that; `since_ms`: when it came."""
        self.acks = acks
        self.wanted = wanted
        self.batch = batch
        self.since_ms = since_ms
        self.topics = topics
        self.bound_for: Pace | None = None
        """Its tenant's pace when it came, where it counts as coming until `arrive`."""

    @property
    def size(self) -> int:
        return self.wanted.size

    def leave_for(self, pace: Pace | None) -> None:
        if pace is not None:
            self.bound_for = pace
            pace.coming += self.size

    def arrive(self) -> None:
        """It enters its tenant's pace, or never will."""
        if self.bound_for is not None:
            self.bound_for.coming -= self.size
            self.bound_for = None


@dataclass(slots=True)
class _Delayed:
    """A batch at its position in a pace."""

    pace: Pace | None
    """None: its turn is now."""
    position: int
    waiting: Waiting

    def wait_ms(self, now_ms: float) -> float:
        return 0.0 if self.pace is None else self.pace.wait_ms(self.position, now_ms)


@dataclass(slots=True)
class _TopicDelayed:
    """A batch at its positions in the paces of its topic."""

    positions: Sequence[tuple[Pace, int]]
    waiting: Waiting

    def wait_ms(self, now_ms: float) -> float:
        return max([pace.wait_ms(position, now_ms) for pace, position in self.positions], default=0.0)


class BatchTurns:
    """Of one stream. Whatever happens, `leave` in the end."""

    def __init__(
        self,
        allowance: Allowance,
        stats: NodeStats,
        *,
        begin: Callable[[Waiting, float], None],
        refuse: Callable[[Pace, pb.ProduceBatch, float], None],
    ) -> None:
        """`begin`: called with a batch whose turn is now; `refuse`: with the pace that takes it only later."""
        self._allowance = allowance
        self._stats = stats
        self._pace: Pace | None = None
        """As `look` found it, as the next one."""
        self._own_pace: Pace | None = None
        self._begin = begin
        self._refuse = refuse
        self._topics: dict[TopicId, deque[_TopicDelayed]] = {}
        """Each topic's in the order they came."""
        self._own: deque[_Delayed] = deque()
        self._tenants: deque[_Delayed] = deque()

    def look(self) -> bool:
        """At the paces, once for all that is taken next. Whether batches wait, or may have to."""
        self._pace, self._own_pace = self._allowance.pace(), self._allowance.own_pace()
        limited = self._pace is not None or self._own_pace is not None
        return limited or bool(self._tenants or self._own or self._topics)

    def take(self, waiting: Waiting, now_ms: float) -> bool:
        """Begin the batch now, when its turn comes, or refuse it until later. Without acknowledgements no refusal is
        reported, so those are only delayed. Whether it waits."""
        topic, paces = TopicId(waiting.wanted.topic_id), waiting.topics
        queue = self._topics.get(topic)
        if not paces and queue is None:
            return self._after_topic(waiting, now_ms)
        for pace in paces if waiting.acks else ():
            if pace.refuses(now_ms):
                self._refuse(pace, waiting.wanted, now_ms)
                return False
        positions = [(pace, pace.let_in) for pace in paces]
        holds_ms = [pace.enter(waiting.size, now_ms, may_refuse=False) for pace in paces]
        if queue is None and not any(holds_ms):
            return self._after_topic(waiting, now_ms)
        self._stats.throttled_batches += 1
        self._topics.setdefault(topic, deque()).append(_TopicDelayed(positions, waiting))
        return True

    def move(self, now_ms: float) -> float | None:
        """Take batches on that have passed their topic's paces, or their principal's. Ms until something is to be done
        again, 0 = `next` has one; None = nothing waits."""
        if not (self._topics or self._own):
            return self._tenants[0].wait_ms(now_ms) if self._tenants else None
        self.look()
        for topic, queue in list(self._topics.items()):
            while queue and queue[0].wait_ms(now_ms) == 0:
                self._after_topic(queue.popleft().waiting, now_ms, late=True)
            if not queue:
                del self._topics[topic]
        while self._own and self._own[0].wait_ms(now_ms) == 0:
            self._into_tenants(self._own.popleft(), self._pace, now_ms)
        heads = [queue[0].wait_ms(now_ms) for queue in (self._tenants, self._own) if queue]
        heads += [queue[0].wait_ms(now_ms) for queue in self._topics.values()]
        return min(heads, default=None)

    def next(self) -> Waiting | None:
        """The batch whose turn `move` said to be now; None = one is to be taken on before."""
        return self._tenants.popleft().waiting if self._tenants else None

    def leave(self, now_ms: float) -> None:
        """Nothing that waits will begin. What other streams have in the same paces does not wait for it."""
        for queue in self._topics.values():
            for one in queue:
                for pace, position in one.positions:
                    pace.withdraw(position, one.waiting.size, now_ms)
        for delayed in (*self._own, *self._tenants):
            delayed.waiting.arrive()
            if delayed.pace is not None:
                delayed.pace.withdraw(delayed.position, delayed.waiting.size, now_ms)
        self._topics.clear()
        self._own.clear()
        self._tenants.clear()

    def _after_topic(self, waiting: Waiting, now_ms: float, *, late: bool = False) -> bool:
        """It has passed its topic's paces; `late`: it waited there, so it begins as others that waited do, one in each
        turn of the event loop. Whether it waits."""
        if self._own_pace is not None or self._own:
            return self._take_own(waiting, now_ms, late)
        if self._pace is not None or self._tenants or late:
            return self._take_tenants(waiting, now_ms, late)
        self._begin(waiting, now_ms)
        return False

    def _take_tenants(self, waiting: Waiting, now_ms: float, late: bool) -> bool:
        delayed = _Delayed(self._pace, 0, waiting)
        hold_ms: float | None = 0.0
        if self._pace is not None:
            delayed.position = self._pace.let_in
            hold_ms = self._pace.enter(waiting.size, now_ms, may_refuse=waiting.acks != 0)
            if hold_ms is None:
                self._refuse(self._pace, waiting.wanted, now_ms)
                return False
        elif self._tenants:
            # The limit is gone: it goes behind what is still delayed, and not later.
            delayed.pace, delayed.position = self._tenants[-1].pace, self._tenants[-1].position
        if hold_ms == 0 and not self._tenants and not late:
            self._begin(waiting, now_ms)
            return False
        self._stats.throttled_batches += not late
        self._tenants.append(delayed)
        return True

    def _take_own(self, waiting: Waiting, now_ms: float, late: bool) -> bool:
        """Where the principal has a rate of its own. Both refuse at once; the tenant's pace is entered when it is the
        batch's turn in the principal's, so that what is delayed there delays no one else. Until then it is coming to
        the tenant's: there it is not refused any more, so what is let in leaves it enough.
        """
        own, pace = self._own_pace, self._pace
        if waiting.acks and pace is not None and pace.refuses(now_ms):
            self._refuse(pace, waiting.wanted, now_ms)
            return False
        delayed = _Delayed(own, 0, waiting)
        hold_ms: float | None = 0.0
        if own is not None:
            delayed.position = own.let_in
            hold_ms = own.enter(waiting.size, now_ms, may_refuse=waiting.acks != 0)
            if hold_ms is None:
                self._refuse(own, waiting.wanted, now_ms)
                return False
        else:
            # The limit is gone: it goes behind what is still delayed, and not later.
            delayed.pace, delayed.position = self._own[-1].pace, self._own[-1].position
        if (
            (hold_ms or self._own)
            or late
            or self._tenants
            or not (pace is None or pace.take(waiting.size, now_ms))
        ):
            self._stats.throttled_batches += not late
            if hold_ms or self._own:
                waiting.leave_for(pace)
                self._own.append(delayed)
            else:
                self._into_tenants(delayed, pace, now_ms)
            return True
        self._begin(waiting, now_ms)
        return False

    def _into_tenants(self, delayed: _Delayed, pace: Pace | None, now_ms: float) -> None:
        """Its turn has come in its principal's pace."""
        delayed.waiting.arrive()
        if pace is None:
            self._tenants.append(delayed)
            return
        self._tenants.append(_Delayed(pace, pace.let_in, delayed.waiting))
        pace.enter(delayed.waiting.size, now_ms, may_refuse=False)
