"""Source code and worked examples on the pages match the library."""

import pytest

from benchmarks.machine import PAGES, ROOT
from benchmarks.stages import page
from cs336_basics import TRAINERS
from cs336_basics.bpe.explain import draw

if not all(trainer.is_built for trainer in TRAINERS.values()):
    pytest.skip("the compiled trainers are not built", allow_module_level=True)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_a_page_has_the_lines_of_the_source_and_the_example_as_it_runs(path):
    text = path.read_text(encoding="utf-8")
    assert page.fill(text) == text, "run `python -m benchmarks.stages.page`"


def test_the_page_has_a_section_an_example_and_a_table_of_every_stage():
    text = (ROOT / "docs" / "stages.md").read_text(encoding="utf-8")
    for name in TRAINERS:
        assert f"\n## {name}\n" in text
        assert f"<!-- table: stage: {name} -->" in text
        assert draw(name, page.WORDS, page.MERGES) in text


def test_a_function_that_does_not_exist_is_named():
    for file in ("bpe/v3_heap.py", "bpe/v4_memoryview.pyx"):
        with pytest.raises(ValueError, match="vanished"):
            page.source(f"cs336_basics/{file}", "vanished")
