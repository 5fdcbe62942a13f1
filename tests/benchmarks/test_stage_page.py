"""docs/stages.md: its source lines and its worked example are those of the code."""

import pytest
import stage_page

from cs336_basics import TRAINERS
from cs336_basics.bpe import is_built

if not all(is_built(trainer) for trainer in TRAINERS.values()):
    pytest.skip("the compiled trainers are not built", allow_module_level=True)


def test_the_page_has_the_lines_of_the_source_and_the_example_as_it_runs():
    page = stage_page.PAGE.read_text(encoding="utf-8")
    filled = stage_page.fill(page)
    assert filled == page, "run `python benchmarks/stage_page.py`: docs/stages.md is out of date"


def test_the_page_has_a_section_and_an_example_of_every_stage():
    page = stage_page.PAGE.read_text(encoding="utf-8")
    for name in TRAINERS:
        assert f"\n## {name}\n" in page
        assert f"<!-- table: stage: {name} -->" in page
        assert stage_page.EXAMPLES[name]() in page


def test_a_changed_line_is_filled_in_again():
    block = "<!-- source: cs336_basics/bpe/v3_heap.py HeapTrainer._apply -->\n{}<!-- /source -->"
    filled = stage_page.fill(block.format("```python\nold lines\n```\n"))
    assert "old lines" not in filled
    assert "def _apply(self, pair: Pair) -> None:" in filled
    assert stage_page.fill(filled) == filled


@pytest.mark.parametrize(
    ("file", "name", "first", "last"),
    [
        ("bpe/v3_heap.py", "HeapTrainer._find_best", "def _find_best", "    return None"),
        ("bpe/v4_memoryview.pyx", "pop_best", "cdef pair_t pop_best", "    return NONE"),
        ("native/merging/merge_loop.hpp", "fits", "bool fits(", "}"),
    ],
)
def test_a_function_is_found_in_every_language(file, name, first, last):
    lines = stage_page.source(f"cs336_basics/{file}", name)[0].splitlines()
    assert lines[0].startswith(first)
    assert lines[-1] == last


def test_a_function_that_does_not_exist_is_named():
    for file in ("bpe/v3_heap.py", "bpe/v4_memoryview.pyx", "native/merging/merge_loop.hpp"):
        with pytest.raises(ValueError, match=f"{file} has no function vanished"):
            stage_page.source(f"cs336_basics/{file}", "vanished")


def test_the_example_ends_with_the_third_merge():
    assert "the maximum: (o, w)" in stage_page.naive()
    assert "(e, s)    9            0    out of date" in stage_page.heap()
    assert "3* 21" in stage_page.native()
