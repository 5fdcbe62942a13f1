"""Fixtures of the tests of token files."""

from __future__ import annotations

import pytest

from tests.tokenizer.examples import skip_unless_available
from tests.tokenizer.files.corpus_files import TEXT


@pytest.fixture
def source(tmp_path):
    """Return a file that holds TEXT."""
    path = tmp_path / "text.txt"
    path.write_bytes(TEXT)
    return path


@pytest.fixture
def out(tmp_path):
    """Return an empty directory."""
    directory = tmp_path / "out"
    directory.mkdir()
    return directory


@pytest.fixture(params=["native", "python"])
def backend(request):
    return skip_unless_available(request.param)
