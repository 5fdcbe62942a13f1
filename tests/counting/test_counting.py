"""Native counting matches the reference for any block size, number of threads and input."""

import functools
import itertools
import json
import random
import signal
import textwrap
import unicodedata
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import regex
from hypothesis import given, settings
from hypothesis import strategies as st

from cs336_basics.counting import WordCounts, _counting, count_text, count_texts, count_words
from cs336_basics.execution.executors import EXECUTORS
from cs336_basics.splitting import PATTERNS, SPLITTINGS, Splitter, reference
from cs336_basics.text import Corpus
from cs336_basics.text.encodings import check_signature
from cs336_basics.text.normalization import NORMALIZERS
from tests.counting.hostile import EOT, HOSTILE, SPLITTER, expected_counts
from tests.errors import rejects
from tests.faults import alarm
from tests.processes import run_python
from tests.text.combining import combining_text

count_natively = functools.partial(count_words, splitting="compiled", execution="threads")

WAYS = [
    {"splitting": splitting, "execution": execution}
    for splitting in SPLITTINGS
    for execution in EXECUTORS
    if execution != "ray"
]


@pytest.mark.parametrize("pattern", ["gpt2", "cl100k"])
@pytest.mark.parametrize("num_workers", [1, 2, 5])
def test_counts_and_order_do_not_depend_on_blocks_and_threads(hostile_file, pattern, num_workers):
    expected = expected_counts(HOSTILE, pattern=pattern)
    arrays = None
    for block_size in (1, 2, 3, 7, 64, 333, 1000, len(HOSTILE), 2**63, 10**30):
        counts = count_natively(
            hostile_file,
            Splitter(pattern, [EOT]),
            num_workers=num_workers,
            chunk_size=block_size,
        )
        assert counts == expected
        if arrays is not None:
            assert counts.words() == arrays.words()
            assert (counts.counts == arrays.counts).all()
        arrays = counts


def counts_of_normalized(texts, splitter):
    """Count the pre-tokens of texts that are normalized by hand."""
    counts = Counter()
    for text in texts:
        pieces = regex.split("|".join(map(regex.escape, splitter.special_tokens)), text)
        for piece in pieces if splitter.special_tokens else [text]:
            piece = unicodedata.normalize(splitter.normalizer, piece)
            counts.update(w.encode() for w in regex.findall(PATTERNS[splitter.pattern], piece))
    return counts


@pytest.mark.parametrize("normalizer", NORMALIZERS)
def test_normalized_text_is_counted(tmp_path, normalizer):
    chooser = random.Random(normalizer)
    # U+0338 after the token would become one character with its last character.
    splitter = Splitter("gpt2", [EOT, "<e>"], normalizer)
    texts = [combining_text(chooser, 400, [EOT, "<e>", "＜e>", "plain text, "]) for _ in range(6)]
    data = "".join(texts).encode() + b"\xff e" + EOT.encode()
    path, rows = tmp_path / "text.txt", tmp_path / "rows.jsonl"
    path.write_bytes(data)
    rows.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    expected = counts_of_normalized([data.decode("utf-8", "replace")], splitter)
    assert expected != expected_counts(data, [EOT, "<e>"])
    for way in [{}, *WAYS]:
        if way.get("execution") == "processes" and normalizer != "NFC":
            continue  # starting processes takes a second
        counts = count_words(path, splitter, num_workers=2, chunk_size=500, **way)
        assert counts == expected, way
        assert counts.normalizer == normalizer
    expected = counts_of_normalized(texts, splitter)
    corpus = Corpus(rows, field="text")
    for way in ({"execution": "serial"}, {"splitting": "regex", "execution": "threads"}):
        assert count_words(corpus, splitter, num_workers=2, **way) == expected
    assert count_texts(texts, splitter) == expected
    assert sum(map(Counter, (count_text(text, splitter) for text in texts)), Counter()) == expected


SPECIAL_TOKENS = [
    [],
    ["<|a|>"],
    ["<|a|>", "<|a|><|a|>", "<|b|>", "|><|"],
    [" ", "\n", "a b"],
    ["é", "字", "\u3000"],
    ["\ufffd"],
    ["x\ufffdy", "a"],
    [f"<|{i}|>" for i in range(20)] + ["<|", "<|1|><|2|>", "|"],
]


