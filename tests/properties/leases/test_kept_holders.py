"""Who has an entry for which limit, against a model that notes the wishes of each request and counts them again."""

import random
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from data_plane.leases.coordinator import LeaseCoordinator
from data_plane.leases.terms import LimitKey, Request, Terms, Wish
from penstock.contract.ids import BrokerId, TenantId

LIMIT = 1_000
KEYS = [LimitKey(TenantId("tn_a"), name) for name in ("bytes", "calls", "reads")]
BROKERS = [BrokerId(number) for number in (1, 2, 3)]


@dataclass(slots=True)
class Holder:
    """One registration of a broker, and what the coordinator has heard of it."""

    registration: int
    sequence: int = 0
    wants: dict[LimitKey, int] = field(default_factory=dict)

    def heard(self, request: Request) -> None:
        if not request.partial:
            self.wants = {}
        for key, wish in request.wishes.items():
            self.wants.pop(key, None)
            if wish.wants:
                self.wants[key] = wish.wants


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_limits_are_leased_to_those_that_said_so_last_and_are_registered(seed: int) -> None:
    chosen = random.Random(seed)
    coordinator = LeaseCoordinator(
        Terms(), 7, 0.0, limit=lambda key: LIMIT, safe_share=lambda broker, key: LIMIT // len(BROKERS)
    )
    registrations = 10
    known: dict[BrokerId, Holder] = {}
    registered = {broker: registrations + broker for broker in BROKERS}
    registrations += 9
    now_ms = 0.0
    for step in range(60):
        now_ms += chosen.choice((10, 250, 3_000))
        broker = chosen.choice(BROKERS)
        if chosen.random() < 0.08:
            registrations += 1
            registered[broker] = registrations
        elif chosen.random() < 0.05 and len(registered) > 1:
            registered.pop(broker, None)
        holder = known.get(broker)
        if holder is None or holder.registration != registered.get(broker):
            holder = Holder(registered.get(broker, 0))
        late = chosen.random() < 0.1
        request = Request(
            holder=broker,
            registration=holder.registration,
            epoch=chosen.choice((7, 7, 7, 6)),
            sequence=max(1, holder.sequence - 1 if late else holder.sequence + 1),
            answered=holder.sequence,
            wishes={
                key: Wish(holds=0, wants=chosen.choice((0, 10, LIMIT)))
                for key in chosen.sample(KEYS, chosen.randint(0, len(KEYS)))
            },
            partial=chosen.random() < 0.4,
        )
        answer = coordinator.asked(request, registered, now_ms)
        is_for_it = request.epoch == 7 and registered.get(broker) == request.registration
        if is_for_it:
            known = {one: kept for one, kept in known.items() if registered.get(one) == kept.registration}
        assert (answer is not None) == (is_for_it and request.sequence > holder.sequence), f"seed {seed}"
        if answer is not None:
            holder.heard(request)
            holder.sequence = request.sequence
            known[broker] = holder
            assert answer.keys() == request.wishes.keys()
        leased = {key for kept in known.values() for key in kept.wants}
        assert coordinator.limits_leased == len(leased), f"seed {seed}, step {step}"
        for key in KEYS:
            if key not in leased:
                assert coordinator.reserved(key, now_ms) == 0, f"seed {seed}, step {step}"
