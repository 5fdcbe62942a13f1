"""The native trainer alone: flat arrays, thresholds that fall, wide token ids, time slices."""

import random
import signal
import subprocess
import sys
import warnings
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cs336_basics import TRAINERS
from cs336_basics.bpe import DEFAULT_TRAINER, is_built
from cs336_basics.pretokenization.counting.word_counts import WordCounts

if not is_built(TRAINERS["native"]):
    pytest.skip("the native trainer is not built", allow_module_level=True)


def train_counts(name, word_counts, num_merges, **options):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "no pair was left")
        return TRAINERS[name](**options).train_from_counts(word_counts, 256 + num_merges)[1]


def flat(word_counts):
    """Return words as flat arrays, the form in which the counter returns them."""
    lengths = [len(word) for word in word_counts]
    return (
        np.frombuffer(b"".join(word_counts), np.uint8),
        np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]).astype(np.int64),
        np.array(list(word_counts.values()), np.int64),
    )


def zipf_counts(seed, num_words, letters, longest, exponent=1.2, scale=1.0):
    """Distinct random words with counts that fall as those of a language do."""
    rng = random.Random(seed)
    words = {
        "".join(rng.choices(letters, k=rng.randint(2, longest))).encode(): None
        for _ in range(num_words)
    }
    return {
        word: max(1, int(scale * num_words / (rank + 1) ** exponent))
        for rank, word in enumerate(words)
    }


def test_native_is_the_default_trainer():
    assert DEFAULT_TRAINER == "native"


