"""Line charts and scatter plots as SVG, in the page's colors."""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Mapping, Sequence

from cs336_basics.reports.page import NUM_COLORS, printable

Points = Sequence[tuple[float, float]]

_WIDTH, _LEFT, _RIGHT, _TOP, _BOTTOM = 680, 70, 660, 16, 292
_LONGEST_LABEL = 60
_LARGEST = 1e15


def chart(
    series: Mapping[str, Points],
    *,
    title: str,
    x: str,
    y: str,
    log: str = "",
    lines: bool = True,
) -> str:
    """Return a chart as an SVG element, or an empty string if there are no points.

    Args:
        series: Mapping of label -> points. Points that are huge, not finite, or not positive on a
            logarithmic axis are left out.
        title: Description for readers who cannot see the chart.
        x, y: Labels of the axes.
        log: Logarithmic axes: "", "x", "y" or "xy".
        lines: Whether to connect points that have the same label.
    """
    kept = {
        label: [p for p in points if _is_drawn(p[0], "x" in log) and _is_drawn(p[1], "y" in log)]
        for label, points in series.items()
    }
    if not any(kept.values()):
        return ""
    xs, ys = zip(*(point for points in kept.values() for point in points), strict=True)
    place_x, ticks_x = _scale(xs, "x" in log, _LEFT, _RIGHT)
    place_y, ticks_y = _scale(ys, "y" in log, _BOTTOM, _TOP)
    parts = [
        f'<path class="grid" d="M{place_x(tick):.1f} {_TOP}V{_BOTTOM}"/>'
        f'<text x="{place_x(tick):.1f}" y="{_BOTTOM + 18}" text-anchor="middle">{tick:,.6g}</text>'
        for tick in ticks_x
    ]
    parts += [
        f'<path class="grid" d="M{_LEFT} {place_y(tick):.1f}H{_RIGHT}"/>'
        f'<text x="{_LEFT - 8}" y="{place_y(tick) + 4:.1f}" text-anchor="end">{tick:,.6g}</text>'
        for tick in ticks_y
    ]
    height = _BOTTOM + 48
    for number, (label, points) in enumerate(kept.items()):
        color = line_color(number)
        placed = [(round(place_x(px), 1), round(place_y(py), 1)) for px, py in points]
        if lines and len(placed) > 1:  # a line of one point would be invisible
            shown = " ".join(f"{px},{py}" for px, py in placed)
            parts.append(f'<polyline class="line" stroke="{color}" points="{shown}"/>')
        else:
            parts += [f'<circle cx="{px}" cy="{py}" r="2.5" fill="{color}"/>' for px, py in placed]
        if len(kept) > 1:
            parts.append(
                f'<rect x="{_LEFT}" y="{height}" width="12" height="12" fill="{color}"/>'
                f'<text x="{_LEFT + 20}" y="{height + 11}">{_label(label)}</text>'
            )
            height += 18
    parts.append(
        f'<text x="{(_LEFT + _RIGHT) / 2}" y="{_BOTTOM + 38}" '
        f'text-anchor="middle">{_label(x)}</text>'
        f'<text class="y" transform="translate(14 {(_TOP + _BOTTOM) / 2}) rotate(-90)" '
        f'text-anchor="middle">{_label(y)}</text>'
    )
    return (
        f'<svg role="img" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" '
        f'aria-label="{_label(title)}">' + "\n".join(parts) + "</svg>"
    )


def line_color(number: int) -> str:
    """Return the color of the line with this number, a variable of `page.COLORS`."""
    return f"var(--c{number % NUM_COLORS})"


def _is_drawn(value: float, is_log: bool) -> bool:
    return abs(value) < _LARGEST and (value > 0 or not is_log)


def _scale(
    values: Sequence[float], is_log: bool, first: float, last: float
) -> tuple[Callable[[float], float], list[float]]:
    """Return a function from values to positions on an axis, and the values of the ticks."""
    low, high = min(values), max(values)
    if is_log:
        low, high = math.log10(low), math.log10(high)
    if high - low < 1e-9 * max(1.0, abs(high)):
        low, high = low - 0.5, high + 0.5
    if is_log:
        step = max(1, math.ceil((high - low) / 8))
        ticks = [10.0**power for power in range(math.ceil(low), math.floor(high) + 1, step)]
    else:
        width = 10.0 ** math.floor(math.log10((high - low) / 4))
        width *= next(factor for factor in (1, 2, 5, 10) if (high - low) / (width * factor) <= 6)
        ticks = [i * width for i in range(math.ceil(low / width), math.floor(high / width) + 1)]

    def place(value: float) -> float:
        share = ((math.log10(value) if is_log else value) - low) / (high - low)
        return first + share * (last - first)

    return place, ticks


def _label(text: str) -> str:
    text = printable(text)
    return html.escape(text if len(text) <= _LONGEST_LABEL else f"{text[: _LONGEST_LABEL - 1]}…")
