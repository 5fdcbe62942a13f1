"""Draw the moving pictures of the documentation: `python -m tools.moving_pictures`.

They are SVG files with CSS animations, which GitHub and the site show as images. Without animation,
or if the reader's system asks for reduced motion, they show the last frame.
"""

from __future__ import annotations

import html
import itertools
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cs336_basics.checkpoints.run_dir import thinned
from cs336_basics.data.datasets import sample_documents
from cs336_basics.playground.answers import sample_tokenizer
from cs336_basics.playground.learning import race, stages
from cs336_basics.playground.texts import MOST_TEXT
from cs336_basics.reports.charts import Points, chart
from cs336_basics.reports.page import COLORS, NUM_COLORS
from cs336_basics.tokenizer import Tokenizer, merge_steps, visible

DOCS = Path(__file__).parents[1] / "docs"

_SECONDS = 12
_MOVING = 65  # percent of the duration; then the last frame is held
_STYLE = """<style>
{colors}
svg {{ font: 15px system-ui, sans-serif; }} text {{ fill: var(--text); }}
.back {{ fill: var(--back); }} .grid {{ stroke: var(--line); }}
.line {{ fill: none; stroke-width: 2.5; clip-path: url(#seen); }}
.now {{ stroke: var(--dim); opacity: 0; }}
.token {{ stroke: var(--dim); }} .symbol {{ font: 18px ui-monospace, monospace; }}
@media (prefers-reduced-motion: no-preference) {{
  .moving {{ animation: {seconds}s linear infinite; }}
}}
{keyframes}
</style>"""


def moving_race(points: Mapping[str, Points]) -> str:
    """Return an animated chart of merges against seconds, with time on a logarithmic scale.

    Args:
        points: Mapping of stage -> pairs of seconds and merges, in order.
    """
    ends = {stage: of_stage[-1] for stage, of_stage in points.items()}
    first = min(of_stage[0][0] for of_stage in points.values())
    last = max(seconds for seconds, _ in ends.values())
    said = {
        stage: f"{merges:,} merges in {seconds:.3g} seconds"
        for stage, (seconds, merges) in ends.items()
    }
    title = "A race of the trainers: merges against seconds"
    svg = chart(points, title=title, x="seconds (logarithmic)", y="merges", log="x")
    drawn = [
        (float(x), float(y)) for x, y in re.findall(r"([\d.]+),([\d.]+)", " ".join(_lines(svg)))
    ]
    left, right = min(x for x, _ in drawn), max(x for x, _ in drawn)
    top, bottom = min(y for _, y in drawn), max(y for _, y in drawn)
    keyframes = [
        f"@keyframes see {{ 0% {{ transform: scaleX(0); }} {_MOVING}% {{ transform: none; }} }}",
        f"@keyframes now {{ 0% {{ opacity: 1; }} {_MOVING}% {{ opacity: 1; "
        f"transform: translateX({right - left}px); }} {_MOVING + 1}% {{ opacity: 0; }} }}",
    ]
    for stage, (seconds, _) in ends.items():
        keyframes.append(_appear(stage, math.log(seconds / first) / math.log(last / first)))
        svg = re.sub(  # beside the legend
            rf'(<text x="90" (y="\d+")>{stage}</text>)',
            rf'\1<text class="moving" style="animation-name: {stage}" x="200" \2>'
            f"{said[stage]}</text>",
            svg,
        )
    # Translate the origin to the rectangle's corner, from which the rectangle is scaled. Firefox
    # ignores `transform-box` in a clip path.
    moving = (
        f'<clipPath id="seen" transform="translate({left - 2} {top - 2})"><rect class="moving" '
        f'style="animation-name: see" width="{right - left + 4}" height="{bottom - top + 4}"/>'
        f'</clipPath><path class="now moving" style="animation-name: now" '
        f'd="M{left} {top}V{bottom}"/>'
    )
    return _svg(svg, keyframes, moving)