@pytest.mark.parametrize(
    ("missing", "default"),
    [
        (["v5_native"], "memoryview"),
        (["v4_memoryview"], "native"),
        (["v4_memoryview", "v5_native"], "heap"),
    ],
)
def test_missing_extensions_fall_back_to_the_best_built_trainer(missing, default, tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("low low lower lowest")
    code = f"""
import sys
for name in {missing!r}:
    sys.modules["cs336_basics.bpe." + name] = None  # import raises ImportError
from cs336_basics import TRAINERS, train_bpe
from cs336_basics.bpe import DEFAULT_TRAINER
assert DEFAULT_TRAINER == {default!r}, DEFAULT_TRAINER
assert list(TRAINERS) == ["naive", "incremental", "heap", "memoryview", "native"]
print(train_bpe({str(path)!r}, 258, [])[1])
try:
    TRAINERS[{missing[-1].split("_")[1]!r}]()
except ImportError as error:
    print("not built" in str(error))
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.splitlines() == ["[(b'o', b'w'), (b'l', b'ow')]", "True"]


@given(
    st.dictionaries(
        st.lists(st.sampled_from([b"a", b"b", b"ab", b"\xff"]), max_size=12).map(b"".join),
        st.integers(0, 2**50),
        max_size=30,
    )
)
def test_flat_arrays_equal_a_mapping(word_counts):
    trainer = TRAINERS["native"]()
    merges = trainer._learn_merges_flat(*flat(word_counts), 40)
    assert merges == train_counts("memoryview", word_counts, 40)


def test_read_only_flat_arrays_are_accepted():
    arrays = flat({b"abab": 2, b"ba": 1})
    for array in arrays:
        array.flags.writeable = False
    assert TRAINERS["native"]()._learn_merges_flat(*arrays, 1) == [(b"a", b"b")]


@pytest.mark.parametrize("exponent", [0.0, 0.7, 1.2, 3.0])
@pytest.mark.parametrize("scale", [1.0, 1e9])
def test_falling_thresholds_equal_memoryview(exponent, scale):
    # Until no pair is left, so that the threshold falls down to one.
    counts = zipf_counts(7, 1500, "etaoinsh", 12, exponent, scale)
    assert train_counts("native", counts, 10**9) == train_counts("memoryview", counts, 10**9)


def test_few_merges_of_many_words_equal_memoryview():
    # Few merges: a high threshold, under which most pairs are never seen.
    counts = zipf_counts(8, 20_000, "etaoinshrdlu", 10)
    assert train_counts("native", counts, 30) == train_counts("memoryview", counts, 30)


@given(
    st.lists(
        st.tuples(
            st.lists(st.sampled_from("aab"), min_size=2, max_size=20).map("".join),
            st.sampled_from([1, 2, 3, 100, 10_000, 2**33, 2**50]),
        ),
        max_size=40,
    ),
    st.integers(1, 200),
)
def test_mixed_magnitudes_equal_naive(pairs, num_merges):
    counts = {word.encode(): count for word, count in pairs}
    assert train_counts("native", counts, num_merges) == train_counts("naive", counts, num_merges)


def test_counts_up_to_two_to_the_62nd_are_exact():
    counts = {b"ab": 2**60, b"cd": 2**60 - 1, b"abx": 3, b"zz": 2**60 + 1}
    assert train_counts("native", counts, 9) == train_counts("naive", counts, 9)
    counts = {b"xy": 2**62 - 1}
    assert train_counts("native", counts, 9) == [(b"x", b"y")]


def test_more_merges_than_16_bits_can_number():
    letters = [chr(c) for c in range(33, 126)]
    counts = Counter(zipf_counts(9, 60_000, letters, 6, 0.3))
    merges = train_counts("native", counts, 80_000)
    assert len(merges) > 65_536
    assert merges == train_counts("memoryview", counts, 80_000)


HOSTILE = {
    "one letter": lambda n: {b"a" * n: 1},
    "ab": lambda n: {b"ab" * (n // 2): 1},
    "random letters": lambda n: {random.Random(1).randbytes(n).translate(LETTERS): 1},
    "two random letters": lambda n: {random.Random(2).randbytes(n).translate(TWO_LETTERS): 1},
    "many distinct words": lambda n: {b"%07d" % i: 1 for i in range(n // 10)},
    "all tied": lambda n: {bytes([i >> 8 & 255, i & 255]) * 2: 5 for i in range(min(n, 65_536))},
    "one heavy word": lambda n: {b"xy": 2**55} | {b"%07d" % i: 1 for i in range(n // 20)},
}
LETTERS = bytes(97 + i % 26 for i in range(256))
TWO_LETTERS = bytes(97 + i % 2 for i in range(256))


@pytest.mark.parametrize("shape", HOSTILE)
def test_hostile_input_equals_memoryview(shape):
    counts = HOSTILE[shape](30_000)
    assert train_counts("native", counts, 3000) == train_counts("memoryview", counts, 3000)


@pytest.mark.slow
@pytest.mark.parametrize("shape", HOSTILE)
def test_hostile_input_equals_memoryview_at_length(shape):
    counts = HOSTILE[shape](10_000_000)
    assert train_counts("native", counts, 5000) == train_counts("memoryview", counts, 5000)


@pytest.mark.parametrize("longest", [0, 700_000])
def test_threads_that_lay_the_words_out_change_no_merge(longest):
    counts = {b"%x" % (i * 2_654_435_761 % 2**40): (i % 5) ** 6 for i in range(150_000)}
    if longest:  # a thread has one word or none; others have all
        counts[random.Random(5).randbytes(longest).translate(LETTERS)] = 3
    traces = {}
    for num_workers in (1, 2, 3, 64):
        trace = traces[num_workers] = []

        def keep(merge, trace=trace):
            trace.append((merge.left, merge.right, merge.pair_count, merge.work))

        train_counts("native", counts, 300, num_workers=num_workers, trace=keep)
    assert len(traces[1]) == 300
    for num_workers in (2, 3, 64):
        assert traces[num_workers] == traces[1]
    merges = [(left, right) for left, right, _, _ in traces[1]]
    assert merges == train_counts("memoryview", counts, 300)


@pytest.mark.parametrize("step_seconds", [0, 0.1])
def test_progress_is_reported_and_interrupts_are_raised_between_steps(step_seconds):
    class Watched(TRAINERS["native"]):
        steps: list[int]
        interrupt_at = 10**9

        def _advance(self, num_merges):
            self.steps.append(num_merges)
            if len(self.steps) == self.interrupt_at:
                raise KeyboardInterrupt

    watched = Watched()
    watched.steps, watched.step_seconds = [], step_seconds
    counts = {random.Random(3).randbytes(30_000).translate(LETTERS): 1}
    _, merges = watched.train_from_counts(counts, 256 + 500)
    assert sum(watched.steps) == len(merges) == 500
    # The clock is read after every merge, and after each of the few times that pairs are indexed.
    # In a tenth of a second a fast machine ends; how often it stops before is its own affair.
    if step_seconds == 0:
        assert set(watched.steps) == {0, 1}

    watched.steps, watched.interrupt_at = [], 1 if step_seconds else 300
    with pytest.raises(KeyboardInterrupt):
        watched.train_from_counts(counts, 256 + 500)
    assert len(watched.steps) == watched.interrupt_at


@pytest.mark.parametrize("seconds", [0.02, 0.3])
def test_an_exception_of_a_signal_handler_ends_the_merge_loop(seconds):
    def interrupt(signum, frame):
        raise KeyboardInterrupt

    # Ten words of megabytes: laying them out takes longer than the first wait.
    word = random.Random(4).randbytes(3_000_000).translate(LETTERS)
    arrays = flat({word[i:]: 1 for i in range(10)})
    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        with pytest.raises(KeyboardInterrupt):
            TRAINERS["native"]()._learn_merges_flat(*arrays, 10**6)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_words_of_4_gib_or_more_are_refused():
    arrays = np.zeros(1, np.uint8), np.array([0, 2**32], np.int64), np.ones(1, np.int64)
    with pytest.raises(OverflowError, match="4 GiB or more together"):
        TRAINERS["native"]()._learn_merges_flat(*arrays, 1)


def test_word_counts_are_used_without_an_object_per_word():
    counts = zipf_counts(10, 3000, "abcdef", 9)
    word_counts = WordCounts(*flat(counts))
    assert train_counts("native", word_counts, 100) == train_counts("memoryview", counts, 100)
    assert word_counts._dict is None  # no object for each word
    assert train_counts("memoryview", word_counts, 100) == train_counts("memoryview", counts, 100)
    assert train_counts("native", WordCounts.from_mapping({}), 5) == []
    with pytest.raises(ValueError, match="9,223,372,036,854,775,812 bytes, counted with rep"):
        train_counts("native", WordCounts.from_mapping({b"ab": 2**62 - 1, b"abc": 2}), 5)
    largest = WordCounts.from_mapping({b"ab": 2**62 - 1})
    assert train_counts("native", largest, 5) == [(b"a", b"b")]


PARTS = ["threshold", "sorted words", "prefetch"]


@pytest.mark.parametrize("omitted", [*[(part,) for part in PARTS], tuple(PARTS)])
def test_parts_of_the_loop_that_are_switched_off_change_no_merge(omitted):
    counts = zipf_counts(11, 2000, "etaoinsh", 12)
    counts.pop(next(iter(counts)))
    trainer = TRAINERS["native"]()
    trainer.omit = omitted
    for num_merges in (30, 10**6):
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "no pair was left")
            merges = trainer.train_from_counts(counts, 256 + num_merges)[1]
        assert merges == train_counts("memoryview", counts, num_merges)


def test_without_a_threshold_every_pair_is_in_the_heap():
    counts = zipf_counts(12, 2000, "etaoinsh", 12)
    entries = {}
    for omitted in ((), ("threshold",)):
        trace = []
        trainer = TRAINERS["native"](trace=trace.append)
        trainer.omit = omitted
        trainer.train_from_counts(counts, 256 + 50)
        entries[omitted] = sum(merge.work.heap_entries for merge in trace)
    assert entries[()] < entries["threshold",] / 2
