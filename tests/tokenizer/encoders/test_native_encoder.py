"""The compiled encoder, compared with the reference: SIMD levels, arrays, batches, decoding."""

from __future__ import annotations

import functools
import gc
import itertools
import multiprocessing
import os
import random
import re
import signal
import subprocess
import sys
import threading
import warnings

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cs336_basics import TRAINERS
from cs336_basics.splitting._scanner import simd_levels
from cs336_basics.splitting.patterns.named_patterns import PATTERNS
from cs336_basics.tokenizer import AddedToken, Tokenizer
from cs336_basics.tokenizer.encoders.native_encoder import compile_encoder
from cs336_basics.tokenizer.reference import merge_pretoken_in_order
from tests.errors import rejects
from tests.faults import alarm
from tests.processes import run_python
from tests.tokenizer import examples
from tests.tokenizer.examples import (
    BYTES,
    END,
    SPECIALS,
    TRAINING_TEXT,
    reference_ids,
    small_tokenizer,
)

_encoder = pytest.importorskip(
    "cs336_basics.tokenizer.encoders._encoder", reason="the compiled encoder is not built"
)


def native(tokenizer: Tokenizer, simd_level: str, cache_size: int = 1 << 20) -> _encoder.Encoder:
    """Return a tokenizer's compiled encoder for a SIMD level."""
    return compile_encoder(tokenizer.definition, cache_size, simd_level=simd_level)


@functools.cache
def larger_vocabulary() -> Tokenizer:
    """Return a tokenizer with many long tokens, which repeat letters or occur in real text."""
    text = TRAINING_TEXT + " aaaaaaaaaaaaaaaa abababababababab 猫猫猫猫猫猫 " * 20
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the vocabulary is smaller than requested
        trained = TRAINERS["native"]().train_from_iterator([text], 2000, [END])
    return Tokenizer(*trained, [END])


# Word lengths near the thresholds between algorithms: 1, 16, 32, 64 and 128 bytes.
words = (
    st.text("ab", min_size=1, max_size=140)
    | st.text("the catr", min_size=1, max_size=70).map(lambda w: w.replace(" ", "") or "a")
    | st.text("猫鼠é", min_size=1, max_size=50)
)


@pytest.mark.parametrize(
    "simd_level", ["scalar", *[level for level in simd_levels() if level == "avx512"]]
)
@given(text=st.lists(words, min_size=1, max_size=12).map(" ".join))
@settings(max_examples=150, deadline=None)
@example(text=" ".join("a" * n for n in range(1, 140)))
@example(text=" ".join("ab" * n for n in range(1, 70)))
def test_words_of_all_lengths_get_the_ids_of_the_reference(simd_level, text):
    tokenizer = larger_vocabulary()
    encoder = native(tokenizer, simd_level)
    expected = reference_ids(tokenizer, text)
    special = _encoder.SpecialSet([])
    assert encoder.encode(text, special) == expected
    assert encoder.encode(text, special) == expected  # from the cache
    assert native(tokenizer, simd_level, cache_size=0).encode(text, special) == expected


ADDED = ["<a>", "x1", "\n\n\n", "é", "\t\t", *(" " * number for number in range(2, 9))]
CHAT = ["<|im_start|>", "<|im_end|>", "<|im_|>"]
PARTS = ["\n", "\n\n", " ", "\t", "\r\n", "the", " the", "12", "1234", "):", "'s", "猫",
         " é", "A", "_", " a b" * 9, "cat" * 70, "\xa0", "!", "a\n"]  # fmt: skip


