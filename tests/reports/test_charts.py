"""Charts keep any points within the axes, and escape labels."""

import math
import re
from xml.etree import ElementTree

import pytest

from cs336_basics.reports.charts import chart


def numbers(svg, attribute):
    return [float(value) for value in re.findall(rf'\b{attribute}="(-?[\d.]+)"', svg)]


def drawn(points, **options):
    return chart({"a": points}, title="t", x="x", y="y", **options)


def test_points_are_in_order_and_within_the_axes():
    svg = drawn([(1, 10), (10, 1), (100, 0.1)], log="xy")
    (line,) = re.findall(r'points="([^"]+)"', svg)
    points = [tuple(map(float, point.split(","))) for point in line.split()]
    assert points == [(70, 16), (365, 154), (660, 292)]
    labels = [element.text for element in ElementTree.fromstring(svg).iter("text")]
    assert labels == ["1", "10", "100", "0.1", "1", "10", "x", "y"]


def test_a_line_of_one_point_is_a_dot():
    svg = chart({"a": [(1, 1), (2, 2)], "b": [(1.5, 1.5)]}, title="t", x="x", y="y")
    assert len(re.findall("<polyline", svg)) == len(re.findall("<circle", svg)) == 1


@pytest.mark.parametrize(
    "points",
    [
        [(0, 0)],
        [(1, 1), (1, 1)],
        [(5, 2.0), (5, 2.0000000000000004)],
        [(0, 5e-324), (1, 0)],
        [(-1e14, 1e14), (1e14, -1e14)],
        [(i, i % 7) for i in range(1000)],
    ],
)
@pytest.mark.parametrize("lines", [True, False])
def test_any_points_have_a_few_ticks_and_stay_within_the_picture(points, lines):
    svg = drawn(points, lines=lines)
    root = ElementTree.fromstring(svg)
    assert 2 <= len(list(root.iter("path"))) <= 20
    placed = [
        float(v) for line in re.findall(r'points="([^"]+)"', svg) for v in re.split("[ ,]", line)
    ]
    placed += numbers(svg, "cx") + numbers(svg, "cy")
    assert all(0 <= value <= 680 for value in placed)
    assert lines or len(list(root.iter("circle"))) == len(points)


def test_points_that_cannot_be_drawn_are_left_out():
    assert drawn([]) == ""
    assert drawn([(math.nan, 1), (1, math.inf), (1e300, 1)]) == ""
    assert drawn([(0, 1), (1, -1)], log="xy") == ""
    assert drawn([(0, 1), (1, 2)], log="x") != ""


def test_labels_are_escaped_and_shortened():
    svg = chart({"<b>&": [(1, 1)], "x" * 100: [(2, 2)]}, title='"<', x="<", y="&")
    texts = [element.text for element in ElementTree.fromstring(svg).iter("text")]
    assert texts[-4:] == ["<b>&", "x" * 59 + "…", "<", "&"]
