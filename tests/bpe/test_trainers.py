"""One test for all trainers: the same vocabulary and merges, on any input, ties included."""

import os
import random
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cs336_basics import TRAINERS, BPE_Trainer, train_bpe
from cs336_basics.bpe import get_trainer
from cs336_basics.bpe.base import PHASES
from cs336_basics.bpe.symbols import merge_pair
from cs336_basics.pretokenization import Corpus, count_text
from tests.texts import long_text

EOT = "<|endoftext|>"

# The worked example of the course, split at white space.
WORKED_EXAMPLE = {b"low": 5, b"lower": 2, b"widest": 3, b"newest": 6}
WORKED_MERGES = [
    "s t",
    "e st",
    "o w",
    "l ow",
    "w est",
    "n e",
    "ne west",
    "w i",
    "wi d",
    "wid est",
    "low e",
    "lowe r",
]

every_trainer = pytest.mark.parametrize("name", TRAINERS)
every_other_trainer = pytest.mark.parametrize("name", [n for n in TRAINERS if n != "naive"])


def train_counts(name, word_counts, num_merges, special_tokens=()):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "no pair was left")
        return TRAINERS[name]().train_from_counts(
            word_counts, 256 + len(special_tokens) + num_merges, special_tokens
        )


def brute_force_merges(word_counts, num_merges):
    """BPE written differently: words as lists, merged by joining and splitting.

    Independent of the library, so that an error shared by all trainers would show.
    """
    words = [([bytes([b]) for b in word], count) for word, count in word_counts.items() if count]
    merges = []
    for _ in range(num_merges):
        counts = Counter()
        for symbols, count in words:
            for i in range(len(symbols) - 1):
                counts[symbols[i], symbols[i + 1]] += count
        if not counts:
            break
        most = max(counts.values())
        left, right = max(pair for pair, count in counts.items() if count == most)
        merges.append((left, right))
        for symbols, _ in words:
            i = 0
            while i < len(symbols) - 1:
                if symbols[i] == left and symbols[i + 1] == right:
                    symbols[i : i + 2] = [left + right]
                i += 1
    return merges


def test_trainers_are_listed_in_reading_order():
    assert list(TRAINERS)[:4] == ["naive", "incremental", "heap", "memoryview"]
    for name, trainer in TRAINERS.items():
        assert issubclass(trainer, BPE_Trainer)
        assert trainer.name == name


@every_trainer
@pytest.mark.parametrize("num_merges", [0, 1, 6, 12])
def test_the_example_of_the_course_is_learned(name, num_merges):
    vocab, merges = train_counts(name, WORKED_EXAMPLE, num_merges, [EOT])
    assert [f"{a.decode()} {b.decode()}" for a, b in merges] == WORKED_MERGES[:num_merges]
    assert [vocab[i] for i in range(256)] == [bytes([i]) for i in range(256)]
    assert vocab[256] == EOT.encode()
    assert [vocab[257 + i] for i in range(num_merges)] == [a + b for a, b in merges]
    assert len(vocab) == 257 + num_merges


