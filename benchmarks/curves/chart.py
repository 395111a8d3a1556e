"""Draws the curves of one JSON line as an SVG: `python -m benchmarks.curves.chart LINE.json docs/images/curves.svg`.

Both axes of each panel are logarithmic, so that what grows in proportion is a straight line of slope 1.
"""

import argparse
import json
import math
from collections.abc import Mapping
from pathlib import Path
from xml.sax.saxutils import escape

from benchmarks.curves.axes import AXES, Axis

_LINES = (("brokers_cpu_us", "brokers", "data"), ("client_cpu_us", "client", "coin"))
_WIDTH, _HEIGHT, _MARGIN, _ACROSS = 300, 200, 50, 3
_STYLE = """
    .ground { fill: #ffffff } .grid { stroke: #d5dbe1 } text { fill: #4a5763; font-size: 11px }
    .name { fill: #16202a; font-weight: 600 }
    .data { stroke: #2f6fb0; fill: none; stroke-width: 2 } .coin { stroke: #2c8157; fill: none; stroke-width: 2 }
    @media (prefers-color-scheme: dark) {
      .ground { fill: #0f151b } .grid { stroke: #2b3742 } text { fill: #a9b7c4 } .name { fill: #eef3f7 }
      .data { stroke: #6cabe8 } .coin { stroke: #62c394 }
    }
"""

Points = Mapping[str, Mapping[str, float]]
"""Of one axis: costs by value, as the JSON line has them."""


def drawn(measured: Mapping[str, Points]) -> str:
    """The SVG. Raises `KeyError` for an axis that was not measured."""
    rows = math.ceil(len(AXES) / _ACROSS)
    width, height = _ACROSS * _WIDTH, rows * _HEIGHT + 30
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
        'aria-labelledby="title" font-family="system-ui, \'DejaVu Sans\', sans-serif">',
        '<title id="title">Processor time of brokers and client for a message, microseconds, by load</title>',
        f"<style>{_STYLE}</style>",
        f'<rect class="ground" width="{width}" height="{height}"/>',
        '<text class="name" x="12" y="20">Processor time of a message, µs</text>',
    ]
    for number, (_, title, style) in enumerate(_LINES):
        left = 260 + 110 * number
        parts.append(f'<path class="{style}" d="M{left} 16h24"/><text x="{left + 30}" y="20">{title}</text>')
    for number, axis in enumerate(AXES):
        left, top = number % _ACROSS * _WIDTH, number // _ACROSS * _HEIGHT + 30
        parts.append(f'<g transform="translate({left} {top})">{_panel(axis, measured[axis.field])}</g>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def _panel(axis: Axis, points: Points) -> str:
    inner_width, inner_height = _WIDTH - _MARGIN - 20, _HEIGHT - 65
    costs = [point[field] for point in points.values() for field, _, _ in _LINES]
    low, high = math.floor(math.log10(min(costs))), math.ceil(math.log10(max(costs)))
    high = max(high, low + 1)
    values = [int(value) for value in points]
    least, most = math.log10(min(values)), math.log10(max(values))

    def across(value: int) -> float:
        return _MARGIN + inner_width * (math.log10(value) - least) / (most - least)

    def down(cost: float) -> float:
        return 25 + inner_height * (high - math.log10(cost)) / (high - low)

    parts = [f'<text class="name" x="{_MARGIN}" y="14">{escape(axis.title)}</text>']
    for power in range(low, high + 1):
        y = down(10.0**power)
        parts.append(f'<path class="grid" d="M{_MARGIN} {y:.1f}h{inner_width}"/>')
        parts.append(f'<text x="{_MARGIN - 6}" y="{y + 4:.1f}" text-anchor="end">{10.0**power:g}</text>')
    for value in values:
        parts.append(
            f'<text x="{across(value):.1f}" y="{inner_height + 42}" text-anchor="middle">{_short(value)}</text>'
        )
    for field, _, style in _LINES:
        line = " ".join(
            f"{across(int(value)):.1f},{down(point[field]):.1f}" for value, point in points.items()
        )
        parts.append(f'<polyline class="{style}" points="{line}"/>')
    return "".join(parts)


def _short(value: int) -> str:
    return f"{value // 1_000}k" if value >= 1_000 else str(value)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("line", type=Path, help="what `make bench ONLY=curves` printed last")
    parser.add_argument("picture", type=Path)
    arguments = parser.parse_args()
    arguments.picture.write_text(drawn(json.loads(arguments.line.read_text())))


if __name__ == "__main__":
    main()
