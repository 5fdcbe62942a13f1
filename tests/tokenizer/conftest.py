"""Fixtures: backends, and files for testing token files."""

from __future__ import annotations

import functools

import pytest

from cs336_basics.tokenizer import Tokenizer
from cs336_basics.tokenizer.encoders.backends import BACKENDS
from tests.tokenizer.examples import skip_unless_available, small_tokenizer
from tests.tokenizer.files.corpus_files import TEXT


@pytest.fixture
def source(tmp_path):
    """Return a file that contains TEXT."""
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


@pytest.fixture(scope="module", params=BACKENDS)
def any_backend(request):
    return skip_unless_available(request.param)


@pytest.fixture(scope="module")
def make(any_backend):
    """Return the `Tokenizer` constructor with one of the backends."""
    return functools.partial(Tokenizer, backend=any_backend)


@pytest.fixture(scope="module", params=["reference", "python"])
def make_incomplete(request):
    """Return the `Tokenizer` constructor with a backend that allows bytes without a token."""
    return functools.partial(Tokenizer, backend=request.param)


@pytest.fixture(scope="module")
def make_small(any_backend):
    """Return `small_tokenizer` with one of the backends."""
    return functools.partial(small_tokenizer, backend=any_backend)
