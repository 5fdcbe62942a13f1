"""Fixtures for tests of complete runs."""

from __future__ import annotations

import pytest

from tests.commands.conftest import no_plots  # noqa: F401 -- a fixture
from tests.numerics import default_dtype
from tests.training.tiny_runs import make, outcome


@pytest.fixture(scope="package")
def uninterrupted(tmp_path_factory):
    """All files from an uninterrupted run of CONFIG."""
    return outcome_of_a_whole_run(tmp_path_factory.mktemp("whole"))


@pytest.fixture(scope="package")
def uninterrupted_in_float64(tmp_path_factory):
    """All files from an uninterrupted run of CONFIG in float64."""
    with default_dtype("float64"):
        return outcome_of_a_whole_run(tmp_path_factory.mktemp("whole"))


def outcome_of_a_whole_run(path):
    make(path).fit()
    return outcome(path)
