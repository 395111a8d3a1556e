"""Put the compiled modules of the SDK into its wheel, beside their sources: `make wheel COMPILED=1`.

A hook of hatchling, which runs where HATCH_BUILD_HOOK_ENABLE_CUSTOM is set (`pyproject.toml`). Such a wheel is for one
version of Python and one kind of machine, and its tag says which; pip takes the pure one elsewhere.
"""

import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CompiledModules(BuildHookInterface[Any]):
    """The build fails where the modules cannot be compiled: who asks for them never gets a pure wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return  # it runs the checkout, where a stale module would go before its source
        subprocess.run([sys.executable, "packaging/compile.py", "compiled-sdk"], cwd=self.root, check=True)
        tree = Path(self.root) / "build" / "compiled-sdk"
        build_data["pure_python"] = False
        build_data["infer_tag"] = True
        build_data["force_include"] |= {
            str(path): str(path.relative_to(tree)) for path in sorted(tree.rglob("*.so"))
        }
