"""What /metrics says of each metric: one sentence that is understood alone."""

import json
import math
import re
from pathlib import Path

import pytest

from billing import metrics as billing_metrics
from control_plane import certificate_metrics, config, server_checks
from control_plane.api import metrics
from control_plane.brokers import metrics as broker_metrics
from daemon import authority, certificates
from tests.control_plane.configuration import write

SENTENCE = re.compile(r"(Number of|Seconds from|Age in seconds of|1 while) .+[^.]\.")


@pytest.mark.parametrize(
    "module",
    [metrics, broker_metrics, billing_metrics, certificate_metrics, server_checks],
    ids=lambda module: module.__name__,
)
def test_each_metrics_help_is_a_sentence_that_says_what_is_counted(module: object) -> None:
    found = [value.describe()[0] for value in vars(module).values() if hasattr(value, "_labelnames")]
    assert found
    assert not [(one.name, one.documentation) for one in found if not SENTENCE.fullmatch(one.documentation)]


def test_each_file_of_certificates_has_its_time_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = certificates.utc_now()
    folder = tmp_path / "pki"
    authority.init(folder, "prod-1", now=now)
    authority.issue(folder, "control-plane", now=now, days=10)
    authority.add_ca(folder, now=now, days=20_000)
    values = json.loads(write(tmp_path, "postgresql://u@db.example.com/x").read_text())
    files = {
        "ca_file": str(folder / "ca.pem"),
        "certificate_file": str(folder / "control-plane.pem"),
        "key_file": str(folder / "control-plane-key.pem"),
    }
    redis = {"ca_file": str(tmp_path / "none.pem")}
    url = "rediss://redis.example.com/0"
    (tmp_path / "config.json").write_text(
        json.dumps({**values, "database_tls": files, "redis_tls": redis, "celery_broker_url": url})
    )
    # The process's own configuration stays as it was read: tests after this one need it.
    given = config.read(tmp_path / "config.json")
    monkeypatch.setattr(config, "current", lambda: given)
    certificate_metrics.refresh()
    found = {
        setting: metrics.registry.get_sample_value(
            "penstock_certificate_expires_seconds", {"certificate": setting}
        )
        for setting in ("database_tls.ca_file", "database_tls.certificate_file", "redis_tls.ca_file")
    }
    day_s = 86_400
    assert 19_999 * day_s < (found["database_tls.ca_file"] or 0) <= 20_000 * day_s
    assert 9 * day_s < (found["database_tls.certificate_file"] or 0) <= 10 * day_s
    assert math.isnan(found["redis_tls.ca_file"] or 0)
