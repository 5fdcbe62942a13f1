from __future__ import annotations

import pytest

from cs336_basics.__main__ import main
from tests.commands.small_run import TINY


@pytest.fixture(scope="package")
def run_path(tmp_path_factory):
    """Train a small model, and return the run directory."""
    pytest.importorskip("torch", reason="needs the torch extra")
    directory = tmp_path_factory.mktemp("run")
    (directory / "tiny.yaml").write_text(TINY)
    words = ["--config", str(directory / "tiny.yaml"), "--run-dir", str(directory / "run")]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("cs336_basics.training.trainer.plot_run", lambda run: None)
        assert main(["train", *words]) == 0
    return directory / "run"


@pytest.fixture(autouse=True)
def few_invented_words(monkeypatch):
    """Make races short."""
    monkeypatch.setattr("cs336_basics.playground.learning._WORDS", 500)
