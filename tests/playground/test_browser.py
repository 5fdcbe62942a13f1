"""The page in headless Chromium: typing, colors, links, keyboard, narrow windows and dark mode."""

import functools
import io
import itertools
import os
import time
import urllib.parse
from pathlib import Path

import pytest

pytest.importorskip("starlette", reason="needs the playground extra")
pytest.importorskip("uvicorn", reason="needs the playground extra")
torch = pytest.importorskip("torch", reason="needs the torch extra")
webdriver = pytest.importorskip("selenium.webdriver", reason="needs selenium")

from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402

from cs336_basics.bpe import TRAINERS  # noqa: E402
from cs336_basics.playground.answers import make_answers  # noqa: E402
from cs336_basics.playground.learning import stages  # noqa: E402
from cs336_basics.tokenizer import Tokenizer, merge_steps, parts_of, visible  # noqa: E402
from cs336_basics.tokenizer.description import described_parts  # noqa: E402
from cs336_basics.training.load_run import load_run  # noqa: E402
from tests.browser import NEEDS_CHROMIUM, chromium, problems_on_devices  # noqa: E402
from tests.playground.test_server import running  # noqa: E402
from tests.processes import wait  # noqa: E402
from tests.tokenizer.examples import small_tokenizer  # noqa: E402

pytestmark = [
    NEEDS_CHROMIUM,
    pytest.mark.filterwarnings("ignore:no pair was left:UserWarning"),
]
SCREENSHOTS = os.environ.get("CS336_SCREENSHOTS")
"""Directory for screenshots of the views, or None to save none."""


@pytest.fixture(scope="module")
def address(tmp_path_factory, run_path):
    directory = tmp_path_factory.mktemp("tokenizers")
    small_tokenizer().save(directory / "a")
    vocab, merges = small_tokenizer().vocab, small_tokenizer().merges
    fewer = merges[:60]
    made = {left + right for left, right in fewer}
    vocab = {i: token for i, token in vocab.items() if len(token) == 1 or token in made}
    Tokenizer(vocab, fewer, ["<|endoftext|>"]).save(directory / "b")
    tokenizers = [str(directory / "a"), str(directory / "b")]
    with running(make_answers(tokenizers, [str(run_path)])) as address:
        yield address


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with chromium(tmp_path_factory.mktemp("profile")) as driver:
        yield driver


def open_view(browser, address, view, **values):
    """Open a view and set its controls."""
    browser.get("about:blank")
    browser.get(f"{address}#{urllib.parse.urlencode({'view': view, **values})}")
    wait(lambda: browser.find_elements(By.CSS_SELECTOR, f"#tab-{view}[aria-selected=true]"))
    return browser


@pytest.fixture
def page(browser, address):
    """Return a function that opens a view and sets its controls."""
    yield functools.partial(open_view, browser, address)
    complaints = [row["message"] for row in browser.get_log("browser") if row["level"] == "SEVERE"]
    assert complaints == []


def run(browser, script):
    return browser.execute_script(f"return {script}")


def shown_tokens(browser, side="a"):
    return run(
        browser, f"[...document.querySelectorAll('#tokens-{side} li')].map(i => i.innerText)"
    )


def picture(browser, name):
    if SCREENSHOTS:
        browser.save_screenshot(f"{SCREENSHOTS}/{name}.png")


def visible_tokens(tokenizer, text):
    return [visible(tokenizer.vocab[token_id]) for token_id in tokenizer.encode(text)]


def put(browser, selector, text):
    """Replace the text of a control, as pasting does."""
    field = browser.find_element(By.CSS_SELECTOR, selector)
    script = (
        "const [f, t] = arguments; f.value = t;f.dispatchEvent(new Event('input', {bubbles: true}))"
    )
    browser.execute_script(script, field, text)


