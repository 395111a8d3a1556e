"""Certificates made on the spot, by openssl."""

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.waiting import PATIENCE_S


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """PEM files; the certificate is its own authority."""

    certificate: Path
    key: Path

    @property
    def settings(self) -> dict[str, str]:
        """As a broker's configuration names them."""
        return {"tls_certificate_file": str(self.certificate), "tls_key_file": str(self.key)}


def make_certificate(folder: Path, name: str, names: Sequence[str] = ()) -> Certificate:
    """For 127.0.0.1, and for host names, good for a day."""
    subjects = ",".join(["IP:127.0.0.1", *(f"DNS:{host}" for host in names)])
    made = Certificate(certificate=folder / f"{name}.pem", key=folder / f"{name}.key")
    subprocess.run(
        [
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
            *("-days", "1", "-subj", f"/CN={name}", "-addext", f"subjectAltName={subjects}"),
            *("-keyout", str(made.key), "-out", str(made.certificate)),
        ],
        check=True,
        capture_output=True,
        timeout=PATIENCE_S,
    )
    return made
