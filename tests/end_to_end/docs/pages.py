"""Pages of documentation as programs: their blocks of commands and Python, in order, and what is not to be run."""

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
RUN = ("sh", "python")
SHOWN = ("hcl", "ini", "text", "toml", "json", "yaml")
"""Languages of blocks that are no commands."""
_FENCE = re.compile(
    r"^(?:<!-- not run: (?P<reason>[^\n]+?) -->\n)?^```(?P<language>\w*)\n(?P<text>.*?)^```$",
    flags=re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One fenced block. `reason` says why it is not run; None = it is."""

    line: int
    language: str
    text: str
    reason: str | None


def blocks(page: Path) -> list[Block]:
    """The page's fenced blocks in order."""
    text = page.read_text(encoding="utf-8")
    return [
        Block(
            line=text.count("\n", 0, found.start("text")),
            language=found["language"],
            text=found["text"],
            reason=found["reason"],
        )
        for found in _FENCE.finditer(text)
    ]


def documented() -> list[Path]:
    """The pages whose blocks are run."""
    return [ROOT / "README.md", *sorted((ROOT / "docs/guides").glob("*.md"))]


def script(page: Path, folder: Path) -> str:
    """The page as one bash script, which stops at the first line that fails and names each block before it runs it.

    Blocks of Python are written into `folder`, in which the script runs.
    """
    lines = ["set -euo pipefail"]
    for block in blocks(page):
        if block.reason is not None or block.language not in RUN:
            continue
        lines.append(f"echo '=== {page.name}:{block.line}' >&2")
        if block.language == "sh":
            lines.append(block.text)
        else:
            file = folder / f"line_{block.line}.py"
            file.write_text(block.text, encoding="utf-8")
            lines.append(f"python -W error {file.name}")
    return "\n".join(lines)