def test_tokens_follow_the_typing_and_equal_encode(page):
    browser = page("text", text="")
    field = browser.find_element(By.CSS_SELECTOR, "#text textarea")
    typed = "the cat's <b>naïve</b> 12"
    for character in typed:
        field.send_keys(character)
    tokenizer = small_tokenizer()
    expected = visible_tokens(tokenizer, typed)
    wait(lambda: shown_tokens(browser) == expected)
    counts = browser.find_element(By.ID, "counts-a").text
    assert counts.startswith(f"{len(expected)} tokens, {len(typed)} characters")
    titles = run(browser, "[...document.querySelectorAll('#tokens-a li')].map(i => i.title)")
    assert [int(title.split("\nid ")[1].split("\n")[0]) for title in titles] == (
        tokenizer.encode(typed)
    )


def test_neighbors_have_different_colors_and_special_tokens_their_own(page):
    browser = page("text", text="the theatre gathers<|endoftext|>others hahaha")
    wait(lambda: len(shown_tokens(browser)) > 5)
    colors = run(
        browser,
        "[...document.querySelectorAll('#tokens-a .token')]"
        ".map(t => getComputedStyle(t).backgroundColor)",
    )
    assert all(left != right for left, right in itertools.pairwise(colors))
    place = shown_tokens(browser).index("<|endoftext|>")
    assert colors.count(colors[place]) == 1


def test_blanks_lines_bytes_and_script_tags_are_text(page):
    text = "a\t b\n<script>document.title='x'</script><img src=x onerror=alert(1)>\u202e猫\r\n\0"
    browser = page("text", text=text)
    typed = text.replace("\r\n", "\n")  # text areas do the same
    expected = visible_tokens(small_tokenizer(), typed)
    wait(lambda: [token.replace("\n", "") for token in shown_tokens(browser)] == expected)
    assert browser.title == "Playground"
    assert run(browser, "document.querySelectorAll('main script, main img').length") == 0


def test_differing_boundaries_of_two_tokenizers_are_marked(page):
    browser = page("text", text="the naïve theatre, déjà vu", a=0, b=1)
    wait(lambda: shown_tokens(browser, "b"))
    count = "document.querySelectorAll('#tokens-{} .differs').length"
    sizes = {side: len(shown_tokens(browser, side)) for side in "ab"}
    assert sizes["b"] > sizes["a"]
    # Tokenizer b has only a's first merges, so b cuts the text wherever a does.
    assert run(browser, count.format("a")) == 0
    assert run(browser, count.format("b")) == sizes["b"] - sizes["a"]
    picture(browser, "text-two")


def test_ids_and_bytes_can_be_shown(page):
    browser = page("text", text="the 猫", b="")
    wait(lambda: shown_tokens(browser))
    assert not browser.find_element(By.ID, "second").is_displayed()
    for name in ("ids", "bytes"):
        browser.find_element(By.CSS_SELECTOR, f"#text [name={name}]").click()
    ids = small_tokenizer().encode("the 猫")
    notes = "[...document.querySelectorAll('#tokens-a .note')].map(n => n.innerText)"
    wait(lambda: len(run(browser, notes)) == 2 * len(ids))
    assert run(browser, notes)[0] == str(ids[0])
    assert run(browser, notes)[1].startswith("74")


def test_what_each_part_does_is_a_table(page):
    browser = page("text", text="the theatre<|endoftext|> e\u0301", b="", parts=1)
    table = "[...document.querySelectorAll('#parts-a tbody tr')].map(r => r.innerText)"
    rows = wait(lambda: run(browser, table))
    parts = parts_of(small_tokenizer(), "the theatre<|endoftext|> e\u0301")
    assert [row.split("\t")[1] for row in rows] == [part.part for part in parts]
    assert rows[0].split("\t")[0] == "0 \u2013 3"
    names = "[...document.querySelectorAll('#parts-a dt')].map(d => d.innerText)"
    assert run(browser, names) == [*described_parts(small_tokenizer().definition)]
    picture(browser, "text-parts")
    browser.find_element(By.CSS_SELECTOR, "#text [name=parts]").click()
    wait(lambda: not browser.find_element(By.ID, "parts-a").is_displayed())


