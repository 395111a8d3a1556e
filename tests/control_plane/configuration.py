"""A configuration of the control plane in a folder, for whoever needs its settings and no service."""

import json
import secrets
from pathlib import Path


def write(folder: Path, database_url: str) -> Path:
    """Write the configuration, its secret and its pepper into `folder`; the configuration's file."""
    for name in ("secret", "pepper"):
        (folder / name).write_text(secrets.token_hex(32) + "\n")
    file = folder / "config.json"
    file.write_text(
        json.dumps(
            {
                "environment": "test",
                "secret_key": secrets.token_hex(32),
                "database_url": database_url,
                "celery_broker_url": f"filesystem://{folder}/celery",
                "public_url": "http://127.0.0.1:8080",
                "listen": "127.0.0.1:8080",
                "brokers": {
                    "bootstrap": ["127.0.0.1:9"] * 3,
                    "internal": ["127.0.0.1:9"] * 3,
                    "cluster_secret_file": str(folder / "secret"),
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
