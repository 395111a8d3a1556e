"""One whole service for all pages, started by its own command; each page has a home folder and a tenant of its own."""

import json
import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from local import cores, guardian, service_processes
from local.layout import DataDirectory
from local.service_layout import ServiceDirectory
from penstock.rest.client import RestClient
from tests.integration.installed import ROOT

BIN = Path(sys.executable).parent
START_S = 300
PAGE_S = 400


@dataclass(frozen=True, kw_only=True)
class Running:
    """The service, and what an operator of it has."""

    data: Path
    api_url: str
    bootstrap: list[str]

    @property
    def url(self) -> str:
        """Of the console."""
        return self.api_url

    @property
    def operator_token(self) -> str:
        return self._directory.operator_token_file.read_text().strip()

    @property
    def datasets(self) -> Path:
        return self._directory.datasets

    @property
    def _directory(self) -> ServiceDirectory:
        return ServiceDirectory(DataDirectory(self.data))

    @contextmanager
    def pipeline_paused(self) -> Iterator[None]:
        """Nothing is counted within the block."""
        runner = service_processes.find(self._directory, service_processes.RUNNER)
        assert runner is not None
        os.kill(runner.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(runner.pid, signal.SIGCONT)


def tree() -> dict[str, str]:
    """What makes a program run this tree's code on the cores of the tests, whatever is installed, and end with them."""
    return {"PYTHONPATH": str(ROOT), **cores.inherited(), **guardian.mark()}


@dataclass(frozen=True, kw_only=True)
class Reader:
    """Somebody who tries a page: a folder that looks like a clone of the repository, a home, a tenant with a key."""

    service: Running
    home: Path
    clone: Path
    tenant: str
    api_key: str

    @property
    def environment(self) -> dict[str, str]:
        return {
            "PATH": f"{BIN}:/usr/bin:/bin",
            "LANG": "C.UTF-8",
            "HOME": str(self.home),
            "PENSTOCK_DEV_DATA": str(self.service.data),
            **{name: os.environ[name] for name in ("JAVA_HOME",) if name in os.environ},
            **tree(),
        }

    def run(self, *command: str, more: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        """A command in the clone, whatever comes of it."""
        return subprocess.run(
            command,
            cwd=self.clone,
            env={**self.environment, **(more or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PAGE_S,
            check=False,
        )


@pytest.fixture(scope="package")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    home = tmp_path_factory.mktemp("documentation")
    data = home / "service"

    def command(*words: str) -> str:
        ended = subprocess.run(
            [str(BIN / "penstock"), "dev", *words, "--data", str(data)],
            cwd=home,
            env={"PATH": f"{BIN}:/usr/bin:/bin", "LANG": "C.UTF-8", "HOME": str(home), **tree()},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=START_S,
            check=False,
        )
        assert ended.returncode == 0, ended.stdout + ended.stderr
        return ended.stdout

    try:
        # Rounds take the processor from the pages; those that need one wake the pipeline.
        command("up", "--detach", "--pipeline-interval", "600")
        status = json.loads(command("status", "--json"))
        spec = DataDirectory(data).load()
        yield Running(
            data=data,
            api_url=status["api_url"],
            bootstrap=[broker.client_address for broker in spec.brokers],
        )
    finally:
        command("down", "--timeout", "10")


@pytest.fixture
def reader(service: Running, tmp_path: Path) -> Reader:
    home, clone = tmp_path / "home", tmp_path / "clone"
    profiles = home / ".config/penstock/profiles.toml"
    profiles.parent.mkdir(parents=True)
    clone.mkdir()
    (clone / ".venv").symlink_to(BIN.parent)
    mark = secrets.token_hex(4)
    with RestClient(service.api_url) as rest:
        signed_up = rest.post(
            "/v1/sign-up",
            {
                "email": f"anna-{mark}@acme.example",
                "password": secrets.token_hex(12),
                "tenant": f"reader-{mark}",
            },
        )
    with RestClient(service.api_url, signed_up["token"]) as rest:
        key = rest.post("/v1/keys", {"name": "page"})["key"]
    profiles.write_text(
        f"[dev]\nbootstrap = {json.dumps(service.bootstrap)}\napi_key = {json.dumps(key)}\n"
        f"api_url = {json.dumps(service.api_url)}\n"
    )
    profiles.chmod(0o600)
    return Reader(service=service, home=home, clone=clone, tenant=signed_up["tenant"]["id"], api_key=key)
