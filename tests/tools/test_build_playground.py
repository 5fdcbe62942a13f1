"""In a browser, where Pyodide runs the library, the playground gives the same answers as Python."""

import functools
import http.server
import os
import threading
import urllib.parse
from pathlib import Path

import pytest

from cs336_basics.bpe import TRAINERS
from cs336_basics.playground.answers import sample_tokenizer
from cs336_basics.tokenizer import merge_steps, visible
from tests.bpe.trainers import PYTHON_TRAINERS
from tests.browser import NEEDS_CHROMIUM, chromium, problems_on_devices
from tests.processes import wait
from tools.build_playground import ROOT, build_playground

PYODIDE = Path(os.environ.get("CS336_PYODIDE", ROOT / "build" / "pyodide"))
START = 120
"""Seconds that Python may take to load on a busy machine."""

pytestmark = [
    NEEDS_CHROMIUM,
    pytest.mark.skipif(
        not (PYODIDE / "pyodide.mjs").is_file(),
        reason="needs Pyodide's files in build/pyodide; `make site` fetches them",
    ),
]


class Handler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *arguments):
        pass


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    directory = tmp_path_factory.mktemp("site") / "playground"
    build_playground(directory, PYODIDE)
    handler = functools.partial(Handler, directory=directory)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@pytest.fixture(scope="module")
def browser(address, tmp_path_factory):
    """Yield a browser that shows the page and has loaded Python."""
    with chromium(tmp_path_factory.mktemp("profile")) as driver:
        driver.get(address)
        wait(lambda: tokens(driver), START)
        yield driver
        rows = [row["message"] for row in driver.get_log("browser") if row["level"] == "SEVERE"]
        assert rows == []


def run(browser, script):
    return browser.execute_script(f"return {script}")


def texts(browser, selector):
    return run(browser, f"[...document.querySelectorAll('{selector}')].map(e => e.innerText)")


def tokens(browser):
    return texts(browser, "#tokens-a li")


def text(browser, identifier):
    return run(browser, f"document.getElementById('{identifier}').textContent")


def show(browser, view, **values):
    """Open a view and set its controls, without reloading the page."""
    run(browser, f"location.hash = '#{urllib.parse.urlencode({'view': view, **values})}'")


def press(browser, selector):
    run(browser, f"document.querySelector('{selector}').click()")


def test_tokens_equal_encode(browser):
    typed = "The naïve cat's 1234 hats. 猫 <b>"
    show(browser, "text", text=typed)
    tokenizer = sample_tokenizer()
    expected = [visible(tokenizer.vocab[token_id]) for token_id in tokenizer.encode(typed)]
    wait(lambda: tokens(browser) == expected)
    assert not run(browser, "document.getElementById('run')")  # there are no runs


def test_merges_equal_those_of_the_tokenizer(browser):
    show(browser, "merges", word=" little")
    (word,) = merge_steps(sample_tokenizer(), " little")
    ranks = [f"{step.rank:,}" for step in word.steps]
    wait(lambda: [row.split()[1] for row in texts(browser, "#merge-table tr")] == ranks)


def test_a_training_is_watched(browser):
    words = "low low lower widest newest newest"
    _, merges = TRAINERS["heap"]().train_from_iterator([words], 260, [])
    left, right = map(visible, merges[1])
    show(browser, "training", text=words, stage="incremental", step=2)
    wait(lambda: f"Merged ({left}, {right})." in text(browser, "training-now"))


@pytest.mark.parametrize("view", ["text", "merges", "training", "race"])
def test_a_view_is_readable_on_a_phone_and_in_the_dark(browser, view):
    show(browser, view, text="low naïve 猫 lower<|endoftext|>", step=2, merges=3)
    if view == "race":
        press(browser, "#race-start")
        wait(lambda: "same merges" in text(browser, "race-now"), START)
    wait(lambda: texts(browser, f"#{view} :is(li .token, td .token, td .swatch)"))
    assert problems_on_devices(browser) == {}


def test_the_stages_race_in_python_and_can_be_stopped(browser):
    show(browser, "race", merges=30, seconds=30, text="the cat sat on the mat " * 50)
    press(browser, "#race-start")
    wait(lambda: "All stages learned the same merges" in text(browser, "race-now"), START)
    assert [row.split()[0] for row in texts(browser, "#race-table tr")] == PYTHON_TRAINERS
    show(browser, "race", merges=5000, seconds=60, text="")
    press(browser, "#race-start")
    wait(lambda: run(browser, "document.querySelector('#race-chart polyline')") is not None, START)
    press(browser, "#race-stop")
    wait(lambda: text(browser, "race-now") == "Stopped.")
    show(browser, "text", text="Once")  # Python starts again
    wait(lambda: "".join(tokens(browser)) == "Once", START)


def test_mistakes_are_reported(browser):
    show(browser, "training", text="x" * 2001)
    wait(lambda: "2,000 characters" in text(browser, "error"))


def test_everything_comes_from_the_own_server(browser, address):
    loaded = run(browser, "performance.getEntriesByType('resource').map(entry => entry.name)")
    assert any(name.endswith("main.js") for name in loaded)
    assert [name for name in loaded if not name.startswith((address, "data:"))] == []