@every_trainer
def test_the_example_of_the_course_is_learned_from_a_file(name, tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("low low low low low lower lower widest widest widest" + " newest" * 6)
    _, merges = train_bpe(path, 262, [], trainer=name, pattern=r"\S+", num_workers=1)
    assert [f"{a.decode()} {b.decode()}" for a, b in merges] == WORKED_MERGES[:6]


@every_trainer
def test_ties_go_to_the_greatest_pair(name):
    # The example of the course: ("BA", "A") wins although its left token is not the longest.
    counts = {b"AB": 1, b"AC": 1, b"BZZ": 1, b"BAA": 1}
    _, merges = train_counts(name, {b"ZZ": 3, b"BA": 3, b"BZZ": 5, b"BAA": 5}, 4)
    assert merges == brute_force_merges({b"ZZ": 3, b"BA": 3, b"BZZ": 5, b"BAA": 5}, 4)
    _, merges = train_counts(name, counts, 1)
    assert merges == [(b"Z", b"Z")]
    # A prefix is smaller than the longer token; bytes compare unsigned.
    assert train_counts(name, {b"ab": 1, b"\xffa": 1}, 1)[1] == [(b"\xff", b"a")]
    assert train_counts(name, {b"\x7fa": 1, b"\x80a": 1}, 1)[1] == [(b"\x80", b"a")]


@every_trainer
def test_runs_merge_from_the_left(name):
    counts = {b"a" * n: 1 for n in range(2, 12)}
    assert train_counts(name, counts, 8)[1] == brute_force_merges(counts, 8)
    assert merge_pair((b"a",) * 5, (b"a", b"a")) == (b"aa", b"aa", b"a")


# Few letters, short words and small counts give ties and runs; `binary` gives all bytes.
tie_heavy = st.dictionaries(
    st.one_of(
        st.lists(st.sampled_from([b"a", b"b", b"\xff"]), max_size=12).map(b"".join),
        st.lists(st.sampled_from([b"a", b"aa", b"ab", b"aab", b"\0"]), max_size=6).map(b"".join),
        st.binary(max_size=8),
    ),
    st.integers(0, 3),
    max_size=8,
)


@every_trainer
@given(word_counts=tie_heavy, num_merges=st.integers(0, 40))
def test_equals_brute_force_on_tie_heavy_counts(name, word_counts, num_merges):
    vocab, merges = train_counts(name, word_counts, num_merges)
    assert merges == brute_force_merges(word_counts, num_merges)
    assert len(set(vocab.values())) == len(vocab)


@every_other_trainer
@given(text=st.text(st.sampled_from("aab  c\n'sé好"), max_size=200))
def test_equals_naive_on_tie_heavy_text(name, text):
    counts = count_text(text)
    assert train_counts(name, counts, 60, [EOT]) == train_counts("naive", counts, 60, [EOT])


@every_other_trainer
def test_equals_naive_on_random_words(name):
    rng = random.Random(336)
    words = ["".join(rng.choices("etaoinshr", k=rng.randint(1, 9))) for _ in range(400)]
    counts = Counter(" ".join(rng.choices(words, k=4000)).encode().split())
    assert train_counts(name, counts, 500) == train_counts("naive", counts, 500)


@every_trainer
@pytest.mark.parametrize("factor", [1, 3 * 10**9, 2**40, 2**55])
def test_counts_may_exceed_32_bits(name, factor):
    counts = {word: count * factor for word, count in WORKED_EXAMPLE.items()}
    _, merges = train_counts(name, counts, 12)
    assert [f"{a.decode()} {b.decode()}" for a, b in merges] == WORKED_MERGES


@every_trainer
def test_one_word_may_be_counted_three_billion_times(name):
    counts = {b" the": 3_000_000_000, b" thx": 2_999_999_999, b"zz": 4_294_967_296}
    _, merges = train_counts(name, counts, 3)
    assert merges == [(b"t", b"h"), (b" ", b"th"), (b"z", b"z")]


def test_counts_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="more than 64 bits can hold"):
        TRAINERS["heap"]().train_from_counts({b"ab": 2**62}, 300)