def moving_merges(tokenizer: Tokenizer, word: str) -> str:
    """Return a drawing of the tokens of a word after each merge, one row below the other."""
    (merged,) = merge_steps(tokenizer, word)
    rows: list[tuple[Sequence[bytes], int | None, str]] = [
        ([bytes([byte]) for byte in word.encode()], None, "bytes")
    ]
    for step in merged.steps:
        left, right = map(visible, tokenizer.merges[step.rank])
        rows.append((step.tokens, step.position, f"rank {step.rank:,}: {left} + {right}"))
    rows[-1] = (*rows[-1][:2], f"{rows[-1][2]}, id {merged.ids[0]:,}")
    parts, keyframes = [], []
    size, height = 36, 44
    for index, (tokens, new, text) in enumerate(rows):
        keyframes.append(_appear(f"row{index}", index / (len(rows) - 1)))
        row = f'<g class="{"moving" * (index > 0)}" style="animation-name: row{index}">'
        start = 0
        for place, token in enumerate(tokens):
            x, width = 10 + size * start, size * len(token) - 6
            color = f"var(--t{start % NUM_COLORS})"
            line = 3 if place == new else 0
            row += (
                f'<rect class="token" x="{x}" y="{10 + height * index}" width="{width}" rx="4" '
                f'height="{height - 10}" stroke-width="{line}" style="fill: {color}"/>'
                f'<text class="symbol" x="{x + width / 2}" y="{33 + height * index}" '
                f'text-anchor="middle">{html.escape(visible(token))}</text>'
            )
            start += len(token)
        x = 20 + size * len(word.encode())
        parts.append(f'{row}<text x="{x}" y="{33 + height * index}">{html.escape(text)}</text></g>')
    title = f"The merges of {visible(word.encode())}: " + "; ".join(text for *_, text in rows[1:])
    svg = (
        f'<svg role="img" viewBox="0 0 680 {10 + height * len(rows)}" width="680" '
        f'aria-label="{html.escape(title)}">' + "\n".join(parts) + "</svg>"
    )
    return _svg(svg, keyframes, "")


def _lines(svg: str) -> list[str]:
    return re.findall(r'<polyline [^>]*points="([^"]*)"', svg)


def _appear(name: str, share: float) -> str:
    """Return keyframes of an element that appears when a share of the motion is over."""
    at = _MOVING * share
    return (
        f"@keyframes {name} {{ 0%, {at:.1f}% {{ opacity: 0; }} {at + 1.5:.1f}% {{ opacity: 1; }} }}"
    )


def _svg(svg: str, keyframes: Sequence[str], moving: str) -> str:
    """Return the content of an SVG file for an SVG element of a page."""
    style = _STYLE.format(colors=COLORS, seconds=_SECONDS, keyframes="\n".join(keyframes))
    start, end = svg.split(">", 1)
    start = start.replace("<svg", '<svg xmlns="http://www.w3.org/2000/svg"')
    back = '<rect class="back" width="100%" height="100%" rx="6"/>'
    return f"{start}>\n{style}\n{back}\n{moving}\n{end}\n"


def run_races(merges: int, times: int) -> dict[str, Points]:
    """Run several races on the sample corpus, and return the points of each stage's fastest one."""
    text = "\n".join(itertools.islice(sample_documents(), 1000))[:MOST_TEXT]
    races = []
    for _ in range(times):
        points: dict[str, list[tuple[float, float]]] = {stage: [] for stage in stages()}
        rows: list[dict[str, Any]] = []
        race({"text": text, "merges": merges, "seconds": 60}, rows.append)
        for row in rows:
            points[row["stage"]] += [(point["seconds"], point["merges"]) for point in row["points"]]
        races.append(points)
    return {
        stage: thinned(min((points[stage] for points in races), key=lambda p: p[-1]), 300)
        for stage in stages()
    }


if __name__ == "__main__":
    pictures = {
        "playground-race.svg": moving_race(run_races(2000, 3)),
        "playground-merges.svg": moving_merges(sample_tokenizer(), " whispered"),
    }
    for name, picture in pictures.items():
        (DOCS / name).write_text(picture, encoding="utf-8")
        print(f"{DOCS / name}: {len(picture):,} characters")
