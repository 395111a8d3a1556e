"""Rules that hold for all tests: a skip is a failure unless the test says which optional peer it needs."""

import gc
import os
import signal
import sys
from collections.abc import Generator

import hypothesis
import pytest
from xdist.remote import Producer

from local import compiled_tree, cores, guardian
from penstock.build import CORES
from tests import drawing, schedule

FULL = bool(os.environ.get("FULL"))

# Tests that a module without tests holds for several: their failures show values too.
pytest.register_assert_rewrite(
    "tests.control_plane.service.deliveries",
    "tests.control_plane.service.killed_in_requests",
    "tests.control_plane.service.placing",
    "tests.unit.disk.disk_contract",
    "tests.unit.metadata.store_contract",
)

# Hundreds of processes start here: what one of them compiles, the next ones read.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# A shell starts what runs in its background with SIGINT ignored, and every program would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Whatever tests start ends with them, also when pytest is killed.
guardian.guard()

# Processes that tests start run the cores of the tests, whatever else is compiled.
os.environ[cores.VARIABLE] = cores.SAME

# A loaded machine is slow, not wrong, so time is left to pytest's own limit.
hypothesis.settings.register_profile(
    "penstock",
    deadline=None,
    max_examples=1_000 if FULL else 100,
    print_blob=True,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("penstock")


@pytest.fixture(scope="session")
def full() -> bool:
    """True when the long forms are asked for: `make test FULL=1`."""
    return FULL


def pytest_configure() -> None:
    """Compiled cores of other sources than those of now prove nothing."""
    if (tree := compiled_tree.stale(os.environ)) is not None:
        raise pytest.UsageError(f"{tree.folder} was made of other sources; make it again: {tree.compiler}")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is imported and collected stays to the end: the garbage collector looks at it neither now nor later."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """After they were shuffled: what takes longest comes first. What is for the other kind of cores is left out, and
    what this run does not draw.
    """
    others = "pure" if CORES == "compiled" else "compiled"
    running = [item for item in items if item.get_closest_marker(others) is None]
    seed = None if FULL else drawing.seed_of(config)
    if seed is not None:
        running, left_out = drawing.taken(running, seed)
        config.hook.pytest_deselected(items=left_out)
    items[:] = schedule.in_order(running)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> schedule.WholeGroups:
    """Whatever `--dist` says, a group of tests stays together."""
    config.option.loadscopereorder = False
    return schedule.WholeGroups(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Turn a skip into a failure, except in tests marked `optional_peer`."""
    report = yield
    if (
        report.skipped
        and not hasattr(report, "wasxfail")
        and item.get_closest_marker("optional_peer") is None
    ):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid} skipped ({reason}): only tests marked optional_peer may skip"
    return report