@pytest.mark.parametrize("pattern", [*PATTERNS, r"\w+|\s+$|\s|[^\w\s]+"])
@pytest.mark.parametrize("simd_level", dict.fromkeys(["scalar", simd_levels()[-1]]))
@pytest.mark.parametrize("contents", [ADDED, CHAT])
def test_texts_between_added_tokens_are_encoded_as_if_alone(contents, simd_level, pattern):
    """Short ones are joined before they are split."""
    trained = larger_vocabulary()
    tokens = [AddedToken(content, special=False) for content in contents]
    tokenizer = Tokenizer(trained.vocab, trained.merges, [END, *tokens], pattern=pattern)
    ids = tokenizer.definition.added_ids
    added, none = _encoder.SpecialSet(ids.items()), _encoder.SpecialSet([])
    encoder, off = (native(tokenizer, simd_level, cache_size=size) for size in (1 << 20, 0))
    longest_first = sorted(map(re.escape, contents), key=len, reverse=True)
    parts = [*PARTS, *(len(PARTS) // len(contents) + 1) * contents, *(part[:-1] for part in CHAT)]
    chooser = random.Random(pattern)
    for _ in range(150):
        text = "".join(chooser.choices(parts, k=chooser.randrange(60)))
        expected = []
        for part in re.split(f"({'|'.join(longest_first)})", text):
            expected += [ids[part]] if part in ids else encoder.encode(part, none)
        assert encoder.encode(text, added) == expected, text
        assert off.encode(text, added) == expected, text


def test_a_word_with_more_than_a_million_pairs():
    pairs = [a + b for a in (b"a", b"b") for b in (b"a", b"b")]
    merges = [(token[:1], token[1:]) for token in pairs] + list(itertools.product(pairs, pairs))
    vocab = {**BYTES, **{300 + i: left + right for i, (left, right) in enumerate(merges)}}
    tokenizer = Tokenizer(vocab, merges)
    word = "".join(random.Random(3).choices("ab", k=500_000))
    tokens = merge_pretoken_in_order(word.encode(), merges)
    assert tokenizer.decode_bytes(tokenizer.encode(word)) == b"".join(tokens) == word.encode()
    ids = {token: token_id for token_id, token in vocab.items()}
    assert tokenizer.encode(word) == [ids[token] for token in tokens]


@pytest.mark.parametrize("offset", [0, 65_234, 65_235, 2**31, 2**32 - 400])
def test_ids_of_any_size_fit_their_arrays(offset):
    vocab = {offset + i: bytes([i]) for i in range(256)} | {
        offset + 300: b"th",
        offset + 299: b"the",
    }
    tokenizer = Tokenizer(vocab, [(b"t", b"h"), (b"th", b"e")], [END])
    text = f"the thé{END}th "
    expected = reference_ids(tokenizer, text)
    assert tokenizer.encode(text) == expected
    if tokenizer.vocab_size < 2**32:
        array = tokenizer.encode_array(text)
        assert array.tolist() == expected
        assert array.dtype == (np.uint16 if offset <= 65_234 else np.uint32)
    assert tokenizer.decode(expected) == text


@pytest.mark.parametrize("special_tokens", [(), (END,), (END, " the", "\ufffd")])
def test_threads_and_blocks_do_not_change_the_ids(special_tokens):
    chooser = random.Random(5)
    parts = [*TRAINING_TEXT.split(" "), END, "\n\n", "  ", "x" * 500, "猫" * 300]
    text = " ".join(chooser.choice(parts) for _ in range(150_000))
    num_bytes = len(text.encode())
    assert num_bytes > 2 << 20  # several blocks
    tokenizer = small_tokenizer(special_tokens)
    expected = np.array(tokenizer.encode(text))
    for num_workers in (1, 2, 3, None):
        array = tokenizer.encode_array(text, num_workers=num_workers)
        assert np.array_equal(array, expected), num_workers


def test_large_texts_can_be_interrupted_and_get_the_same_ids():
    tokenizer = small_tokenizer()
    cut = TRAINING_TEXT * (17_000_000 // len(TRAINING_TEXT.encode()) + 1)  # many spans
    whole = "!." * 8_600_000  # one span
    for text in (cut, whole):
        ids = tokenizer.encode(text)
        assert np.array_equal(ids, tokenizer.encode_array(text, num_workers=2))
        assert tokenizer.decode(ids) == text


@pytest.mark.parametrize("num_workers", [1, 2])
def test_the_garbage_collector_tracks_a_batch_only_when_it_is_complete(num_workers):
    tokenizer = small_tokenizer()
    texts = [TRAINING_TEXT * (1 + 1000 // len(TRAINING_TEXT))] * 2500
    expected = tokenizer.encode(texts[0])
    seen = []

    def count_lists(phase, info):
        if phase == "start":
            lists = (found for found in gc.get_objects() if type(found) is list)
            seen.append(sum(found == expected and found is not expected for found in lists))

    gc.callbacks.append(count_lists)
    try:
        lists = tokenizer.encode_batch(texts, num_workers=num_workers)
    finally:
        gc.callbacks.remove(count_lists)
    # In Python 3.12 and later, garbage is collected when the call returns.
    assert set(seen) <= {0, len(texts)}
    assert all(map(gc.is_tracked, lists))


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs POSIX signals")
@pytest.mark.parametrize("offset", [0, 1 << 21])
def test_signal_handlers_never_find_an_incomplete_list(offset):
    tokenizer = Tokenizer({offset + i: bytes([i]) for i in range(256)}, [])
    length, calls, num_items = 3_000_000, [], []

    def look(*_):
        calls.append(1)
        lists = [o for o in gc.get_objects() if type(o) is list and len(o) == length]
        num_items.extend(len(gc.get_referents(o)) for o in lists)
        if len(calls) < 100:  # start the timer only now, so that calls of the handler do not nest
            signal.setitimer(signal.ITIMER_REAL, 0.001)

    with alarm(look, 0.001):
        tokenizer.encode("a" * length)
    assert calls
    assert set(num_items) <= {length}


def test_every_utf8_string_survives_encoding_and_decoding():
    tokenizer = small_tokenizer()
    for start in range(0, 0x110000, 0x8000):
        codes = range(start, start + 0x8000)
        text = "".join(chr(code) for code in codes if not 0xD800 <= code < 0xE000)
        assert tokenizer.decode(tokenizer.encode(text)) == text


NO_THREADS = """
import resource, sys
from tests.tokenizer.examples import small_tokenizer
from cs336_basics.tokenizer import encode_file
tokenizer = small_tokenizer()
# Leave too little memory for the stack of a thread.
resource.setrlimit(resource.RLIMIT_AS, (1 << 32, 1 << 32))
calls = {
    "array": lambda: tokenizer.encode_array("a b " * (1 << 20), num_workers=2),
    "file": lambda: encode_file(tokenizer, sys.argv[1], sys.argv[1] + ".npy", num_workers=2),
}
for call in calls.values():
    try:
        call()
    except RuntimeError as error:
        print(error)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs Linux's resource limits")
def test_the_error_reports_that_no_thread_can_be_started(tmp_path):
    import resource

    stack, most = 1 << 33, resource.getrlimit(resource.RLIMIT_STACK)[1]
    if 0 <= most < stack:
        pytest.skip("the hard limit on the stack size is below 8 GiB")
    (tmp_path / "a.txt").write_text("some text")
    run = subprocess.run(
        [sys.executable, "-c", NO_THREADS, str(tmp_path / "a.txt")],
        env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_STACK, (stack, most)),
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout.count("no thread could be started: ") == 2
    assert os.listdir(tmp_path) == ["a.txt"]


def encoding_of(tokenizer, path, block_size):
    return tokenizer.encoder.encode_files(
        [str(path)], [path.stat().st_size], block_size=block_size, num_workers=1,
        errors="replace", separator=None, max_piece_bytes=1 << 26,
    )  # fmt: skip


def test_the_ids_of_a_block_stay_valid_after_the_next_one(tmp_path):
    tokenizer = small_tokenizer()
    (tmp_path / "a.txt").write_text("some words " * 100)
    encoding = encoding_of(tokenizer, tmp_path / "a.txt", 200)
    with pytest.raises(BufferError, match="no block"):
        memoryview(encoding)
    for _ in range(3):
        _, ids, *_ = next(encoding)
    expected = ids.tolist()
    encoding.close()
    del encoding
    # If the ids' memory had been freed, these arrays would overwrite it.
    others = [np.full(ids.nbytes + extra, 255, np.uint8) for extra in range(0, 2000, 8)]
    assert ids.tolist() == expected
    assert not ids.flags.writeable
    assert len(others) == 250


def test_a_file_encoding_closed_by_another_thread_ends(tmp_path):
    # Encoding this single word would take longer than the whole test.
    (tmp_path / "a.txt").write_bytes(bytes(random.Random(5).choices(b"!.<|>", k=1 << 20)) * 60)
    encoding = encoding_of(small_tokenizer(), tmp_path / "a.txt", 1 << 20)
    found = []
    thread = threading.Thread(target=lambda: found.append(list(encoding)), daemon=True)
    thread.start()
    thread.join(0.2)
    encoding.close()
    thread.join(30)
    assert found == [[]]


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="needs /proc")
def test_the_cache_keeps_to_its_limit():
    program = """
import sys
from cs336_basics import Tokenizer
def peak():
    # The ru_maxrss of a new process starts at its parent's value.
    with open("/proc/self/status") as status:
        line = next(line for line in status if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024
# All digits can merge, so that numbers are not split into a few cacheable segments.
merges = [(b"%d" % i, b"%d" % j) for i in range(10) for j in range(10)]
tokens = [bytes([i]) for i in range(256)] + [left + right for left, right in merges]
tokenizer = Tokenizer(dict(enumerate(tokens)), merges, cache_size=int(sys.argv[1]))
tokenizer.encode_array("a")
before = peak()
for start in range(0, 600_000, 20_000):
    tokenizer.encode_array(" ".join(f"{n:020}" for n in range(start, start + 20_000)))
print(peak() - before)
"""
    grown = {}
    for limit in (1 << 20, 1 << 30):
        grown[limit] = int(run_python(program, limit).stdout)
    # 600,000 cached 20-digit numbers take well over 60 MB.
    assert grown[1 << 30] > 50_000_000
    assert grown[1 << 20] < 20_000_000


def _encode_in_child(tokenizer, text, queue):
    queue.put(tokenizer.encode_array(text, num_workers=2).tolist())


@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_a_tokenizer_is_sent_to_other_processes(start):
    if start not in multiprocessing.get_all_start_methods():
        pytest.skip(f"this system has no {start}")
    tokenizer = small_tokenizer()
    text = TRAINING_TEXT * 1000
    expected = tokenizer.encode_array(text, num_workers=2).tolist()
    context = multiprocessing.get_context(start)
    queue = context.Queue()
    with warnings.catch_warnings():
        # Python 3.12 warns about forking while threads of other tests are still running.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = context.Process(target=_encode_in_child, args=(tokenizer, text, queue))
        child.start()
    assert queue.get(timeout=60) == expected
    child.join(60)
    assert child.exitcode == 0


# Syllables for phrases, mostly in scripts that are written without spaces between words.
SYLLABLES = {
    "Chinese": "的一是不了在人有我他这中大来上国個到說們",
    "kana": "あいうえおかきくけこアイウエオカキクケコ",
    "Thai": "กขคงจฉชซดตถทนบปผพฟมย",
    "Latin": "abcdefghij",
    "mixed": "的一是あいアกขéßñжabx😀🎉",
}


def phrases(alphabet, count, length, seed):
    rng = random.Random(seed)
    words = ["".join(rng.choices(alphabet, k=rng.randint(1, 4))) for _ in range(60)]
    return ["".join(rng.choices(words, k=rng.randint(1, length))) for _ in range(count)]


@functools.cache
def trained(script):
    texts = phrases(SYLLABLES[script], 400, 12, seed=1)
    return Tokenizer(*TRAINERS["native"]().train_from_iterator(texts, 500, []))


@pytest.mark.parametrize("script", SYLLABLES)
def test_phrases_get_the_ids_of_the_reference_with_a_cache_of_any_size(script):
    made = trained(script)
    # Phrases used in training, new words composed of the same syllables, and other scripts.
    known = phrases(SYLLABLES[script], 100, 12, seed=1)
    others = phrases(SYLLABLES[script], 100, 60, seed=2)
    foreign = phrases(SYLLABLES["mixed"], 50, 30, seed=3)
    text = " ".join(known + others + foreign)
    expected = reference_ids(made, text)
    for cache_size in (0, 1 << 14, 1 << 27):
        tokenizer = Tokenizer(made.vocab, made.merges, cache_size=cache_size)
        for _ in range(3):  # new words, known words, cached words
            assert tokenizer.encode(text) == expected


def test_a_cache_of_segments_is_shared_by_phrases_of_all_lengths():
    made = trained("Chinese")
    tokenizer = Tokenizer(made.vocab, made.merges)
    long = "".join(phrases(SYLLABLES["Chinese"], 3000, 12, seed=4))  # one word
    ids = tokenizer.encode(long)
    assert tokenizer.decode(ids) == long
    assert ids == Tokenizer(made.vocab, made.merges, cache_size=0).encode(long)
    assert ids == Tokenizer(made.vocab, made.merges, backend="python").encode(long)


# Python stores a str with one, two or four bytes per character.
STORED = {"latin-1": "é\xa0 naïve", "two bytes": "漢字 жизнь é", "four bytes": "😀 漢 ж é"}


@pytest.mark.parametrize("stored", STORED)
@pytest.mark.parametrize("length", [1, 19, 4_097, 70_001, 700_001])
def test_a_str_of_any_storage_width_gets_the_ids_of_its_utf8(stored, length):
    tokenizer = small_tokenizer(SPECIALS)
    rng = random.Random(length)
    alphabet = [*STORED[stored], "a", " ", "the", "\n", END]
    text = STORED[stored][:1] + "".join(rng.choices(alphabet, k=length))
    expected = tokenizer.encode_array(text.encode())
    assert tokenizer.encode(text) == expected.tolist()
    for num_workers in (1, 2, 3):
        np.testing.assert_array_equal(
            tokenizer.encode_array(text, num_workers=num_workers), expected
        )
        texts = [text, "ASCII", text[:100]]
        ids, offsets = tokenizer.encode_batch_array(texts, num_workers=num_workers)
        np.testing.assert_array_equal(ids[: offsets[1]], expected)
        lists = tokenizer.encode_batch(texts, num_workers=num_workers)
        assert lists == [tokenizer.encode(text) for text in texts]
        assert ids.tolist() == list(itertools.chain(*lists))


@pytest.mark.parametrize("before", ["a", "é", "漢", "😀"])
@pytest.mark.parametrize("length", [0, 30, 700_000])
def test_the_error_names_a_lone_surrogate_in_a_text_of_any_length(before, length):
    tokenizer = small_tokenizer(SPECIALS)
    text = before * length + "\udfff" + before * 40
    shown = f"U+DFFF at character {length:,}"
    with rejects(None, shown):
        tokenizer.encode(text)
    for num_workers in (1, 2):
        with rejects(None, shown):
            tokenizer.encode_array(text, num_workers=num_workers, errors="strict")
        for encode in (tokenizer.encode_batch, tokenizer.encode_batch_array):
            with rejects(None, shown, place="text 1"):
                encode(["fine", text], num_workers=num_workers)


class Shouted(str):
    """A str whose methods report different characters."""

    def encode(self, *arguments):
        return super().upper().encode()


def test_a_subclass_of_str_is_encoded_by_its_characters():
    tokenizer = small_tokenizer(SPECIALS)
    for text in ("the cat", "thé cat", "漢 cat"):
        expected = tokenizer.encode(text)
        assert tokenizer.encode(Shouted(text)) == expected
        assert tokenizer.encode_array(Shouted(text)).tolist() == expected
        assert tokenizer.encode_batch([Shouted(text)]) == [expected]
        for encode in (
            tokenizer.encode,
            lambda t: tokenizer.encode_array(t, errors="strict"),
            lambda t: tokenizer.encode_batch([t]),
        ):
            with rejects(None, "U+D800"):
                encode(Shouted(text + "\ud800"))


CODE = [
    *"abx_19 .,;:!(){}=#'\"\t\n", *(" " * length for length in (1, 2, 4, 8, 23, 25, 40)),
    "\n" + " " * 8, ";\n    ", "{\n\n  ", "if x:", " self", "é", "中文", "\u2028", "\r\n", "123456",
    "don't",
]  # fmt: skip


@pytest.mark.parametrize("number", [4, pytest.param(12, marks=pytest.mark.slow)])
@pytest.mark.parametrize("pattern", ["gpt2", "cl100k", "llama3", "qwen2", "o200k", "deepseek-v3"])
def test_texts_between_many_added_tokens_are_split_alone(pattern, number):
    chooser = random.Random(pattern)
    others = ["\n", "\t", "é", "<|im_start|>", "ab", "\n  ", "x" * 40, "1", "中"]
    for case in range(number):
        runs = [" " * length for length in range(2, 25)]
        if case % 4 == 3:  # a run of this length is two tokens
            runs.remove(chooser.choice(runs))
        tokens = runs + chooser.sample(others, case % 4)
        vocab, merges = examples.trained()
        known = set(vocab.values())
        added = [token for token in tokens if token.encode() not in known]
        tokenizer = Tokenizer(vocab, merges, added, pattern=pattern)
        plain = Tokenizer(vocab, merges, added, pattern=pattern, backend="python")
        # Short texts, and texts that are longer than what is joined at once.
        texts = [
            "".join(chooser.choices([*CODE, *tokens], k=chooser.choice([3, 10, 100, 6000])))
            for _ in range(8)
        ]
        for text in texts:
            expected = plain.encode(text)
            for _ in range(2):  # with an empty cache, and with what the first call has put there
                assert tokenizer.encode(text) == expected


@pytest.mark.parametrize("pattern", ["gpt2", r"[^\n]+|\n+"])
@pytest.mark.parametrize("num_bytes", [512, 1024, 2000, 4096])
def test_a_part_may_end_after_every_byte(pattern, num_bytes):
    # Superwords are searched for in blocks. All of their boundaries were one more than had room.
    vocab, merges = examples.trained()
    native, python = (
        Tokenizer(vocab, merges, pattern=pattern, backend=backend)
        for backend in ("native", "python")
    )
    for text in ("<m" * (num_bytes // 2), "a1" * (num_bytes // 2)):
        assert native.encode(text) == python.encode(text)
        assert native.encode_array(text).tolist() == python.encode(text)
