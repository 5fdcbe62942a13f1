from __future__ import annotations

import sys

import pytest

from tests.commands.small_run import TINY
from tests.datasets.web_server import server  # noqa: F401 -- a fixture


@pytest.fixture
def tiny(tmp_path, monkeypatch):
    """The configuration of a run that takes a second; runs go below the current directory."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny.yaml").write_text(TINY)
    return "tiny.yaml"


@pytest.fixture(autouse=True)
def threads():
    """Restore the number of torch's threads, which commands set."""
    torch = sys.modules.get("torch")
    before = torch.get_num_threads() if torch else None
    yield
    if torch:
        torch.set_num_threads(before)
