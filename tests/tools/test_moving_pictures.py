"""The moving pictures: their data, and what they show at each moment in a browser."""

import re
import xml.etree.ElementTree

import pytest

from cs336_basics.playground.learning import stages
from cs336_basics.tokenizer import merge_steps, visible
from tests.browser import NEEDS_CHROMIUM, chromium
from tests.tokenizer.examples import small_tokenizer
from tools.moving_pictures import DOCS, moving_merges, moving_race, run_races

PICTURES = ["playground-race.svg", "playground-merges.svg"]
TIMES = {"naive": [(0.01, 1), (1.0, 100)], "heap": [(0.001, 1), (0.1, 100)]}


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with chromium(tmp_path_factory.mktemp("profile")) as driver:
        yield driver


def texts(svg):
    root = xml.etree.ElementTree.fromstring(svg)
    return [element.text for element in root.iter() if element.tag.endswith("}text")]


def test_a_race_gives_the_points_of_all_stages():
    points = run_races(5, 2)
    assert list(points) == stages()
    assert {stage: of_stage[-1][1] for stage, of_stage in points.items()} == dict.fromkeys(
        stages(), 5
    )
    shown = texts(moving_race(points))
    for stage, of_stage in points.items():
        place = shown.index(stage)
        assert shown[place + 1] == f"5 merges in {of_stage[-1][0]:.3g} seconds"


def test_the_merges_are_those_of_the_tokenizer():
    tokenizer = small_tokenizer()
    (word,) = merge_steps(tokenizer, " theatre")
    shown = [text for text in texts(moving_merges(tokenizer, " theatre")) if " " not in text]
    rows = [list("·theatre"), ["bytes"], *([*map(visible, step.tokens)] for step in word.steps)]
    assert shown == [token for row in rows for token in row]


@pytest.mark.parametrize("name", PICTURES)
def test_a_tracked_picture_is_a_small_animation_that_can_be_switched_off(name):
    svg = (DOCS / name).read_text(encoding="utf-8")
    assert len(svg.encode()) < 60_000
    root = xml.etree.ElementTree.fromstring(svg)
    assert root.get("aria-label")
    assert not re.search("<script|<animate|href|on[a-z]+=", svg)
    assert svg.count("animation:") == 1
    assert re.search(r"prefers-reduced-motion: no-preference\) \{\s+\.moving \{ animation:", svg)


# Seconds, and which of the two stages have ended. Of 12 seconds, 7.8 pass from 1 ms to 1 s.
MOMENTS = [(0.1, []), (5.0, []), (5.6, ["heap"]), (7.7, ["heap"]), (8.2, ["naive", "heap"])]
SHOWN = """
const seen = getComputedStyle(document.querySelector('#seen rect'));
return [new DOMMatrix(seen.transform).a, [...document.querySelectorAll('text.moving')].filter(
  t => getComputedStyle(t).opacity === '1').map(t => t.previousSibling.textContent)]
"""


@NEEDS_CHROMIUM
def test_time_passes_in_the_race(browser, tmp_path):
    (tmp_path / "race.svg").write_text(moving_race(TIMES), encoding="utf-8")
    browser.get((tmp_path / "race.svg").as_uri())
    for seconds, ended in MOMENTS:
        browser.execute_script(
            "for (const one of document.getAnimations()) {"
            "  one.pause(); one.currentTime = 1000 * arguments[0]; }",
            seconds,
        )
        share, shown = browser.execute_script(SHOWN)
        assert shown == ended
        assert share == pytest.approx(min(1, seconds / 7.8), abs=1e-3)
    features = [{"name": "prefers-reduced-motion", "value": "reduce"}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    assert browser.execute_script("return document.getAnimations().length") == 0
    assert browser.execute_script(SHOWN) == [1, ["naive", "heap"]]
