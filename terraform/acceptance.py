"""Start a service in a temporary folder, run a command with its addresses and tokens, and stop the service."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from urllib.request import Request, urlopen

PENSTOCK = Path(__file__).resolve().parents[1] / ".venv" / "bin" / "penstock"
STOP_S = "10"
ANSWER_S = 30.0


def signed_in(api_url: str, account: dict[str, str]) -> str:
    """The token of a session of the person who owns the service's tenant."""
    body = json.dumps({"email": account["email"], "password": account["password"]}).encode()
    request = Request(f"{api_url}/v1/sign-in", data=body, headers={"Content-Type": "application/json"})
    with urlopen(request, timeout=ANSWER_S) as answer:
        return str(json.load(answer)["token"])


def run(command: list[str], folder: Path) -> int:
    """The command's exit status."""
    data = folder / "data"
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("PENSTOCK_", "TF_"))
    }
    environment |= {
        # The user's own profiles and Terraform's settings stay as they are.
        "PENSTOCK_PROFILE_FILE": str(folder / "profiles.toml"),
        "TF_CLI_CONFIG_FILE": str(folder / "terraform.rc"),
    }
    (folder / "terraform.rc").touch()
    try:
        subprocess.run([PENSTOCK, "dev", "up", "--detach", "--data", data], env=environment, check=True)
        service = data / "service"
        api_url = f"http://127.0.0.1:{json.loads((service / 'service.json').read_text())['web_port']}"
        account = json.loads((service / "account.json").read_text())
        environment |= {
            "PENSTOCK_API_URL": api_url,
            "PENSTOCK_API_KEY": signed_in(api_url, account),
            "PENSTOCK_TENANT": account["tenant"].strip(),
            "PENSTOCK_OPERATOR_TOKEN": (service / "operator.token").read_text().strip(),
            "CHECKPOINT_DISABLE": "1",
            "TF_ACC": "1",
            "TF_ACC_PROVIDER_HOST": "penstock.example",
            "TF_ACC_PROVIDER_NAMESPACE": "penstock",
        }
        return subprocess.run(command, env=environment).returncode
    finally:
        subprocess.run(
            [PENSTOCK, "dev", "down", "--timeout", STOP_S, "--data", data], env=environment, check=True
        )


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="penstock-terraform-") as name:
        sys.exit(run(sys.argv[1:], Path(name)))
