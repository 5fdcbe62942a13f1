"""The moving pictures show the points of a race and the merges of a word."""

import xml.etree.ElementTree

from cs336_basics.playground.learning import STAGES
from cs336_basics.tokenizer import merge_steps, visible
from tests.tokenizer.examples import small_tokenizer
from tools.moving_pictures import moving_merges, moving_race, run_races


def texts(svg):
    root = xml.etree.ElementTree.fromstring(svg)
    return [element.text for element in root.iter() if element.tag.endswith("}text")]


def test_a_race_gives_the_points_of_all_stages():
    points = run_races(5, 2)
    assert list(points) == STAGES
    assert {stage: of_stage[-1][1] for stage, of_stage in points.items()} == dict.fromkeys(
        STAGES, 5
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
