"""bench_ablations.py: its variants learn the same merges, and the compiled ones are v3 and v4."""

import random
from itertools import pairwise

import bench_ablations
import compiled_variants
import pytest

from cs336_basics import TRAINERS
from cs336_basics.bpe import is_built

if not is_built(TRAINERS["native"]):
    pytest.skip("the compiled trainers are not built", allow_module_level=True)

pytestmark = pytest.mark.filterwarnings("ignore:no pair was left")


def word_counts(seed, letters, longest):
    rng = random.Random(seed)
    return {
        bytes(rng.choices(letters, k=rng.randint(2, longest))): rng.randint(1, 50)
        for _ in range(300)
    }


def test_every_variant_names_a_trainer_and_the_parts_that_it_omits():
    names = {*TRAINERS, "heap, compiled", "heap, typed", "words rescanned"}
    assert {trainer for trainer, _, _ in bench_ablations.VARIANTS.values()} <= names
    omitted = [omitted for _, omitted, _ in bench_ablations.VARIANTS.values() if omitted]
    assert [set(more) - set(less) for more, less in pairwise(omitted)] == [
        {"threshold"},
        {"sorted words"},
    ]


def test_a_variant_runs_and_its_merges_are_those_of_the_others(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("low low lower newest newest widest " * 30)
    answers = [
        bench_ablations.run(name, str(path), 280)
        for name in ("heap", "memoryview", "native, nothing else", "native, threshold", "native")
    ]
    assert len({answer["merges_hash"] for answer in answers}) == 1
    assert all(answer["merges"] == answers[0]["merges"] > 10 for answer in answers)
    assert all(answer["seconds"] > 0 for answer in answers)


def test_the_variant_of_v4_replaces_one_section():
    _, sources = compiled_variants.sources()
    changed = sources["v4_rescanning.pyx"]
    original = (compiled_variants.BPE / "v4_memoryview.pyx").read_text(encoding="utf-8")
    assert "grow_nodes" in changed
    assert changed.count("cdef int merge(") == 1
    for kept in ("cdef pair_t pop_best", "cdef pair_t find_or_add", "def run(", "def merges("):
        assert kept in changed
    assert "cdef int merge(" in original


@pytest.mark.slow
@pytest.mark.parametrize("name", ["heap, compiled", "heap, typed", "words rescanned"])
@pytest.mark.parametrize("letters", [b"ab", b"etaoin", range(256)])
def test_variants_equal_naive(name, letters):
    trainer = compiled_variants.variants()[name]
    for seed, longest in ((1, 5), (2, 40)):
        counts = word_counts(seed, letters, longest)
        assert (
            trainer().train_from_counts(counts, 256 + 120)[1]
            == TRAINERS["naive"]().train_from_counts(counts, 256 + 120)[1]
        )
