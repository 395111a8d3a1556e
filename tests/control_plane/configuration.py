"""A configuration of the control plane in a folder, for whoever needs its settings and no service."""

import json
import secrets
from pathlib import Path

from tests import certificates


def write(folder: Path, database_url: str) -> Path:
    """Write the configuration, its certificate and its pepper into `folder`; the configuration's file."""
    (folder / "pepper").write_text(secrets.token_hex(32) + "\n")
    files = certificates.write(folder / "identity", "control-plane")
    file = folder / "config.json"
    file.write_text(
        json.dumps(
            {
                "environment": "test",
                "identity": certificates.settings(files),
                "secret_key": secrets.token_hex(32),
                "database_url": database_url,
                "celery_broker_url": f"filesystem://{folder}/celery",
                "public_url": "http://127.0.0.1:8080",
                "listen": "127.0.0.1:8080",
                "brokers": {
                    "bootstrap": ["127.0.0.1:9"] * 3,
                    "internal": ["127.0.0.1:9"] * 3,
                    "pepper_file": str(folder / "pepper"),
                    "pepper_version": 1,
                },
                "datasets": str(folder / "datasets"),
                "usage_key_file": str(folder / "usage.key"),
                "operator_token_file": str(folder / "operator.token"),
                "spark": {"master": "local[1]"},
                "pipeline_interval_s": 20,
                "price_book_file": None,
            }
        )
    )
    return file