@every_trainer
def test_training_stops_early_and_warns_once(name, tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("ab ab")
    with pytest.warns(UserWarning, match="no pair was left after 2 of 744 merges") as caught:
        vocab, merges = train_bpe(path, 1000, [], trainer=name)
    assert len(caught) == 1
    assert merges == [(b"a", b"b"), (b" ", b"ab")]
    assert len(vocab) == 258


@every_trainer
def test_texts_in_memory_are_trained_on(name):
    texts = ["low low low low low lower", b"lower widest widest", "widest" + EOT + "newest newest"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trainer = TRAINERS[name](pattern=r"\S+")
        _, merges = trainer.train_from_iterator(iter(texts), 263, [EOT])
    counts = {b"low": 5, b"lower": 2, b"widest": 3, b"newest": 2}
    assert merges == brute_force_merges(counts, 6)
    assert trainer.timings["total"] >= trainer.timings["reading and counting"] > 0


@every_trainer
def test_a_corpus_is_trained_on(name, tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text('{"body": "ab ab"}\n{"body": "cd"}\n')
    with pytest.warns(UserWarning, match="no pair was left"):
        _, merges = train_bpe(Corpus(path, field="body"), 300, [], trainer=name)
    assert merges == brute_force_merges({b"ab": 1, b" ab": 1, b"cd": 1}, 44)
    with pytest.raises(ValueError, match=r"which field has the text: pass Corpus\("):
        train_bpe(path, 300, [], trainer=name)
    path.write_bytes(b'{"body": "ab\xff"}\n')
    with pytest.raises(ValueError, match="byte 0xff at offset 12 is not valid UTF-8"):
        train_bpe(Corpus(path, field="body", errors="strict"), 300, [], trainer=name)
    with pytest.raises(ValueError, match="text 0: byte 0xff at offset 1 is not valid UTF-8"):
        TRAINERS[name]().train_from_iterator([b"a\xff"], 300, [], errors="strict")


@every_trainer
def test_a_text_without_words_gives_no_merges(name, tmp_path):
    path = tmp_path / "text.txt"
    path.write_text(EOT * 3)
    with pytest.warns(UserWarning, match="no pair was left after 0 of 10 merges"):
        vocab, merges = train_bpe(path, 267, [EOT], trainer=name)
    assert merges == []
    assert len(vocab) == 257


@every_trainer
def test_no_merge_touches_a_special_token(name, tmp_path):
    path = tmp_path / "text.txt"
    path.write_text(f"hello{EOT}hello<|pad|>hello {EOT} end" * 50)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        vocab, merges = train_bpe(path, 300, [EOT, "<|pad|>"], trainer=name)
    assert vocab[256] == EOT.encode()
    assert vocab[257] == b"<|pad|>"
    assert all(b"<|" not in a + b and b"ello<" not in a + b for a, b in merges)
    assert (b"hell", b"o") in merges or b"hello" in vocab.values()


@every_trainer
def test_timings_have_all_phases_and_restart_from_zero(name, tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("the cat sat on the mat " * 20)
    trainer = TRAINERS[name](num_workers=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trainer.train(path, 300, [])
    assert set(PHASES) <= set(trainer.timings)
    assert all(seconds >= 0 for seconds in trainer.timings.values())
    assert trainer.timings["total"] >= trainer.timings["reading and counting"] > 0
    assert trainer.timings["updating"] > 0
    first = dict(trainer.timings)
    trainer.train_from_counts(WORKED_EXAMPLE, 260)
    assert trainer.timings["reading and counting"] == 0
    assert trainer.timings["total"] < first["total"] + 10


@every_trainer
@pytest.mark.parametrize(
    ("vocab_size", "special_tokens", "error", "message"),
    [
        (255, [], ValueError, "vocab_size is 255: it must be at least 256"),
        (256, [EOT], ValueError, "vocab_size is 256: it must be at least 257"),
        (-1, [], ValueError, "vocab_size is -1"),
        (300.0, [], TypeError, r"vocab_size is 300\.0"),
        (300, [EOT, EOT], ValueError, r"'<\|endoftext\|>' is given twice"),
        (300, [""], ValueError, "special token '' is empty"),
        (300, ["a"], ValueError, "special token 'a' is a single byte"),
        (300, EOT, TypeError, "pass a list"),
    ],
)
def test_bad_requests_are_named(name, tmp_path, vocab_size, special_tokens, error, message):
    path = tmp_path / "text.txt"
    path.write_text("some text")
    with pytest.raises(error, match=message):
        train_bpe(path, vocab_size, special_tokens, trainer=name)


@every_trainer
def test_bad_files_are_named(name, tmp_path):
    (tmp_path / "empty.txt").touch()
    with pytest.raises(FileNotFoundError, match=r"missing\.txt"):
        train_bpe(tmp_path / "missing.txt", 300, [], trainer=name)
    with pytest.raises(ValueError, match=r"empty\.txt' is empty"):
        train_bpe(tmp_path / "empty.txt", 300, [], trainer=name)
    with pytest.raises(ValueError, match="is a directory"):
        train_bpe(tmp_path, 300, [], trainer=name)


@every_trainer
def test_numpy_integers_are_accepted(name):
    counts = {word: np.int64(count) for word, count in WORKED_EXAMPLE.items()}
    vocab, merges = TRAINERS[name]().train_from_counts(counts, np.int64(262))
    assert (vocab, merges) == train_counts(name, WORKED_EXAMPLE, 6)


@pytest.mark.parametrize(
    ("word_counts", "error", "message"),
    [
        ({b"ab": -1}, ValueError, "the count of word b'ab' is -1"),
        ({"ab": 1}, TypeError, "word 'ab' is of type str"),
        ({b"ab": 1.5}, TypeError, r"the count of word b'ab' is 1\.5"),
    ],
)
def test_bad_counts_are_named(word_counts, error, message):
    with pytest.raises(error, match=message):
        TRAINERS["memoryview"]().train_from_counts(word_counts, 300)


@pytest.mark.parametrize("name", ["naive", "incremental", "heap"])
def test_the_loop_keeps_nothing_after_training(name):
    trainer = TRAINERS[name]()
    before = set(vars(trainer))
    trainer.train_from_counts(WORKED_EXAMPLE, 262)
    assert set(vars(trainer)) == before


def test_the_base_class_runs_the_loop_over_three_hooks():
    class Alphabetical(BPE_Trainer):
        """Merges in the order of the words, and records the calls."""

        name = "alphabetical"

        def _index(self, words, counts):
            self._pair_counts = {(word[:1], word[1:]): 1 for word in words}
            calls.append("index")

        def _find_best(self):
            calls.append("find")
            return min(self._pair_counts, default=None)

        def _apply(self, pair):
            calls.append("apply")
            del self._pair_counts[pair]

    calls = []
    trainer = Alphabetical()
    with pytest.warns(UserWarning, match="no pair was left after 2 of 9"):
        _, merges = trainer.train_from_counts({b"cd": 1, b"ab": 2}, 265)
    assert merges == [(b"a", b"b"), (b"c", b"d")]
    assert calls == ["index", "find", "apply", "find", "apply", "find"]
    assert all(trainer.timings[phase] > 0 for phase in PHASES[1:])


def test_unknown_names_are_named():
    with pytest.raises(ValueError, match="trainer is 'fastest': it must be one of naive"):
        get_trainer("fastest")
    with pytest.raises(ValueError, match="pattern '\\('"):
        TRAINERS["naive"](pattern="(")
    with pytest.raises(TypeError, match="unexpected keyword argument 'field'"):
        train_bpe("text.txt", 300, [], field="text")


@pytest.mark.parametrize("letters", ["a", "ab", "aab", "abcdefghij"])
def test_long_words_equal_naive(letters):
    # Short alphabets are repeated, the long one is sampled at random.
    rng = random.Random(len(letters))
    text = letters * 900 if len(letters) < 4 else "".join(rng.choices(letters, k=3000))
    counts = {text.encode(): 2, text[1:800].encode(): 1}
    for name in TRAINERS:
        assert train_counts(name, counts, 60) == train_counts("naive", counts, 60), name


def agree_on(path, num_merges):
    """Train every version on a file; `naive` learns 40 merges, the others `num_merges`."""
    results = {
        name: train_bpe(path, 257 + (40 if name == "naive" else num_merges), [EOT], trainer=name)[1]
        for name in TRAINERS
    }
    for name, merges in results.items():
        assert merges[:40] == results["naive"], name
        if name != "naive":
            assert merges == results["incremental"], name


def test_all_agree_on_natural_and_hostile_text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text(long_text(5, 60_000), encoding="utf-8", newline="")
    agree_on(path, 700)


DATA = Path(os.environ.get("CS336_DATA") or "/nonexistent")
CORPORA = ["tinystories_valid", "owt_sample", "multi_zh_wiki", "multi_emoji", "code_python"]


@pytest.mark.parametrize("corpus", [name for name in CORPORA if (DATA / f"{name}.txt").exists()])
def test_all_agree_on_real_text(corpus, tmp_path):
    path = tmp_path / "text.txt"
    path.write_bytes((DATA / f"{corpus}.txt").read_bytes()[:400_000])
    agree_on(path, 700)


@pytest.mark.parametrize("name", ["naive", "incremental", "heap"])
def test_timings_grow_during_the_loop(name):
    seen = []

    class Watched(TRAINERS[name]):
        def _advance(self, num_merges):
            seen.append(dict(self.timings))

    Watched().train_from_counts(WORKED_EXAMPLE, 262)
    assert len(seen) == 6
    for phase in PHASES[1:4]:
        assert seen[0][phase] < seen[-1][phase]
