"""The rows of a campaign share its time."""

import time

import pytest

from tests.campaign.row import Row
from tests.campaign.schedule import Schedule


def row(name, share, cases=None):
    return Row(name, lambda case: 1, "things", cases, share=share)


def test_finite_rows_come_first_and_short_ones_before_long_ones():
    rows = [row("a", 1), row("b", 3, list), row("c", 0.5), row("d", 2, list)]
    schedule = Schedule(rows, time.monotonic() + 100, 1)
    order = []
    while found := schedule.next():
        order.append(found[0].name)
    assert order == ["d", "b", "c", "a"]


def test_a_row_gets_its_share_of_the_time_that_is_left():
    rows = [row("a", 1), row("b", 2), row("c", 3)]
    schedule = Schedule(rows, time.monotonic() + 600, 1)
    for name, seconds in [("a", 100), ("b", 240), ("c", 600)]:  # the others finish at once
        found, given = schedule.next()
        assert found.name == name
        assert given == pytest.approx(seconds, abs=1)
        schedule.finished(found)
    assert schedule.next() is None


def test_rows_at_the_same_time_share_the_time_of_all_cores():
    rows = [row("a", 1), row("b", 1), row("c", 2)]
    schedule = Schedule(rows, time.monotonic() + 600, 2)
    given = [schedule.next()[1] for _ in rows]
    # The last row cannot take longer than the campaign.
    assert given == pytest.approx([300, 300, 600], abs=1)


def test_nothing_is_left_after_the_end():
    schedule = Schedule([row("a", 1)], time.monotonic() - 5, 2)
    assert schedule.next()[1] == 0
