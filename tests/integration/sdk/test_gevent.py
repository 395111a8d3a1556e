"""The blocking SDK under gevent, which load tools use: greenlets wait, and never the whole process."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.sdk.fake_brokers import FakeBrokers
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.both_cores

PROGRAM = Path(__file__).with_name("under_gevent.py")


def test_five_greenlets_produce_and_consume_while_others_run() -> None:
    with FakeBrokers(api_key="key") as brokers:
        brokers.act(lambda cluster: cluster.create("orders", 3))
        done = subprocess.run(
            [sys.executable, "-m", "gevent.monkey", str(PROGRAM), ",".join(brokers.bootstrap), "key"],
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
    assert done.stdout.splitlines() == ["sent 1000 read 1000", "others ran"], done.stderr
    assert done.returncode == 0
