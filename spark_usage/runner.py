"""The long-lived driver: a round every interval and at each wake-up, until SIGTERM.

    PENSTOCK_CONFIG=/etc/penstock.json python -m spark_usage.runner

After a long round the pause is longer, up to a minute: rounds leave the machine to others. A round that fails is tried
again at once. When that fails too, the heartbeat reports it, and the next round begins after the pause.
"""

import logging
import os
import signal
import sys
import threading
import time
from typing import Any

from daemon import logs
from daemon.data_set_store import StoreUnavailable
from penstock.contract.errors import ConfigurationError
from spark_usage.cluster import ClusterLost
from spark_usage.configuration import Configuration, from_environment
from spark_usage.heartbeat import Heartbeat
from spark_usage.pipeline import NotYet, Pipeline
from spark_usage.rounds import Round

log = logging.getLogger("spark_usage.runner")
_WAITING_S = 1.0
"""Interval of the tries while the service is being set up."""
_PAUSE_RATIO, _PAUSE_MAX_S = 4.0, 60.0
"""A pause is so many times as long as the round before it, up to this time, where the interval is shorter."""
_PATIENCE_S = 15.0
"""After SIGTERM a running round has this time to end. Ending it at any moment is harmless."""


class Runner:
    """Rounds until `stop` is called."""

    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration
        self._stopping = threading.Event()
        self._pipeline = Pipeline(configuration)
        self._woken = ""

    def stop(self) -> None:
        """End after the round under way, or in the middle of it when it takes long."""
        if not self._stopping.is_set():
            self._stopping.set()
            threading.Thread(target=self._hurry, name="hurry", daemon=True).start()

    def run(self) -> None:
        """Returns once stopped."""
        heartbeat = Heartbeat(self._configuration.state_directory)
        try:
            self._warm_up(heartbeat)
            while not self._stopping.is_set():
                self._woken = self._last_wake()
                pause = self._round(heartbeat)
                self._rest(pause)
            heartbeat.report(state="stopping")
        finally:
            self._pipeline.close()
            heartbeat.end()
            log.info("stopped")

    def _warm_up(self, heartbeat: Heartbeat) -> None:
        """Spark takes seconds to start. On a cluster that is away the rounds try again, and say so."""
        try:
            self._pipeline.start()
        except ClusterLost as error:
            heartbeat.report(state="failing", error=str(error))
            return
        log.info("spark is up", extra={"master": self._configuration.spark.master})
        heartbeat.report(state="ready")

    def _round(self, heartbeat: Heartbeat) -> float:
        """Do one round. Returns the seconds to wait after it."""
        heartbeat.report(busy=True)
        began = time.monotonic()
        try:
            done = self._pipeline.round_or_again()
        except NotYet as error:
            heartbeat.report(state="waiting", busy=False, error=str(error))
            return min(_WAITING_S, self._configuration.pipeline_interval_s)
        except Exception as error:
            if self._stopping.is_set():
                return 0.0
            log.exception("the round failed")
            self._pipeline.forget_connections()
            heartbeat.report(
                state="failing", busy=False, error=f"{type(error).__name__}: {_first_line(error)}"
            )
            return self._pause(began)
        if done.recomputed:
            log.info("round", extra=_summary(done))
        heartbeat.report(state="ready", busy=False, error=None, round=_summary(done))
        return self._pause(began)

    def _pause(self, began: float) -> float:
        return pause_s(time.monotonic() - began, self._configuration.pipeline_interval_s)

    def _rest(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and self._last_wake() == self._woken:
            if self._stopping.wait(min(self._look_s(), max(0.0, deadline - time.monotonic()))):
                return

    def _look_s(self) -> float:
        try:
            return self._pipeline.store.look_s
        except StoreUnavailable:
            return _WAITING_S

    def _last_wake(self) -> str:
        try:
            return self._pipeline.store.woken()
        except StoreUnavailable:
            return self._woken  # the next round says what is wrong with the storage

    def _hurry(self) -> None:
        time.sleep(_PATIENCE_S)
        self._pipeline.cancel()
        time.sleep(_PATIENCE_S)
        os._exit(1)


def pause_s(round_s: float, interval_s: float) -> float:
    """The seconds to rest after a round that took `round_s`."""
    return max(interval_s, min(_PAUSE_RATIO * round_s, _PAUSE_MAX_S))


def _set_up_logs() -> None:
    logs.set_up("runner", level="warning")
    logging.getLogger("spark_usage").setLevel(logging.INFO)


def _summary(done: Round) -> dict[str, Any]:
    return {
        "records": done.records,
        "offsets": dict(done.offsets),
        "rejected": done.rejected,
        "missing": done.missing,
        "seconds": round(done.seconds, 3),
        "runs": {name: run.run_id for name, run in done.runs.items()},
    }


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [""])[0]


def main() -> int:
    """Exit status 0 after SIGTERM or SIGINT, 2 when the configuration is wrong."""
    _set_up_logs()
    try:
        configuration = from_environment()
    except ConfigurationError as error:
        log.error("%s", error)
        return 2
    configuration.datasets.mkdir(parents=True, exist_ok=True)
    runner = Runner(configuration)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: runner.stop())
    runner.run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
