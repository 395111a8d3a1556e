"""When the runner starts its Java again, for what Spark leaves open."""

import os
import resource
import subprocess
import sys
from types import SimpleNamespace

import psutil
import pytest
from pyspark import SparkContext

from spark_usage.java_wear import Descriptors, JavaWear, descriptors_of_java


@pytest.mark.parametrize(("most", "rounds"), [(600, 36), (4_096, 619), (524_288, 87_317)])
def test_java_is_worn_out_when_half_of_what_its_first_round_left_is_used(most: int, rounds: int) -> None:
    """So a low limit lets some rounds go on, too."""
    opened = 388
    wear = JavaWear(lambda: Descriptors(open=opened, most=most))
    count = 0
    while wear.after_round() is None:
        opened += 3
        count += 1
    assert count == rounds
    assert wear.after_round() == Descriptors(open=opened, most=most)


def test_without_a_java_nothing_is_worn_out() -> None:
    wear = JavaWear(lambda: None)
    assert wear.after_round() is None


def test_descriptors_are_those_of_the_process_that_this_one_started(monkeypatch: pytest.MonkeyPatch) -> None:
    program = (
        "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (77, 77));"
        "files = [open('/dev/null') for _ in range(20)]; print('there', flush=True); input()"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert child.stdin is not None and child.stdout is not None
    assert child.stdout.readline() == "there\n"
    monkeypatch.setattr(SparkContext, "_gateway", SimpleNamespace(proc=child))
    descriptors = descriptors_of_java()
    child.communicate("\n")
    assert descriptors is not None and descriptors.most == 77 and 23 <= descriptors.open < 40
    assert descriptors_of_java() is None, "it has ended"
    monkeypatch.setattr(SparkContext, "_gateway", None)
    assert descriptors_of_java() is None
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] != 77


def test_a_java_without_a_limit_is_never_worn_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SparkContext, "_gateway", SimpleNamespace(proc=SimpleNamespace(pid=os.getpid())))
    assert descriptors_of_java() is not None
    monkeypatch.setattr(psutil.Process, "rlimit", lambda *_: (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert descriptors_of_java() is None
    monkeypatch.delattr(psutil.Process, "rlimit")
    assert descriptors_of_java() is None
