"""The certificates of a run: what each process shows, and whom it trusts."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hosts.commands import run


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """The files of one process: whom it trusts, what it shows, and its key."""

    ca_file: Path
    certificate_file: Path
    key_file: Path


class Certificates:
    """One for all servers and clients; its own authority."""

    def __init__(self, folder: Path, addresses: Sequence[str]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.ca_file = folder / "ca.pem"
        names = ",".join(f"IP:{address}" for address in addresses)
        run(
            *(
                "openssl",
                "req",
                "-x509",
                "-nodes",
                "-newkey",
                "ec",
                "-pkeyopt",
                "ec_paramgen_curve:prime256v1",
            ),
            *("-days", "1", "-subj", "/CN=hosts", "-addext", f"subjectAltName={names}"),
            *("-keyout", str(folder / "key.pem"), "-out", str(self.ca_file)),
        )

    def of(self, name: str) -> Identity:
        return Identity(
            ca_file=self.ca_file, certificate_file=self.ca_file, key_file=self.ca_file.with_name("key.pem")
        )