FRAGMENTS = ["<|a|>", "<|a|>", "<|b|>", "<|", "|>", "<|1|>", "<|2|>", "a", "b", " ", "  ", "\n"]
FRAGMENTS = [text.encode() for text in [*FRAGMENTS, "é", "字", "\u3000", "x", "y", "\ufffd"]]
FRAGMENTS += [b"\xff", b"\xc3", b"\xa9"]


def may_be_text(data):
    try:
        check_signature(data, "any.bin")
    except ValueError:
        return False
    return True


@settings(max_examples=600)
@given(
    data=st.lists(st.sampled_from(FRAGMENTS), min_size=1, max_size=60).map(b"".join)
    | st.binary(min_size=1, max_size=80).filter(may_be_text)
    | st.text(" '\n<|a>é字\u3000s!1", min_size=1, max_size=60).map(str.encode),
    special_tokens=st.sampled_from(SPECIAL_TOKENS),
    block_size=st.integers(1, 40) | st.just(1000),
    pattern=st.sampled_from(["gpt2", "cl100k"]),
)
def test_any_bytes_are_counted_like_the_reference(
    tmp_path_factory, data, special_tokens, block_size, pattern
):
    path = tmp_path_factory.getbasetemp() / "any_native.bin"
    path.write_bytes(data)
    corpus, splitter = Corpus(path, format="text"), Splitter(pattern, special_tokens)
    counts = count_natively(corpus, splitter, num_workers=2, chunk_size=block_size)
    assert counts == expected_counts(data, special_tokens, pattern)


def test_long_words_and_many_words_are_counted(tmp_path):
    rng = random.Random(5)
    words = ["x" * n for n in (*range(1, 70), 1000, 300_000)]
    words += ["".join(rng.choices("abcdefgh", k=rng.randint(1, 40))) for _ in range(60_000)]
    text = " ".join(rng.choices(words, k=100_000))
    path = tmp_path / "text.txt"
    path.write_text(text)
    expected = Counter(word.encode() for word in reference.pretokenize(text))
    assert count_natively(path, num_workers=1) == expected
    assert count_natively(path, num_workers=3, chunk_size=5000) == expected


@pytest.mark.parametrize("seed", [1, 2])
def test_words_that_change_slots_in_the_table_are_counted(tmp_path, seed):
    """Words that become frequent late move to the first slots, which hold frequent words."""
    rng = random.Random(seed)
    names = [
        " " + "".join(letters) for letters in itertools.product("abcdefghijklmnopqrstu", repeat=3)
    ]
    names += [" longlonglonglong" + name.strip() for name in names[:1_000]]
    words = []
    for _ in range(3):
        rng.shuffle(names)
        words += rng.choices(names, [1 / (rank + 1) for rank in range(len(names))], k=60_000)
    path = tmp_path / "words.txt"
    path.write_text("".join(words))
    assert count_natively(path, num_workers=2) == Counter(word.encode() for word in words)


def test_words_do_not_span_two_files(tmp_path):
    for name, text in (("1.txt", "one tw"), ("2.txt", "o three"), ("3.txt", ""), ("4.md", "x")):
        (tmp_path / name).write_text(text)
    expected = {b"one": 1, b" tw": 1, b"o": 1, b" three": 1}
    for how in WAYS:
        glob = tmp_path / "*.txt"
        assert count_words(glob, **how, num_workers=1) == expected
        files = [tmp_path / "1.txt", str(tmp_path / "2.txt")]
        assert count_words(files, **how, num_workers=1) == expected


@pytest.mark.parametrize(
    ("execution", "num_workers"), [("threads", 1), ("threads", 2), ("threads", 4), ("serial", 1)]
)
def test_message_includes_the_first_invalid_byte(tmp_path, execution, num_workers):
    path = tmp_path / "text.txt"
    data = bytearray(b"some words and more " * 5000)
    for offset in (93_333, 40_404, 77_777):
        data[offset] = 0xE9
    path.write_bytes(data)
    corpus = Corpus(path, errors="strict")
    with rejects(None, "0xe9", "40,404", place="text.txt"):
        count_words(corpus, execution=execution, num_workers=num_workers, chunk_size=512)


