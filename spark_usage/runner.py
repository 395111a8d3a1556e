"""The long-lived driver: a round every interval and at each wake-up, until SIGTERM. Spark starts with the first round
that finds something new, so a service at rest costs a look at the ends of `__usage` and at what is published.

Of several runners the one that holds the lease works; the others wait for it. A runner that finds that another one has
the lease ends at once, and is started again as one that waits. One whose Java was killed ends too, since no session
works without it, and is started again whole; and so does one whose Java is worn out. After a long round the pause is
longer, up to half a minute: rounds leave the machine to others. A round that fails is tried again at once. When that
fails too, the heartbeat reports it, and the next round begins after the pause, at most half a minute, whatever the
interval.
"""

import errno
import logging
import os
import signal
import threading
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn

from prometheus_client import CollectorRegistry

from daemon import logs
from daemon.data_set_store import StoreUnavailable
from daemon.hang_ups import HangUpCollector, HangUps
from daemon.http_listener import HttpListener
from penstock.cli.exit_codes import ProcessEnd
from penstock.contract.errors import ConfigurationError
from penstock.rules.addresses import split_address
from spark_usage.configuration import Configuration, from_environment
from spark_usage.heartbeat import Heartbeat
from spark_usage.java_wear import JavaWear, descriptors_of_java
from spark_usage.lease import RENEW_S, RunnerLease, Unavailable, lease_of
from spark_usage.metrics import HeartbeatCollector
from spark_usage.pipeline import NotYet, Pipeline
from spark_usage.rounds import Round
from spark_usage.session import java_has_ended

log = logging.getLogger("spark_usage.runner")
_WAITING_S = 1.0
"""Interval of the tries while the service is being set up, and of the looks at the lease while another runner works."""
_PAUSE_RATIO, _PAUSE_MAX_S = 2.0, 30.0
"""A pause is so many times as long as the round before it, up to this time, where the interval is shorter. A message
that just misses a round waits for the pause and for two rounds, and has to be priced within a minute."""
_LOOK_WITHOUT_SPARK_S = 5.0
"""Until Spark runs, what is new is looked for more often: the time that Spark takes to start is gained back so."""
_JAVA_S = 1.0
"""Between two looks at whether Java lives."""
_ROUND_S_MAX = 600.0
"""A round that takes longer is reported: nothing new is published meanwhile."""
_PATIENCE_S = 15.0
"""After SIGTERM a running round has this time to end. Ending it at any moment is harmless."""


