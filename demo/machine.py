"""The service of one machine as the demo's load sees it."""

from pathlib import Path

from data_plane.contract.admin_client import AdminClient
from local.provisioning import admin_of
from local.service import DevService, ServiceUp


class ThisMachine:
    """A dev service that is up."""

    def __init__(self, service: DevService, up: ServiceUp) -> None:
        self._service = service
        self.bootstrap = tuple(broker.client_address for broker in up.cluster.spec.brokers)
        self.api_url = up.spec.api_url
        self.datasets: Path = service.service.datasets
        self.operator_token = service.service.operator_token_file.read_text().strip()

    def admin(self) -> AdminClient:
        return admin_of(self._service.directory)

    def kill_broker(self, number: int) -> int | None:
        return self._service.cluster.kill_broker(number)

    def start_broker(self, number: int) -> None:
        self._service.cluster.start_broker(number, lambda done, steps, note: None)
