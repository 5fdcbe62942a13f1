"""Line charts and point clouds as SVG, which follow the colors of the page."""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Mapping, Sequence

from cs336_basics.reports.page import NUM_COLORS, printable

Points = Sequence[tuple[float, float]]

_WIDTH, _HEIGHT = 680, 340
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 20, 16, 48
_DASHES = ("none", "8 4", "2 3", "10 3 2 3", "1 6")
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
    """Return a chart as an SVG element, or an empty string without points.

    Args:
        series: Label -> points. Points that are huge, not finite, or not positive on a
            logarithmic axis are left out.
        title: Description for readers who cannot see it.
        x, y: Labels of the axes.
        log: Logarithmic axes: "", "x", "y" or "xy".
        lines: Whether to join the points of a label with a line.
    """
    kept = {
        label: [
            (px, py)
            for px, py in points
            if _can_be_drawn(px, "x" in log) and _can_be_drawn(py, "y" in log)
        ]
        for label, points in series.items()
    }
    everything = [point for points in kept.values() for point in points]
    if not everything:
        return ""
    xs, ys = zip(*everything, strict=True)
    place_x, ticks_x = _scale(xs, "x" in log, _LEFT, _WIDTH - _RIGHT)
    place_y, ticks_y = _scale(ys, "y" in log, _HEIGHT - _BOTTOM, _TOP)
    bottom, right = _HEIGHT - _BOTTOM, _WIDTH - _RIGHT
    parts = [
        f'<line class="grid" x1="{place_x(tick):.1f}" x2="{place_x(tick):.1f}" y1="{_TOP}" '
        f'y2="{bottom}"/><text x="{place_x(tick):.1f}" y="{bottom + 18}" '
        f'text-anchor="middle">{_number(tick)}</text>'
        for tick in ticks_x
    ]
    parts += [
        f'<line class="grid" x1="{_LEFT}" x2="{right}" y1="{place_y(tick):.1f}" '
        f'y2="{place_y(tick):.1f}"/><text x="{_LEFT - 8}" y="{place_y(tick) + 4:.1f}" '
        f'text-anchor="end">{_number(tick)}</text>'
        for tick in ticks_y
    ]
    for number, points in enumerate(kept.values()):
        placed = [f"{place_x(px):.1f},{place_y(py):.1f}" for px, py in points]
        color = f"var(--c{number % NUM_COLORS})"
        if lines:
            dash = _DASHES[number // NUM_COLORS % len(_DASHES)]
            parts.append(
                f'<polyline class="line" stroke="{color}" stroke-dasharray="{dash}" '
                f'points="{" ".join(placed)}"/>'
            )
        else:
            parts += [
                '<circle cx="{}" cy="{}" r="2.5" fill="{}"/>'.format(*point.split(","), color)
                for point in placed
            ]
    legend_height = 18 * len(kept) if len(kept) > 1 else 0
    for number, label in enumerate(kept if legend_height else ()):
        top = _HEIGHT + 18 * number
        parts.append(
            f'<rect x="{_LEFT}" y="{top}" width="12" height="12" '
            f'fill="var(--c{number % NUM_COLORS})"/>'
            f'<text x="{_LEFT + 20}" y="{top + 11}">{_label(label)}</text>'
        )
    parts.append(
        f'<text x="{(_LEFT + right) / 2}" y="{_HEIGHT - 8}" text-anchor="middle">{_label(x)}</text>'
        f'<text transform="translate(14 {(_TOP + bottom) / 2}) rotate(-90)" '
        f'text-anchor="middle">{_label(y)}</text>'
    )
    return (
        f'<svg role="img" viewBox="0 0 {_WIDTH} {_HEIGHT + legend_height}" width="{_WIDTH}" '
        f'aria-label="{_label(title)}">' + "\n".join(parts) + "</svg>"
    )


def _can_be_drawn(value: float, is_log: bool) -> bool:
    return abs(value) < _LARGEST and (value > 0 or not is_log)


def _scale(
    values: Sequence[float], is_log: bool, first: float, last: float
) -> tuple[Callable[[float], float], list[float]]:
    """Return the position of a value on an axis, and the values of its ticks."""
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


def _number(value: float) -> str:
    return f"{value:,.6g}" if 1e-4 <= abs(value) < 1e7 or value == 0 else f"{value:.0e}"


def _label(text: str) -> str:
    text = printable(text)
    return html.escape(text if len(text) <= _LONGEST_LABEL else f"{text[: _LONGEST_LABEL - 1]}…")
