"""What a process does not need it does not import: the library of buckets takes a quarter of a second of a start."""

import subprocess
import sys

import pytest

from tests.architecture.house import ROOT


@pytest.mark.parametrize("module", ["control_plane.config", "spark_usage.configuration", "demo.bills"])
def test_who_has_no_bucket_starts_without_its_library(module: str) -> None:
    program = f"import sys, {module}; print('boto3' in sys.modules, 'botocore' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=True
    )
    assert done.stdout.split() == ["False", "False"]
