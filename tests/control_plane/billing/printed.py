"""What a printed page looks like."""

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
