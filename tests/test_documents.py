"""Execute every command and snippet in README.md and on the other pages.

The blocks of a page run in order, in a new directory that contains only the page's stand-ins.
`tests/documents/blocks.py` describes the comments that exclude blocks from running. For each
excluded block, a test checks the options and is then skipped; `pytest -ra` lists the reasons.
"""

from __future__ import annotations

import doctest
import json
import re
import sys

import pytest
import yaml

from tests.documents.blocks import ROOT, Page, read_page
from tests.documents.shell import (
    Shell,
    check,
    check_own,
    commands_of,
    own_command,
    split,
    write_programs,
)
from tests.documents.stand_ins import StandIns
from tests.processes import measure_in_this_process

FILES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))]
PAGES = [read_page(path) for path in FILES]
BLOCKS = [block for page in PAGES for block in page.blocks]
NOT_RUN = [block for block in BLOCKS if block.marking in ("not run", "slow")]
SLOW_PAGES = [page for page in PAGES if any(b.marking == "slow" for b in page.blocks)]
# Parsers for blocks of data.
PARSERS = {"json": json.loads, "yaml": yaml.safe_load}
# Matches a command with arguments in inline code.
COMMAND_LINE = re.compile(r"(python|make|pip|pytest|uv run|torchrun|cs336) \S")

# The stand-ins are too small to learn all merges.
pytestmark = pytest.mark.filterwarnings("ignore:no pair was left:UserWarning")


@pytest.fixture(scope="session")
def stand_ins(tmp_path_factory):
    return StandIns(tmp_path_factory.mktemp("stand_ins"))


@pytest.fixture
def execute(tmp_path, monkeypatch, stand_ins):
    """Return a function that executes a page in a new directory."""
    directory = tmp_path / "page"
    directory.mkdir()
    programs = write_programs(tmp_path / "programs")
    # Use neither the user's corpora and caches nor the network.
    monkeypatch.delenv("CS336_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    # Drawing loss.png would take most of a tiny run's time.
    monkeypatch.setattr("cs336_basics.training.trainer.plot_run", lambda run: None)
    measure_in_this_process(monkeypatch)
    torch = sys.modules.get("torch")
    threads = torch.get_num_threads() if torch else None

    def run(page: Page, slow: bool = False) -> None:
        for name in page.files:
            stand_ins.make(name, directory)
        monkeypatch.chdir(directory)
        execute_blocks(page, Shell(programs), slow)

    yield run
    if torch:
        torch.set_num_threads(threads)


def execute_blocks(page, shell, slow):
    names = {"__name__": "page"}
    for block in page.blocks:
        if block.marking == "not run" or (block.marking == "slow" and not slow):
            continue
        if block.kind == "shell":
            for line in commands_of(block.code):
                shell.run(line)
        elif block.kind == "python":
            # The empty lines before the code make tracebacks show the page's line numbers.
            exec(compile("\n" * (block.line - 1) + block.code, block.page, "exec"), names)
        elif block.kind == "doctest":
            run_doctest(block, names)
        elif block.kind in PARSERS:
            PARSERS[block.kind](block.code)


def run_doctest(block, names):
    example = doctest.DocTestParser().get_doctest(
        block.code + "\n", names, block.name, block.page, block.line - 1
    )
    assert example.examples, f"{block.name} has no line that starts with >>>"
    example.globs = names
    result = doctest.DocTestRunner(verbose=False).run(example, clear_globs=False)
    assert result.failed == 0, f"{block.name}: {result.failed} examples failed"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_block_of_a_page_runs(page, execute):
    execute(page)


@pytest.mark.slow
@pytest.mark.parametrize("page", SLOW_PAGES, ids=lambda page: page.name)
def test_every_block_of_a_page_runs_including_slow_ones(page, execute):
    execute(page, slow=True)


@pytest.mark.parametrize("block", NOT_RUN, ids=lambda block: block.name)
def test_the_options_of_a_block_that_is_not_run_exist(block):
    if block.kind == "shell":
        for line in commands_of(block.code):
            check(line)
    elif block.kind == "python":
        compile(block.code, block.name, "exec")
    pytest.skip(f"{block.name} is checked; {block.marking}: {block.reason}")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_options_of_commands_in_the_prose_exist(page):
    for line, code in page.inline_code:
        if COMMAND_LINE.match(code):
            try:
                own = own_command(split(code)[1])
                if own is not None:
                    check_own(own, complete=False)  # commands in prose are often incomplete
                else:
                    check(code)
            except ValueError as error:
                pytest.fail(f"{page.name}:{line}: {error}")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_files_and_headings(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", page.text):
        if "://" in target:
            continue
        path, _, heading = target.partition("#")
        file = (ROOT / page.name).parent / path if path else ROOT / page.name
        assert file.exists(), f"{page.name}: link to missing file {target}"
        if heading:
            text = file.read_text(encoding="utf-8")
            assert heading in map(anchor, re.findall(r"^#+ (.+)$", text, re.MULTILINE)), target


def anchor(heading):
    """Return the anchor that GitHub generates for a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
