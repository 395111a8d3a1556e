"""The file of trusted authorities is checked where it is named, for gRPC and REST alike."""

from pathlib import Path

import pytest

from penstock.contract.errors import ConfigurationError
from penstock.rest.client import RestClient
from penstock.transport.grpc_terms import credentials


@pytest.mark.parametrize("content", ["", "hello", "-----BEGIN CERTIFICATE-----\nnothing\n"])
def test_a_file_without_a_certificate_is_named_before_anything_is_connected(
    content: str, tmp_path: Path
) -> None:
    path = tmp_path / "ca.pem"
    path.write_text(content)
    said = r"ca_file: .*ca\.pem: holds no certificate that can be read; PEM required"
    with pytest.raises(ConfigurationError, match=said):
        credentials(str(path))
    with pytest.raises(ConfigurationError, match=said):
        RestClient("https://127.0.0.1:1", ca_file=str(path))


def test_a_file_in_the_home_folder_is_found_by_both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "ca.pem").write_text("hello")
    for use in (credentials, lambda ca_file: RestClient("https://127.0.0.1:1", ca_file=ca_file)):
        with pytest.raises(ConfigurationError, match="holds no certificate"):
            use("~/ca.pem")
