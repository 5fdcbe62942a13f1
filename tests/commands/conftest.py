from __future__ import annotations

import sys

import pytest

from tests.commands.small_run import TINY
from tests.data.datasets.web_server import server  # noqa: F401 -- a fixture
from tests.data.test_documents import TEXTS, plain
from tests.tokenizer.examples import small_tokenizer


@pytest.fixture(scope="package", autouse=True)
def no_plots():
    """Do not draw loss.png, which would take most of a tiny run's time."""
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
    """Write a one-second run's configuration to a new directory, and return the file's name."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny.yaml").write_text(TINY)
    return "tiny.yaml"


@pytest.fixture(autouse=True)
def threads():
    """Restore torch's number of threads, which commands change."""
    torch = sys.modules.get("torch")
    before = torch.get_num_threads() if torch else None
    yield
    if torch:
        torch.set_num_threads(before)


@pytest.fixture
def work(tmp_path, monkeypatch):
    """Enter a new directory with the tokenizers a and b and the corpus text.txt."""
    monkeypatch.chdir(tmp_path)
    small_tokenizer().save("a")
    small_tokenizer(pattern="cl100k").save("b")
    plain(tmp_path, TEXTS)
    return tmp_path