@pytest.mark.slow
def test_ten_megabytes_are_refused_with_a_message(page):
    browser = page("text", text="")
    put(browser, "#text textarea", "x" * 10_000_000)
    error = browser.find_element(By.ID, "error")
    wait(lambda: "10,000,000" in error.text)
    put(browser, "#text textarea", "the")
    wait(lambda: not error.is_displayed())


def test_merges_step_forward_back_and_play(page):
    browser = page("merges", word=" theatre")
    tokenizer = small_tokenizer()
    (word,) = merge_steps(tokenizer, " theatre")
    symbols = "[...document.querySelectorAll('#merge-symbols li')].map(i => i.innerText)"
    wait(lambda: run(browser, symbols) == [*"·theatre"])
    rows = browser.find_elements(By.CSS_SELECTOR, "#merge-table tr")
    assert [row.text.split()[1] for row in rows] == [str(step.rank) for step in word.steps]

    def press(name):
        browser.find_element(By.CSS_SELECTOR, f"#merges [data-go={name}]").click()

    for step in word.steps:
        press("forward")
        assert run(browser, symbols) == [visible(token) for token in step.tokens]
        assert f"rank {step.rank}:" in browser.find_element(By.ID, "merge-now").text
    assert str(word.ids[0]) in browser.find_element(By.ID, "merge-now").text
    press("back")
    assert run(browser, symbols) == [visible(token) for token in word.steps[-2].tokens]
    picture(browser, "merges")
    press("first")
    press("play")
    wait(lambda: run(browser, symbols) == [visible(token) for token in word.steps[0].tokens])
    press("last")
    assert run(browser, symbols) == [visible(token) for token in word.steps[-1].tokens]


def test_a_training_is_watched_step_by_step(page):
    text = "low low lower widest newest newest"
    browser = page("training", text=text, stage="heap", step=2)
    _, merges = TRAINERS["heap"]().train_from_iterator([text], 300, [])
    shown = [f"({visible(left)}, {visible(right)})" for left, right in merges]

    def status():
        return browser.find_element(By.ID, "training-now").text

    wait(lambda: f"Merged {shown[1]}. Next: {shown[2]}" in status())
    browser.find_element(By.CSS_SELECTOR, "#training [data-go=forward]").click()
    wait(lambda: f"Merged {shown[2]}. Next: {shown[3]}" in status())
    assert "heap entries" in browser.find_element(By.ID, "training-work").text
    assert len(browser.find_elements(By.CSS_SELECTOR, "#training-words .now")) >= 1
    bars = browser.find_elements(By.CSS_SELECTOR, "#training-pairs .bar")
    widths = [bar.size["width"] for bar in bars]
    assert widths == sorted(widths, reverse=True)
    assert widths[0] > 0
    browser.find_element(By.CSS_SELECTOR, "#training summary").click()
    assert "in the heap" in browser.find_element(By.ID, "drawing").text
    picture(browser, "training")
    browser.find_element(By.CSS_SELECTOR, "#training [data-go=last]").click()
    wait(lambda: f"Merged {shown[-1]}. No pair is left." in status())


def test_the_stages_race_and_can_be_stopped(page):
    browser = page("race", merges=40, seconds=30)
    start, stop = (browser.find_element(By.ID, f"race-{name}") for name in ("start", "stop"))
    start.click()
    now = browser.find_element(By.ID, "race-now")
    wait(lambda: now.text == "Finished. All stages learned the same merges.")
    rows = browser.find_elements(By.CSS_SELECTOR, "#race-table tr")
    assert [row.text.split()[:2] for row in rows] == [[stage, "40"] for stage in stages()]
    assert len(browser.find_elements(By.CSS_SELECTOR, "#race-chart polyline")) == len(stages())
    picture(browser, "race")
    put(browser, "#race [name=merges]", "5000")
    start.click()
    wait(lambda: "naive" in now.text)
    assert not start.is_enabled()
    stop.click()
    wait(lambda: now.text == "Stopped.")
    assert start.is_enabled()


