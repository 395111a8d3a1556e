"""A hook of mkdocs: files at the repository's root become pages of the site, and links to them lead there."""

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parents[2]
FROM_ROOT = {
    "README.md": "project.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "LICENSE": "license.txt",
}
"""Files at the root, and what they are called on the site."""
_FENCE = re.compile(r"^(```.*?^```)$", flags=re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\((?!https?:|mailto:|#)([^)#\s]+)")


def on_files(files: Any, *, config: Any) -> Any:
    for source, name in FROM_ROOT.items():
        content = (ROOT / source).read_text(encoding="utf-8")
        page = _relinked(content, folder="") if name.endswith(".md") else content
        files.append(File.generated(config, name, content=page))
    return files


def on_page_markdown(markdown: str, *, page: Any, config: Any, files: Any) -> str:
    if page.file.src_uri in FROM_ROOT.values():
        return markdown
    return _relinked(markdown, folder=posixpath.join("docs", posixpath.dirname(page.file.src_uri)))


def _relinked(markdown: str, *, folder: str) -> str:
    """Links as the site needs them, of a page in `folder` of the repository. Code stays as it is."""
    pieces = _FENCE.split(markdown)
    pieces[::2] = [_LINK.sub(lambda found: f"]({_on_site(found[1], folder)}", text) for text in pieces[::2]]
    return "".join(pieces)


def _on_site(target: str, folder: str) -> str:
    path = posixpath.normpath(posixpath.join(folder, target))
    if path in FROM_ROOT:
        path = posixpath.join("docs", FROM_ROOT[path])
    return posixpath.relpath(path, folder if folder else "docs") if path.startswith("docs/") else target