class Runner:
    """Rounds until `stop` is called."""

    def __init__(self, configuration: Configuration, lease: RunnerLease) -> None:
        self._configuration = configuration
        self._lease = lease
        self._stopping = threading.Event()
        self._pipeline = Pipeline(configuration)
        self._woken = ""
        self._heartbeat = Heartbeat(configuration.state_directory)
        self._java_wear = JavaWear(descriptors_of_java)

    def serve(self) -> HttpListener:
        """Open the listener. Raises `OSError` when its address cannot be bound."""
        registry = CollectorRegistry()
        registry.register(HeartbeatCollector(lambda: self._heartbeat.values))
        host, port = split_address(self._configuration.runner_listen)
        hang_ups = HangUps("runner")
        registry.register(HangUpCollector(hang_ups))
        listener = HttpListener(
            host,
            port,
            registry,
            hang_ups=hang_ups,
            not_ready=self._not_ready,
            loop_age_s=self._heartbeat.age_s,
        )
        log.info("serving", extra={"address": f"{host}:{listener.port}"})
        return listener

    def stop(self) -> None:
        """End after the round under way, or in the middle of it when it takes long."""
        if not self._stopping.is_set():
            self._stopping.set()
            threading.Thread(target=self._hurry, name="hurry", daemon=True).start()

    def run(self) -> None:
        """Returns once stopped."""
        heartbeat = self._heartbeat
        try:
            if not (self._wait_for_lease() and self._take_over()):
                return
            while not self._stopping.is_set():
                self._woken = self._last_wake()
                pause = self._round(heartbeat)
                self._end_if_worn_out()
                self._rest(pause)
            heartbeat.report(state="stopping")
        finally:
            self._pipeline.close()
            self._lease.release()
            heartbeat.end()
            log.info("stopped")

    def _not_ready(self) -> str:
        values = self._heartbeat.values
        if values["state"] == "ready":
            round_s = time.time() - values.get("busy_since", 0.0) if values["busy"] else 0.0
            return f"a round has been under way for {round_s:.0f} s" if round_s > _ROUND_S_MAX else ""
        return ": ".join(str(part) for part in (values["state"], values.get("error")) if part)

    # -- the lease -----------------------------------------------------------------------------------------

    def _wait_for_lease(self) -> bool:
        """Wait until this runner is the one that works. False: it was stopped meanwhile."""
        while not self._stopping.is_set():
            try:
                if self._lease.hold():
                    log.info("this runner works", extra={"number": self._lease.number})
                    return True
                self._heartbeat.report(state="standby", error="another runner works")
            except Unavailable as error:
                self._heartbeat.report(state="waiting", error=str(error))
            self._stopping.wait(_WAITING_S)
        return False

    def _take_over(self) -> bool:
        """Let nothing count that an earlier runner still publishes. False: this one was stopped meanwhile."""
        threading.Thread(target=self._keep_lease, name="lease", daemon=True).start()
        threading.Thread(target=self._look_after_java, name="java", daemon=True).start()
        self._heartbeat.report(state="starting", error=None, number=self._lease.number)
        while not self._stopping.is_set():
            try:
                self._pipeline.take_over(self._lease)
                self._heartbeat.report(number=self._lease.number)
                return True
            except (StoreUnavailable, Unavailable) as error:
                self._heartbeat.report(state="waiting", error=str(error))
            self._stopping.wait(_WAITING_S)
        return False

    def _keep_lease(self) -> None:
        """Renew it as long as this process lives, however long a round takes."""
        said = False
        while not self._stopping.wait(RENEW_S):
            try:
                if not self._lease.hold():
                    self._end_at_once()
                said = False
            except Unavailable as error:
                # What is published under this runner's number counts only until another one begins.
                if not said:
                    log.warning("the lease was not renewed", extra={"error": str(error)})
                said = True

    def _end_at_once(self) -> NoReturn:
        """Nothing that this process still does counts."""
        log.error(
            "another runner works or has worked; this one ends, and takes its turn when it is started again"
        )
        self._end_now("another runner works", ProcessEnd.LEASE_LOST)

    def _look_after_java(self) -> None:
        while not self._stopping.wait(_JAVA_S):
            if java_has_ended() and not self._stopping.is_set():
                log.critical("Java has ended; this runner ends, to be started again")
                self._lease.release()
                self._end_now("Java has ended", ProcessEnd.FAILED)

    def _end_if_worn_out(self) -> None:
        """Nothing is under way between two rounds."""
        worn = self._java_wear.after_round()
        if worn is not None and not self._stopping.is_set():
            log.warning(
                "Java has too many descriptors open, which Spark leaves; this runner ends, to be started again",
                extra={"open": worn.open, "most": worn.most},
            )
            self._pipeline.close()
            self._lease.release()
            self._end_now("Java is started again", ProcessEnd.FAILED)

    def _end_now(self, reason: str, status: ProcessEnd) -> NoReturn:
        self._heartbeat.report(state="stopped", busy=False, error=reason)
        logging.shutdown()
        os._exit(status)

    # -- rounds --------------------------------------------------------------------------------------------

    def _warm_up(self, heartbeat: Heartbeat) -> None:
        """Spark takes seconds to start, so it starts when there is something to do. Raises `ClusterLost`."""
        if self._pipeline.started:
            return
        self._pipeline.start()
        log.info("spark is up", extra={"master": self._configuration.spark.master})
        if heartbeat.values["state"] == "starting":
            heartbeat.report(state="ready")

    def _do(self, heartbeat: Heartbeat) -> Round:
        """A round, without Spark when nothing is new. Raises as `Pipeline.round`."""
        done = self._pipeline.look_or_again()
        if done is None:
            heartbeat.report(busy=True, busy_since=time.time())
            self._warm_up(heartbeat)
            done = self._pipeline.round_or_again()
        return done

    def _round(self, heartbeat: Heartbeat) -> float:
        """Do one round. Returns the seconds to wait after it."""
        if not self._lease.lasts:
            heartbeat.report(state="waiting", busy=False, error="the lease is not confirmed")
            return _WAITING_S
        began = time.monotonic()
        try:
            done = self._do(heartbeat)
        except NotYet as error:
            heartbeat.report(state="waiting", busy=False, error=str(error))
            return min(_WAITING_S, self._configuration.pipeline_interval_s)
        except Exception as error:
            if self._stopping.is_set():
                return 0.0
            log.exception("the round failed")
            self._pipeline.forget_connections()
            heartbeat.report(
                state="failing",
                busy=False,
                error=_reason(error, self._configuration.datasets),
                failed_rounds=heartbeat.values.get("failed_rounds", 0) + 1,
            )
            return pause_s(
                time.monotonic() - began, min(self._configuration.pipeline_interval_s, _PAUSE_MAX_S)
            )
        if done.recomputed:
            log.info("round", extra=_summary(done))
        heartbeat.report(
            state="ready",
            busy=False,
            error=None,
            round=_summary(done),
            rounds=heartbeat.values.get("rounds", 0) + 1,
            last_success_seconds=time.time(),
        )
        self._tidy(heartbeat)
        interval = self._configuration.pipeline_interval_s
        if not self._pipeline.started:
            interval = min(interval, _LOOK_WITHOUT_SPARK_S)
        return pause_s(time.monotonic() - began, interval)

    def _tidy(self, heartbeat: Heartbeat) -> None:
        """Compact bronze and let it expire, a bounded part. What fails here is tried again after the next round."""
        values = heartbeat.values
        try:
            done = self._pipeline.tidy(lambda: self._lease.lasts and not self._stopping.is_set())
        except Exception:
            if not self._stopping.is_set():
                log.exception("bronze was not compacted or did not expire")
                heartbeat.report(failed_bronze_turns=values.get("failed_bronze_turns", 0) + 1)
            return
        if done is None:
            return
        merged, expired = done.compacted.merged, done.expired.files
        if merged or expired or done.compacted.removed:
            log.info(
                "bronze",
                extra={
                    "merged": merged,
                    "into": done.compacted.into,
                    "waiting": done.compacted.waiting,
                    "removed": done.compacted.removed,
                    "expired": expired,
                    "expired_through": done.expired.through,
                    "files": done.files,
                },
            )
        heartbeat.report(
            bronze_files=done.files,
            bronze_files_waiting=done.compacted.waiting,
            bronze_oldest_day_seconds=_seconds_of(done.oldest),
            bronze_files_merged=values.get("bronze_files_merged", 0) + merged,
            bronze_files_expired=values.get("bronze_files_expired", 0) + expired,
        )

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
        os._exit(ProcessEnd.ABORTED)


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


def _seconds_of(day: str) -> float:
    return datetime.fromisoformat(day).replace(tzinfo=UTC).timestamp() if day else 0.0


def _reason(error: Exception, datasets: Path) -> str:
    """What an operator reads of a failed round. Of a full disk Java's first line says nothing."""
    if getattr(error, "errno", None) == errno.ENOSPC or os.strerror(errno.ENOSPC) in str(error):
        return f"no space on the disk of {datasets} or of Spark's scratch files; rounds go on once there is space"
    return f"{type(error).__name__}: {_first_line(error)}"


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [""])[0]


def main() -> int:
    """Exit status 0 after SIGTERM or SIGINT, 2 when it cannot start, 75 when another runner has taken over."""
    _set_up_logs()
    try:
        configuration = from_environment()
        configuration.datasets.mkdir(parents=True, exist_ok=True)
        runner = Runner(configuration, lease_of(configuration))
        listener = runner.serve()
    except ConfigurationError as error:
        log.error("%s", error)
        return ProcessEnd.CANNOT_START
    except OSError as error:
        log.error("runner_listen or datasets: %s", error)
        return ProcessEnd.CANNOT_START
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: runner.stop())
    runner.run()
    listener.close()
    return 0