def test_a_run_shows_its_losses_and_samples(page, run_path):
    browser = page("run")
    wait(lambda: browser.find_elements(By.CSS_SELECTOR, "#run-chart polyline"))
    assert "at step 12" in browser.find_element(By.ID, "run-now").text
    titles = browser.find_elements(By.CSS_SELECTOR, "#samples h3")
    names = sorted((file.stem for file in (run_path / "samples").iterdir()), reverse=True)
    assert [title.text for title in titles] == [f"Step {int(name[5:])}" for name in names]


def test_a_series_of_one_point_is_drawn_as_a_dot(page):
    """A line of one point would be invisible."""
    browser = page("race")
    points, cap = browser.execute_async_script("""
        const done = arguments[0];
        import(new URL("chart.js", document.querySelector("script[src]").src)).then((chart) => {
          const parent = document.querySelector("#race-chart");
          chart.drawChart(parent, [[[1, 1], [3, 3]], [[2, 2]]],
            { x: "x", y: "y", description: "two series" });
          const dot = parent.querySelectorAll("polyline")[1];
          done([dot.getAttribute("points"), getComputedStyle(dot).strokeLinecap]);
        });
    """)
    first, second = points.split()
    assert first == second
    assert cap == "round"


def test_a_model_generates_and_can_be_stopped(page, run_path):
    browser = page("model", text="Once", seed=5, max_new_tokens=15)
    start, stop = (browser.find_element(By.ID, f"generate-{name}") for name in ("start", "stop"))
    start.click()
    run = load_run(run_path)
    expected = run.generate("Once", 15, generator=torch.Generator().manual_seed(5))
    shown = "document.getElementById('generated').textContent"
    wait(lambda: start.is_enabled() and len(browser.execute_script(f"return {shown}")) > 4)
    assert browser.execute_script(f"return {shown}") == "Once" + expected
    rows = wait(lambda: browser.find_elements(By.CSS_SELECTOR, "#next tr"))
    assert len(rows) == 20
    ids = run.tokenizer.encode("Once")
    assert len(browser.find_elements(By.CSS_SELECTOR, "#losses li")) == len(ids)
    put(browser, "#model [name=token]", "2")
    now = browser.find_element(By.ID, "attention-now")
    wait(lambda: now.text.startswith(f"“{visible(run.tokenizer.vocab[ids[2]])}” attends"))
    picture(browser, "model")
    put(browser, "#model [name=max_new_tokens]", "5000")
    start.click()
    wait(lambda: len(browser.execute_script(f"return {shown}")) > 30)
    stop.click()
    assert start.is_enabled()
    length = len(browser.execute_script(f"return {shown}"))
    time.sleep(0.3)
    assert len(browser.execute_script(f"return {shown}")) == length


