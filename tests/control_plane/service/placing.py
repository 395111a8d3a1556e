"""What holds of brokers that come and go: one joins, takes its share, is drained and forgotten, under load."""

import itertools
import threading
from typing import Any

import pytest

from data_plane.metadata.features import HIGHEST
from penstock import Delivery, __version__
from penstock.contract.errors import InvalidRequest
from penstock.contract.ids import SYSTEM_TENANT
from tests.control_plane.service.running import Service, SignedUp
from tests.waiting import PATIENCE_S

SEND_EVERY_S = 0.005


class Sender:
    """Sends to every partition of a topic from a thread of its own, within the block."""

    def __init__(self, service: Service, acme: SignedUp, partitions: int) -> None:
        self._service = service
        self._acme = acme
        self._partitions = partitions
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.deliveries: list[Delivery] = []
        self.ended = False

    def _run(self) -> None:
        with self._service.sdk(self._acme.api_key) as client, client.producer(linger_ms=1) as producer:
            for number in itertools.count():
                if self._stop.wait(SEND_EVERY_S):
                    break
                self.deliveries.append(
                    producer.send("orders", b"%d" % number, partition=number % self._partitions)
                )
            producer.flush(timeout=PATIENCE_S)
        self.ended = True

    def __enter__(self) -> "Sender":
        self._thread.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self._stop.set()
        self._thread.join(PATIENCE_S)


class Placing:
    """Inherited by the class of a form of the service."""

    def test_an_operator_sees_the_feature_level_and_what_is_in_the_way_of_another(
        self, service: Service
    ) -> None:
        operator = service.operator()
        shown = operator.get("/v1/cluster/features")
        assert shown["level"] == HIGHEST
        assert [known["level"] for known in shown["levels"]] == list(range(1, HIGHEST + 1))
        assert {(b["version"], b["level_max"]) for b in shown["brokers"] if b["state"] == "active"} == {
            (__version__, HIGHEST)
        }
        with pytest.raises(InvalidRequest, match=f"level {HIGHEST + 1}: this release knows"):
            operator.patch("/v1/cluster/features", {"level": HIGHEST + 1})
        with pytest.raises(InvalidRequest, match=f"level {HIGHEST} cannot be left"):
            operator.patch("/v1/cluster/features", {"level": 1})
        assert operator.patch("/v1/cluster/features", {"level": HIGHEST}) == shown
        versions = {broker["version"] for broker in operator.items("/v1/cluster/brokers")}
        assert versions == {__version__}

    def test_a_broker_joins_takes_its_share_is_drained_and_forgotten_under_load(
        self, service: Service
    ) -> None:
        acme, operator = service.sign_up(), service.operator()
        service.until_delivered(acme.rest.post("/v1/topics", {"name": "orders", "partitions": 6}))

        def brokers() -> dict[int, dict[str, Any]]:
            return {b["id"]: b for b in operator.items("/v1/cluster/brokers")}

        def moving() -> list[dict[str, Any]]:
            return [m for m in operator.items("/v1/cluster/moves") if m["state"] in ("waiting", "moving")]

        with Sender(service, acme, 6) as sender:
            with pytest.raises(InvalidRequest, match=r"cannot be drained: .* needs 3 brokers"):
                operator.post("/v1/cluster/brokers/1/drain")
            service.cluster.add_broker(lambda done, steps, note: None)
            # The broker that the control plane asks may learn of it later.
            service.wait_until("it has joined", lambda: brokers().get(4, {}).get("state") == "active")
            joined = brokers()[4]
            assert (joined["use"], joined["replicas"]) == ("serve", 0)

            plan = operator.post("/v1/placement/plans", {"kind": "rebalance"})
            assert plan["state"] == "draft" and plan["move_count"] > 4
            assert brokers()[4]["replicas"] == 0 and not moving()
            assert operator.post(f"/v1/placement/plans/{plan['id']}/confirm")["state"] == "running"
            service.wait_until("something has moved", lambda: brokers()[4]["replicas"] > 0)
            service.kill("worker")
            service.start_worker()
            service.wait_until(
                "the plan has ended",
                lambda: operator.get(f"/v1/placement/plans/{plan['id']}")["state"] == "done",
            )
            service.wait_until("everything has moved", lambda: not moving())
            held = [broker["replicas"] for broker in brokers().values()]
            mean = sum(held) / len(held)
            assert max(abs(replicas - mean) for replicas in held) <= max(1, mean / 10)
            service.wait_until(
                "every broker reports its load",
                lambda: len(operator.get("/v1/placement/load")["brokers"]) == 4,
            )

            service.until_delivered(operator.post("/v1/cluster/brokers/4/drain"))
            service.wait_until("it is drained", lambda: brokers()[4]["drained"])
            drained = brokers()[4]
            assert (drained["leaders"], drained["replicas"]) == (0, 0) and drained["replicas_at_start"] > 0
            with pytest.raises(InvalidRequest, match="it still runs"):
                operator.delete("/v1/cluster/brokers/4")
            service.cluster.stop_broker(4)
            with pytest.raises(InvalidRequest, match="the others know it still"):
                service.cluster.remove_broker(4)
            operator.delete("/v1/cluster/brokers/4")
            assert sorted(brokers()) == [1, 2, 3]
            # Or whoever starts the cluster again starts the fourth with it.
            service.cluster.remove_broker(4)
            assert [broker.id for broker in service.cluster.directory.load().brokers] == [1, 2, 3]
        assert sender.ended and len(sender.deliveries) > 100
        places = [(r.partition, r.offset) for r in (delivery.result(1) for delivery in sender.deliveries)]
        assert len(set(places)) == len(places)
        actions = [entry["action"] for entry in service.operator(SYSTEM_TENANT).items("/v1/audit")]
        assert {"placement.plan", "broker.drain", "broker.drained", "broker.forget"} <= set(actions)