def test_missing_and_shortened_files_raise(tmp_path):
    path = tmp_path / "text.txt"
    path.write_bytes(b"word " * 1000)
    with rejects(None, "5,000", "9,000", place="text.txt"):
        _counting.count_files([path], [9000], [], "gpt2", 2, "replace", 700)
    with pytest.raises(FileNotFoundError, match=r"gone\.txt"):
        _counting.count_files([tmp_path / "gone.txt"], [10], [], "gpt2", 2, "replace", 700)
    with pytest.raises(IsADirectoryError):
        _counting.count_files([tmp_path], [10], [], "gpt2", 1, "replace", 700)
    # Bytes beyond the given size are not counted.
    counts, replaced = _counting.count_files([path], [10], [], "gpt2", 1, "replace", 700)
    assert WordCounts.of_buffers(counts) == {b"word": 1, b" word": 1, b" ": 1}
    nothing, _ = _counting.count_files([path], [0], [], "gpt2", 2, "replace", 700)
    assert WordCounts.of_buffers(nothing) == replaced == {}


def test_bad_arguments_are_rejected(hostile_file):
    pattern = r"\b\S+|\s+"
    with rejects("pattern", repr(pattern)):
        count_natively(hostile_file, Splitter(pattern))
    for option in ("splitting", "execution"):
        with rejects(option, "'magic'"):
            count_words(hostile_file, **{option: "magic"})


@pytest.mark.parametrize("num_workers", [1, 2, 3])
@pytest.mark.parametrize("most_own_words", [0, 1, 7, 100])
def test_shared_table_gives_the_same_counts(tmp_path, num_workers, most_own_words):
    paths = []
    for number in range(3):
        path = tmp_path / f"{number}.txt"
        # Each short word occurs in all files, and each long word in only one file.
        letters = ["".join(pair) for pair in itertools.product("abcdefghijklmn", repeat=2)]
        words = [f" word{pair}" for pair in letters]
        words += [f" {'long' * 9}{'xyz'[number]}{pair}" for pair in letters]
        path.write_bytes("".join(words * 3).encode() + HOSTILE)
        paths.append(path)
    sizes = [path.stat().st_size for path in paths]
    request = (paths, sizes, [], "gpt2", num_workers, "replace", 256)
    buffers, _ = _counting.count_files(*request, most_own_words=most_own_words)
    found = WordCounts.of_buffers(buffers)
    assert found == dict(count_natively(paths, num_workers=1))
    assert found[b" wordac"] == 9
    assert found[b" " + b"long" * 9 + b"zen"] == 3


@pytest.fixture
def long_task(tmp_path):
    path = tmp_path / "text.txt"
    path.write_bytes(b"many words of a text that is read again and again\n" * 40_000)
    return [path] * 5000


def test_exception_of_a_signal_handler_ends_the_threads(long_task):
    # The signal is repeated, because Python ignores an exception that its handler raises while a
    # destructor runs.
    with alarm(signal.default_int_handler, 0.2, 0.5), pytest.raises(KeyboardInterrupt):
        count_natively(long_task, num_workers=2)


def test_progress_is_reported_and_its_errors_end_the_threads(hostile_file, long_task):
    def count_with(callback, paths):
        sizes = [path.stat().st_size for path in paths]
        _counting.count_files(paths, sizes, [], "gpt2", 2, "replace", 1 << 20, callback)

    done = []
    count_with(done.append, [hostile_file])
    assert done[-1] == len(HOSTILE)
    assert done == sorted(done)

    def fail(num_bytes):
        raise RuntimeError("no more")

    with pytest.raises(RuntimeError, match="no more"):
        count_with(fail, long_task)