def test_the_next_token_follows_the_pointer_the_caret_and_the_keyboard(page, run_path):
    text = "Once upon 🐈 a"
    browser = page("model", text=text)
    tokenizer = load_run(run_path).tokenizer
    _, spans = tokenizer.encode_with_offsets(text)
    tokens = visible_tokens(tokenizer, text)
    assert 6 < len(tokens) <= 16  # the context length
    following = (
        "[...document.querySelectorAll('#next tr')]"
        ".filter(r => r.innerText.includes('in the text')).map(r => r.cells[0].innerText)"
    )
    current = (
        "[...document.querySelectorAll('#losses li')].map(i => i.getAttribute('aria-current'))"
    )
    field = browser.find_element(By.CSS_SELECTOR, "#model [name=token]")

    def check_shown(index):
        now = browser.find_element(By.ID, "next-now")
        wait(lambda: now.text.startswith(f"After “{tokens[index]}” (token {index}), “"))
        wait(lambda: run(browser, following) == tokens[index + 1 : index + 2])
        expected = [str(at == index).lower() for at in range(len(tokens))]
        wait(lambda: run(browser, current) == expected)

    check_shown(len(tokens) - 1)
    move = webdriver.ActionChains(browser).move_to_element
    move(browser.find_elements(By.CSS_SELECTOR, "#losses .token")[2]).perform()
    check_shown(2)
    picture(browser, "model-next")
    move(browser.find_element(By.ID, "losses-title")).perform()
    check_shown(len(tokens) - 1)
    browser.find_elements(By.CSS_SELECTOR, "#losses .token")[1].click()
    move(browser.find_element(By.ID, "losses-title")).perform()
    check_shown(1)
    assert "token=1" in browser.current_url
    wait(lambda: browser.find_element(By.ID, "attention-now").text.startswith(f"“{tokens[1]}” at"))
    caret = browser.find_element(By.CSS_SELECTOR, "#model textarea")
    caret.send_keys(Keys.CONTROL, Keys.HOME)
    check_shown(0)
    caret.send_keys(Keys.ARROW_RIGHT * 11)
    last_byte = max(index for index, (_, end) in enumerate(spans) if end == 11)
    check_shown(last_byte)
    field.send_keys(Keys.ARROW_DOWN)
    check_shown(last_byte - 1)
    caret.send_keys(Keys.CONTROL, Keys.END)
    check_shown(len(tokens) - 1)
    assert field.get_attribute("value") == ""


def test_links_restore_text_and_settings(page):
    browser = page("text", text="")
    put(browser, "#text textarea", "a 猫 & <b>")
    browser.find_element(By.CSS_SELECTOR, "#text [name=ids]").click()
    link = browser.current_url
    browser.get("about:blank")
    browser.get(link)
    wait(lambda: shown_tokens(browser))
    assert run(browser, "document.querySelector('#text textarea').value") == "a 猫 & <b>"
    assert run(browser, "document.querySelector('#text [name=ids]').checked") is True


@pytest.mark.parametrize(
    "link", ["view=x&text=%ff", "view=error", "view=merges&step=1e99&tokenizer=9"]
)
def test_a_hostile_link_opens_a_view(page, browser, address, link):
    browser.get("about:blank")
    browser.get(f"{address}#{link}")
    wait(lambda: browser.find_elements(By.CSS_SELECTOR, "main > section:not([hidden]) .token"))


def test_the_keyboard_moves_between_tabs_and_into_the_view(page):
    browser = page("text")
    tab = browser.find_element(By.ID, "tab-text")
    tab.send_keys(Keys.ARROW_RIGHT)
    assert browser.switch_to.active_element.get_attribute("id") == "tab-merges"
    assert browser.find_element(By.ID, "merges").is_displayed()
    browser.switch_to.active_element.send_keys(Keys.TAB)
    assert browser.switch_to.active_element.get_attribute("name") == "tokenizer"


VIEWS = ["text", "merges", "training", "race", "run", "model"]


@pytest.mark.parametrize("view", VIEWS)
def test_every_control_has_a_name_for_screen_readers(page, view):
    browser = page(view)
    for control in browser.find_elements(
        By.CSS_SELECTOR, f"#{view} :is(input, select, textarea, button), #{view} ol"
    ):
        if control.is_displayed():
            assert control.accessible_name, control.get_attribute("outerHTML")


CONTENTS = {
    "text": {"a": 0, "b": 1, "ids": 1, "bytes": 1, "text": "the\tnaïve 猫\r\n\u202e<|endoftext|>"},
    "merges": {"word": " theatre", "step": 2},
    "training": {"text": "low low lower widest newest newest", "stage": "native", "step": 3},
    "race": {"merges": 50},
    "run": {},
    "model": {"text": "Once upon 🐈 a", "token": 2, "max_new_tokens": 5},
}


