"""The controller is killed, and stopped: another broker takes its seat, and what was acknowledged stays."""

import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.contract.errors import PenstockError
from tests.integration.brokers import Brokers, Tenant, brokers
from tests.integration.fail_over.sending import TOPIC, Sending, check_everything_is_there

pytestmark = [pytest.mark.processes, pytest.mark.slow]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Brokers]:
    with brokers(tmp_path / "cluster") as running:
        yield running


def controller_of(cluster: Brokers) -> int:
    """0 while none is known."""
    try:
        return cluster.admin.describe_cluster().controller
    except PenstockError:
        return 0


def changed(cluster: Brokers, tenant: Tenant, name: str) -> float:
    """Seconds until a topic could be made."""

    def made() -> bool:
        try:
            cluster.create_topic(tenant, name, replication=2, min_insync_replicas=1)
        except PenstockError:
            return False
        return True

    return cluster.wait_until("a topic is made", made)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_the_controllers_seat_is_taken_by_another_broker(cluster: Brokers, how: signal.Signals) -> None:
    tenant = cluster.tenant("tn_kept")
    cluster.create_topic(tenant, TOPIC)
    cluster.wait_until("there is a controller", lambda: controller_of(cluster) > 0)
    first = controller_of(cluster)
    with Sending(cluster, tenant) as sending:
        sending.goes_on("all is well")
        began = time.monotonic()
        cluster.signal(how, first)
        cluster.wait_until("another controller", lambda: (now := controller_of(cluster)) > 0 and now != first)
        print(f"the controller ended by {how.name}: another one after {time.monotonic() - began:.1f} s")
        sending.goes_on(f"the controller ended by {how.name}", began)
        made_s = changed(cluster, tenant, "new")
        print(f"the controller ended by {how.name}: a topic could be made {made_s:.1f} s later")
        if how is signal.SIGSTOP:
            cluster.signal(signal.SIGCONT, first)
        else:
            cluster.status(first)
            cluster.start(first)
    check_everything_is_there(cluster, tenant, sending.acknowledged)
