"""Bytes of a message as people read them: indented JSON, text with visible hidden characters, or hex. Pure."""

import json
from dataclasses import dataclass

SHOWN_MAX = 64 * 1024
"""Bytes of one content that the page of one message shows; the page says that there are more."""
LISTED_MAX = 2 * 1024
"""Bytes of one content in a list of messages, which may be a hundred."""
PREVIEW_MAX = 160
_HEX_PART = 4
"""A byte as hex takes about four characters: a page of the same length shows a quarter of the bytes."""
_HEX_ROW = 16
# Characters that turn the direction of text, end its line or have no width: they could make a text look like another.
_HIDDEN = frozenset(
    [0x00AD, 0x061C, *range(0x200B, 0x2010), *range(0x2028, 0x202F), *range(0x2060, 0x2070), 0xFEFF]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """`kind` is json, text, hex or none (a tombstone, or no key)."""

    kind: str
    size: int
    preview: str
    """One line."""
    whole: str
    shortened: bool
    """Only the beginning is shown."""


NOTHING = Content(kind="none", size=0, preview="", whole="", shortened=False)


def decode(content: bytes | None, most: int = SHOWN_MAX) -> Content:
    """The text to show for a key, a value or a header: its first `most` bytes, fewer as hex."""
    if content is None:
        return NOTHING
    shortened = len(content) > most
    text = _text(content[:most], shortened)
    if text is None:
        return Content(
            kind="hex",
            size=len(content),
            preview=content[: PREVIEW_MAX // 3].hex(" "),
            whole=hex_dump(content[: most // _HEX_PART]),
            shortened=len(content) > most // _HEX_PART,
        )
    laid_out = None if shortened else lay_out_json(text)
    return Content(
        kind="text" if laid_out is None else "json",
        size=len(content),
        preview=visible(text[:PREVIEW_MAX], one_line=True),
        whole=visible(text if laid_out is None else laid_out),
        shortened=shortened,
    )


def visible(text: str, *, one_line: bool = False) -> str:
    """Control characters as their pictures, and invisible characters as escapes."""
    shown = []
    for character in text:
        code = ord(character)
        if character in "\n\t" and not one_line:
            shown.append(character)
        elif code < 0x20:
            shown.append(chr(0x2400 + code))
        elif code == 0x7F:
            shown.append("\u2421")
        elif 0x80 <= code < 0xA0 or code in _HIDDEN:
            shown.append(f"\\u{code:04x}")
        else:
            shown.append(character)
    return "".join(shown)


def lay_out_json(text: str) -> str | None:
    """A JSON object or array with line breaks and indents, every other character as it was; None for other text.

    Numbers keep their digits and repeated names stay, which parsing and serializing would not promise.
    """
    if text.lstrip()[:1] not in ("{", "["):
        return None
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return None
    out: list[str] = []
    depth = 0
    in_string = escaped = False
    for character in text:
        if in_string:
            out.append(character)
            if escaped:
                escaped = False
            elif character == "\\":
                escaped = True
            elif character == '"':
                in_string = False
        elif character in " \t\r\n":
            continue
        elif character == '"':
            in_string = True
            out.append(character)
        elif character in "{[":
            depth += 1
            out.append(character + "\n" + "  " * depth)
        elif character in "}]":
            depth -= 1
            if out[-1].endswith("\n" + "  " * (depth + 1)) and out[-1][0] in "{[":
                out[-1] = out[-1][0] + character
            else:
                out.append("\n" + "  " * depth + character)
        elif character == ",":
            out.append(",\n" + "  " * depth)
        elif character == ":":
            out.append(": ")
        else:
            out.append(character)
    return "".join(out)


def hex_dump(content: bytes) -> str:
    """Rows of an offset, 16 bytes in hex, and the letters among them."""
    rows = []
    for at in range(0, len(content), _HEX_ROW):
        row = content[at : at + _HEX_ROW]
        letters = "".join(chr(byte) if 0x20 <= byte < 0x7F else "·" for byte in row)
        rows.append(f"{at:06x}  {row.hex(' '):<{_HEX_ROW * 3 - 1}}  {letters}")
    return "\n".join(rows)


def _text(content: bytes, shortened: bool) -> str | None:
    """The text, if it is one: UTF-8 with few control characters."""
    for dropped in range(4 if shortened else 1):
        try:
            text = content[: len(content) - dropped].decode()
        except UnicodeDecodeError:
            continue
        controls = sum(ord(character) < 0x20 and character not in "\n\t\r" for character in text)
        return text if controls * 8 <= len(text) else None
    return None
