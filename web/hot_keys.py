"""Hot keys as a topic's page shows them: asked of the brokers once in a while, however many pages are open."""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable

from control_plane.topics.hot_keys import HotKeysOfTopic, hot_keys
from penstock.contract.errors import PenstockError
from tenants.models import Tenant

KEPT_S = 10.0
"""Producers report half as often."""
KEPT_MAX = 500


class HotKeysSeen:
    """What brokers answered, by topic; in memory only, as keys are data of the tenant. Threads of the web share it."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._answers: OrderedDict[str, tuple[float, HotKeysOfTopic | None]] = OrderedDict()

    def of(self, tenant: Tenant, name: str, topic_id: str) -> HotKeysOfTopic | None:
        """None while no broker answers. Who asks may read the topic's messages."""
        with self._lock:
            asked_at, answer = self._answers.get(topic_id, (float("-inf"), None))
            if self._clock() - asked_at < KEPT_S:
                return answer
            # Who comes while the brokers are asked gets what was known before.
            self._answers[topic_id] = (self._clock(), answer)
            self._answers.move_to_end(topic_id)
            if len(self._answers) > KEPT_MAX:
                self._answers.popitem(last=False)
        try:
            answer = hot_keys(tenant, name)
        except PenstockError:
            answer = None
        with self._lock:
            if topic_id in self._answers:
                self._answers[topic_id] = (self._clock(), answer)
        return answer


seen = HotKeysSeen()
