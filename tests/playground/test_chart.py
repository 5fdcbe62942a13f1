"""The page's chart, drawn by Node.js in a document that only records its elements."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

import cs336_basics

pytestmark = pytest.mark.skipif(shutil.which("node") is None, reason="needs Node.js")

PAGE = Path(cs336_basics.__file__).parent / "playground" / "page"
SCRIPT = """
const drawn = [];
globalThis.document = {
  createElementNS: (_, name) => {
    const element = { name, attributes: {}, append() {},
      setAttribute: (key, value) => { element.attributes[key] = String(value); } };
    drawn.push(element);
    return element;
  },
};
const parent = { clientWidth: 800, replaceChildren() {} };
const { drawChart } = await import("./chart.js");
const series = [[%s]];
drawChart(parent, series, { x: "x", y: "y", description: "a chart" });
console.log(JSON.stringify(drawn));
"""


def drawn(folder, points):
    """Return the elements of the chart of these points, given as JavaScript."""
    for name in ("chart.js", "common.js"):
        shutil.copy(PAGE / name, folder)
    (folder / "package.json").write_text('{"type": "module"}')
    (folder / "draw.js").write_text(SCRIPT % points)
    done = subprocess.run(
        ["node", "draw.js"], cwd=folder, capture_output=True, text=True, timeout=30, check=True
    )
    return json.loads(done.stdout)


def line(elements):
    return next(e for e in elements if e["name"] == "polyline")["attributes"]["points"].split()


@pytest.mark.parametrize(
    "points",
    [
        "[1, 1e16], [2, 1e16 + 2], [3, 1], [4, 1.0000000000000002]",
        "[1, 9e14], [2, 9e14 + 0.125]",
        "[1, NaN], [2, Infinity], [3, -Infinity], [4, 2]",
        "[1, 2], [2, 1e308], [3, -1e308]",
    ],
)
def test_extreme_points_neither_hang_nor_spoil_the_chart(tmp_path, points):
    elements = drawn(tmp_path, points)
    assert len(elements) < 100
    assert line(elements)
    values = [v for element in elements for v in element["attributes"].values()]
    assert not any("NaN" in value or "Infinity" in value for value in values)


@pytest.mark.parametrize("points", ["[1, 1e16], [2, 1e16 + 2]", "[1e16, 1], [1e16 + 2, 2]", ""])
def test_there_is_no_chart_without_points_that_can_be_drawn(tmp_path, points):
    assert drawn(tmp_path, points) == []


def test_ticks_are_round_numbers_across_the_range(tmp_path):
    elements = drawn(tmp_path, "[0, 1.5], [10, 3.5]")
    rows = [e["attributes"] for e in elements if e["name"] == "line"]
    assert len([row for row in rows if row["x1"] == row["x2"]]) == 6  # 0, 2, ..., 10
    assert len([row for row in rows if row["y1"] == row["y2"]]) == 5  # 1.5, 2, ..., 3.5
