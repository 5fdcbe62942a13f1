"""Test how rows decide whether costs grow."""

import random

import pytest

from tests.campaign import cost_rows
from tests.campaign.row import Case


@pytest.fixture
def check_twice(monkeypatch, tmp_path):
    """Return a function that checks a work of a given CPU time, and of given instructions."""

    def check(time_of_length, instructions=None):
        def count(case, lengths, told):
            assert instructions is not None, "instructions are counted"
            return [instructions(length) for length in lengths]

        monkeypatch.setattr(
            cost_rows, "_time_of", lambda work, text, times: time_of_length(len(text))
        )
        monkeypatch.setattr(cost_rows, "_instructions", count)
        case = Case(random.Random(0), tmp_path, ("encode", "one letter"))
        cost_rows._check_twice(case, 3, "13.0 times")
        return dict(case.notes)

    return check


def test_linear_cpu_time_is_enough(check_twice):
    notes = check_twice(lambda length: 5 * length)
    assert notes == {"13.0 times; twice the text: 2.0 times the CPU time": 1}


def test_instructions_decide_if_twice_the_text_takes_more_cpu_time(check_twice):
    notes = check_twice(lambda length: length**2, lambda length: 7 * length)
    assert notes == {"13.0 times; twice the text: 2.0 times the instructions": 1}
    with pytest.raises(AssertionError, match=r"4\.0 times the instructions"):
        check_twice(lambda length: length**2, lambda length: length**2)