# `getrusage` would also count the memory of the process that forked this one.
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc/self/status")
def test_memory_does_not_grow_with_the_size_of_the_file(tmp_path):
    script = textwrap.dedent("""
        import sys
        from cs336_basics.splitting import Splitter
        from cs336_basics.counting import count_words
        splitter = Splitter(special_tokens=["<|endoftext|>"])
        count_words(sys.argv[1], splitter, num_workers=2)
        print([line.split()[1] for line in open("/proc/self/status") if "VmHWM" in line][0])
    """)
    peaks = []
    for megabytes in (5, 60):
        path = tmp_path / f"{megabytes}.txt"
        text = b"Words, words, 12 words and nothing but words.\n"
        path.write_bytes(text * (megabytes * 1_000_000 // len(text)))
        peaks.append(int(run_python(script, path).stdout))
    assert peaks[1] < peaks[0] + 5000, f"{peaks} KB"


@pytest.mark.parametrize("how", WAYS)
def test_every_way_gives_the_same_counts(hostile_file, how):
    counts = count_words(hostile_file, SPLITTER, **how, num_workers=2, chunk_size=2000)
    assert counts == expected_counts(HOSTILE)
    assert counts[b"no such word"] == 0
    assert counts.get(b"no such word") is None
    assert b"no such word" not in counts


def test_compiled_splitting_is_the_default_and_other_patterns_warn(hostile_file, recwarn):
    assert isinstance(count_words(hostile_file), WordCounts)
    assert isinstance(count_words(hostile_file, Splitter(r"\S+|\s")), WordCounts)
    assert all("not all UTF-8" in str(warning.message) for warning in recwarn.list)
    counts = count_words(hostile_file, Splitter(r"\S+\b|\S|\s"), num_workers=1)
    assert isinstance(counts, WordCounts)
    messages = [str(warning.message) for warning in recwarn.list]
    assert [message[:12] for message in messages if "UTF-8" not in message] == [r"pattern '\\S"]


def test_offsets_of_added_words_are_checked():
    counter = _counting.TextCounter()
    data, counts = np.zeros(3, np.uint8), np.array([5, 6])
    for offsets in ([0, 4, 3], [0, 1, 4], [-1, 1, 3], [2, 1, 3], [0, 2**62, 3], [0, -(2**63), 3]):
        with pytest.raises(ValueError, match="offsets"):
            counter.add_words(data, np.array(offsets), counts)
        with pytest.raises(ValueError, match="offsets"):
            _counting.first_repeated(data, np.array(offsets))


CHANGING = """
import threading, time, numpy as np
from cs336_basics.bpe import TRAINERS
from cs336_basics.counting import WordCounts
from cs336_basics.counting import _counting
words = [str(i).encode() for i in range(50_000)]
data = np.frombuffer(b"".join(words), np.uint8).copy()
offsets = np.cumsum([0, *map(len, words)])
counts = np.arange(1, len(words) + 1)
good = offsets.copy(), counts.copy()
end = time.monotonic() + 1.5

def change():
    while time.monotonic() < end:
        offsets[::100], counts[::7] = 1 << 40, 1 << 30
        offsets[::100], counts[::7] = -5, 4000
        offsets[:], counts[:] = good

thread = threading.Thread(target=change)
thread.start()
while time.monotonic() < end:
    for use in (
        lambda: _counting.TextCounter().add_words(data, offsets, counts),
        lambda: _counting.first_repeated(data, offsets),
        lambda: WordCounts(data, offsets, counts) + WordCounts(data, offsets, counts),
        lambda: TRAINERS["native"]().train_from_counts(WordCounts(data, offsets, counts), 260),
    ):
        try:
            use()
        except (ValueError, OverflowError):
            pass
print("survived")
"""


def test_arrays_that_another_thread_changes_do_not_crash():
    assert run_python(CHANGING).stdout.strip() == "survived"


@pytest.mark.parametrize(
    ("how", "pattern"),
    [*((how, "gpt2") for how in WAYS), (WAYS[0], "cl100k"), (WAYS[0], r"(?s:.+)")],
)
def test_text_without_a_safe_cut_is_rejected_beyond_the_limit(tmp_path, how, pattern):
    path = tmp_path / "a.txt"
    path.write_bytes(b"a word" + b"x" * 300_000 + b" and more")
    splitter = Splitter(pattern, ["<|x|>"])
    how = {**how, "num_workers": 2, "chunk_size": 40_000}
    with rejects(None, "a.txt", "200,000"):
        count_words(Corpus(path, max_piece_bytes=200_000), splitter, **how)
    whole = count_words(Corpus(path, max_piece_bytes=400_000), splitter, **how)
    assert whole == count_words(path, splitter, num_workers=1)
