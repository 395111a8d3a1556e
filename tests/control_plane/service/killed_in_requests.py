"""A process that dies in a request loses nothing: what it had committed is delivered by the sweep, once."""

import signal
from functools import partial
from pathlib import Path

from tests.control_plane.service.running import Service, SignedUp
from tests.control_plane.steps import step
from tests.waiting import PATIENCE_S

PROGRAM = Path(__file__).with_name("killed_request.py")
STEPS = ("committed", "claimed", "placed", "made", "seen", "settled")


def is_delivered(acme: SignedUp) -> bool:
    return bool(acme.rest.get("/v1/topics/orders")["delivered_generation"] == 1)


class KilledInRequests:
    """Inherited by the class of a form of the service."""

    def test_what_killed_requests_had_committed_is_delivered_once(self, service: Service) -> None:
        """Each request is of a tenant of its own, and one worker finds what all of them left."""
        killed = {name: service.sign_up() for name in STEPS}
        made = {}
        service.stop("worker")
        try:
            with service.forking(PROGRAM) as in_a_fork:
                for name, acme in killed.items():
                    with step(name):
                        under_way = service.deliveries_under_way()
                        assert in_a_fork(name, acme.tenant, "orders") == -signal.SIGKILL, service.last_words()
                        there = name in ("made", "seen", "settled")
                        assert set(service.topics_on_brokers(acme.tenant)) == ({"orders"} if there else set())
                        made[name] = acme.rest.get("/v1/topics/orders")
                        assert made[name]["delivered_generation"] == (name == "settled")
                        left = service.deliveries_under_way() - under_way
                        assert left == (name not in ("committed", "settled"))
            service.sql(
                "UPDATE outbox_delivery SET lease_until = created_at WHERE lease_until IS NOT NULL"
            )  # it is over
        finally:
            service.start_worker()
            service.wait_ready()
        for name, acme in killed.items():
            with step(name):
                service.wait_until("it is delivered", partial(is_delivered, acme))
                assert service.topics_on_brokers(acme.tenant) == {"orders": made[name]["topic_id"]}
                assert acme.rest.get("/v1/topics/orders")["conditions"] == []
                assert [e["action"] for e in acme.rest.items("/v1/audit")].count("topic.create") == 1
                with service.sdk(acme.api_key) as client, client.producer() as producer:
                    assert producer.send("orders", b"one", partition=1).result(PATIENCE_S).offset == 0
