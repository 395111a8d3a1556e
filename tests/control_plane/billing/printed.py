"""What a printed page looks like."""

import io
import re
import zlib
from typing import Any


def beyond_the_margin(page: str) -> list[str]:
    """Texts that stand outside of the area that is printed on, so that they are cut off."""
    from weasyprint import HTML

    found = []
    for printed in HTML(string=page).render().pages:
        box: Any = printed._page_box
        right = box.content_box_x() + box.width
        for inner in box.descendants():
            text = getattr(inner, "text", None)
            if text and inner.position_x + inner.width > right + 0.5:
                found.append(text)
    return found


def glyphs_of(document: bytes) -> int:
    """The number of glyphs with an outline in the fonts that a PDF carries."""
    from fontTools.pens.boundsPen import BoundsPen
    from fontTools.ttLib import TTFont

    drawn = 0
    for stream in re.findall(rb"stream\r?\n(.*?)\r?\nendstream", document, re.DOTALL):
        try:
            content = zlib.decompress(stream)
        except zlib.error:
            content = stream
        if content[:4] not in (b"\0\1\0\0", b"OTTO", b"true"):
            continue
        font = TTFont(io.BytesIO(content))
        glyphs = font.getGlyphSet()
        for name in font.getGlyphOrder()[1:]:
            pen = BoundsPen(glyphs)
            glyphs[name].draw(pen)
            drawn += pen.bounds is not None
    return drawn
