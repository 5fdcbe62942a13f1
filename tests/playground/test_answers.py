"""Answers without a server, compared with the results of the underlying functions."""

import json

import pytest

from cs336_basics.playground.answers import answer, make_answers
from cs336_basics.playground.learning import stages, watch
from tests.bpe.trainers import PYTHON_TRAINERS
from tests.processes import run_python
from tests.test_package import EXTENSION_NAMES

pytestmark = pytest.mark.filterwarnings("ignore:no pair was left:UserWarning")


@pytest.fixture(scope="module")
def answers():
    return make_answers()


def ask(answers, name, body, rows=None):
    return json.loads(answer(answers, name, json.dumps(body), lambda row: rows.append(row)))


def test_answers_are_those_of_the_functions(answers):
    start = ask(answers, "start", {})
    assert start["stages"] == [*start["read_units"]] == stages()
    asked = {"text": "low lower"}
    for name in ("tokens", "parts"):
        assert ask(answers, name, asked) == answers.whole[name](asked)
    assert ask(answers, "watch", asked) == json.loads(json.dumps(watch(asked)))


def test_wrong_requests_are_errors(answers):
    assert "text is required" in ask(answers, "tokens", {})["error"]
    assert "surrogate" in ask(answers, "tokens", {"text": "\ud800"})["error"]
    assert "merges must" in ask(answers, "race", {"merges": 0})["error"]


def test_the_race_runs_in_this_thread_and_emits_its_rows(answers):
    rows = []
    assert ask(answers, "race", {"merges": 20, "seconds": 30}, rows) == {}
    rows = [json.loads(row) for row in rows]
    assert [row["stage"] for row in rows if row["ended"]] == stages()
    points = [(row["stage"], p["merges"]) for row in rows for p in row["points"]]
    assert {(stage, 20) for stage in stages()} <= set(points)


ALL_ANSWERS = """
from cs336_basics.playground.answers import answer, make_answers
answers = make_answers()
for name, body in (
    ("start", "{}"), ("tokens", '{"text": "a naïve 猫 12"}'), ("merges", '{"text": " little"}'),
    ("parts", '{"text": "a naïve 猫 12"}'),
    ("watch", '{"text": "low lower"}'), ("race", '{"merges": 5, "text": "low lower newest"}'),
):
    print(answer(answers, name, body, lambda row: None))
"""


def test_the_answers_need_no_other_package():
    packages = ("numpy", "regex", "tqdm", "yaml", "loky", "requests", "starlette", "torch")
    missing = (*packages, *EXTENSION_NAMES)
    run = run_python(ALL_ANSWERS, missing=missing, PYTHONWARNINGS="ignore")
    found = [json.loads(line) for line in run.stdout.splitlines()]
    assert found[0]["stages"] == PYTHON_TRAINERS
    assert [answer for answer in found if "error" in answer] == []
    assert found[1]["num_characters"] == 12
    assert len(found) == 6
