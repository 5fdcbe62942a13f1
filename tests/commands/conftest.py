from __future__ import annotations

import sys

import pytest

from tests.commands.small_run import TINY
from tests.data.datasets.web_server import server  # noqa: F401 -- a fixture


@pytest.fixture(scope="package", autouse=True)
def no_plots():
    """Runs of this process draw no loss.png: that takes most of a tiny run's time."""
    try:
        from cs336_basics.training import trainer
    except ImportError:  # torch is missing
        yield
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trainer, "plot_run", lambda run: None)
        yield


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