@pytest.mark.parametrize("view", VIEWS)
def test_a_view_is_readable_on_a_phone_and_in_the_dark(page, view):
    browser = page(view, **CONTENTS[view])
    for button in browser.find_elements(By.CSS_SELECTOR, f"#{view} :is(.main, summary)"):
        button.click()
    shown = f"#{view} :is(li .token, td .token, .swatch)"
    wait(lambda: browser.find_elements(By.CSS_SELECTOR, shown))
    if view in ("race", "model"):
        start = browser.find_element(By.CSS_SELECTOR, f"#{view} .main")
        wait(lambda: start.is_enabled())
    assert problems_on_devices(browser, lambda name: picture(browser, f"{view}-{name}")) == {}


@pytest.mark.parametrize("view", ["race", "model"])
def test_a_view_says_what_to_do_before_the_first_action(page, view):
    browser = page(view, text="")
    if view == "race":
        assert "Press Start" in browser.find_element(By.ID, "race-now").text
        rows = browser.find_elements(By.CSS_SELECTOR, "#race-table tr")
        assert [row.text.split()[0] for row in rows] == stages()
    wait(lambda: view == "race" or browser.find_elements(By.CSS_SELECTOR, "#next tr"))
    assert problems_on_devices(browser) == {}


def test_an_error_stays_until_its_cause_is_gone(page):
    browser = page("model", text="Once upon", max_new_tokens=5)
    error = browser.find_element(By.ID, "error")
    tokens = wait(lambda: browser.find_elements(By.CSS_SELECTOR, "#losses .token"))
    browser.execute_script(
        "window.own = fetch; fetch = (url, ...rest) => "
        "url.endsWith('generate') ? Promise.reject(TypeError('no network')) : own(url, ...rest)"
    )
    browser.find_element(By.ID, "generate-start").click()
    wait(lambda: "has stopped" in error.text)
    now = browser.find_element(By.ID, "next-now")
    webdriver.ActionChains(browser).move_to_element(tokens[0]).perform()
    wait(lambda: "(token 0)" in now.text)
    assert "has stopped" in error.text
    put(browser, "#model [name=temperature]", "-1")
    wait(lambda: "temperature must be at least 0" in error.text)
    assert "has stopped" in error.text
    assert problems_on_devices(browser) == {}
    put(browser, "#model [name=temperature]", "1")
    wait(lambda: "temperature" not in error.text)
    assert "has stopped" in error.text
    browser.execute_script("fetch = window.own")
    browser.find_element(By.ID, "generate-start").click()
    wait(lambda: not error.is_displayed())
    browser.get_log("browser")  # the requests that failed


@pytest.mark.slow
def test_the_picture_of_the_page_can_be_made(browser, tmp_path):
    """Create the picture of the page: CS336_SCREENSHOTS=docs pytest FILE -m slow -k picture."""
    image = pytest.importorskip("PIL.Image", reason="needs pillow")
    path = Path(SCREENSHOTS or tmp_path, "playground-text.png")
    size = {"width": 800, "height": 600, "deviceScaleFactor": 1.5, "mobile": False}
    with running(make_answers()) as address:
        open_view(browser, address, "text")
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        browser.execute_cdp_cmd("Emulation.setScrollbarsHidden", {"hidden": True})
        try:
            wait(lambda: len(shown_tokens(browser)) > 20)
            bottom = "document.querySelector('main').getBoundingClientRect().bottom"
            size["height"] = round(run(browser, bottom)) + 8
            browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
            picture = image.open(io.BytesIO(browser.get_screenshot_as_png())).convert("RGB")
        finally:
            browser.execute_cdp_cmd("Emulation.setScrollbarsHidden", {"hidden": False})
            browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    picture.quantize(64).save(path, optimize=True)
    assert picture.width == 1200
    assert path.stat().st_size < 60_000
