"""The compiled encoder against the reference: every SIMD level, arrays, batches, decoding."""

from __future__ import annotations

import functools
import gc
import itertools
import random
import signal
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cs336_basics.bpe import train_bpe
from cs336_basics.tokenizer import StreamingDecoder, Tokenizer
from cs336_basics.tokenizer.encoders.native_encoder import compile_vocabulary
from cs336_basics.tokenizer.reference import (
    encode_text,
    merge_pretoken,
    merge_pretoken_in_order,
)
from cs336_basics.tokenizer.vocabulary import Vocabulary
from tests.tokenizer.examples import (
    BYTES,
    CORPORA,
    END,
    FRAGMENTS,
    SPECIALS,
    TRAINING_TEXT,
    data_file,
    edited_merges,
    small_tokenizer,
    tricky_texts,
)

_encoder = pytest.importorskip(
    "cs336_basics.tokenizer.encoders._encoder", reason="the compiled encoder is not built"
)
from cs336_basics.pretokenization._scanner import simd_levels  # noqa: E402


def reference(tokenizer: Tokenizer, text: str) -> list[int]:
    return encode_text(
        text, tokenizer.vocab, tokenizer.merges, tokenizer.special_tokens, tokenizer.pattern
    )


def native(tokenizer: Tokenizer, simd_level: str, cache_size: int = 1 << 20) -> _encoder.Encoder:
    """Return the compiled encoder of a tokenizer, at one SIMD level."""
    vocabulary = Vocabulary(tokenizer.vocab, tokenizer.merges)
    return compile_vocabulary(vocabulary, "gpt2", cache_size, simd_level=simd_level)


@functools.cache
def larger_vocabulary(tmp_path_factory_text: str = TRAINING_TEXT) -> Tokenizer:
    """A vocabulary with many long tokens: words of one letter, of two, of real text."""
    import tempfile

    text = tmp_path_factory_text + " aaaaaaaaaaaaaaaa abababababababab 猫猫猫猫猫猫 " * 20
    with tempfile.TemporaryDirectory() as directory, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = Path(directory) / "text.txt"
        path.write_text(text, encoding="utf-8", newline="")
        return Tokenizer(*train_bpe(path, 2000, [END], num_workers=1), [END])


# Words with lengths on both sides of every change of algorithm: 1, 16, 32, 64, 128 bytes.
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
    expected = reference(tokenizer, text)
    special = _encoder.SpecialSet([])
    assert encoder.encode(text, special) == expected
    assert encoder.encode(text, special) == expected  # now from the cache
    assert native(tokenizer, simd_level, cache_size=0).encode(text, special) == expected


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


@given(seed=st.integers(0, 10**6), text=st.text("abc ", max_size=200))
@settings(max_examples=150, deadline=None)
def test_merges_in_any_order_give_the_ids_of_the_reference(seed, text):
    vocab, merges = edited_merges(seed)
    vocab = {**vocab, max(vocab) + 1: b" "}
    tokenizer = Tokenizer(vocab, merges)
    assert tokenizer.encode(text) == reference(tokenizer, text)


@pytest.mark.parametrize("offset", [0, 65_000, 70_000, 2**31, 2**32 - 400])
def test_ids_of_any_size_fit_their_arrays(offset):
    vocab = {offset + i: bytes([i]) for i in range(256)} | {
        offset + 300: b"th",
        offset + 299: b"the",
    }
    tokenizer = Tokenizer(vocab, [(b"t", b"h"), (b"th", b"e")], [END])
    text = f"the thé{END}th "
    expected = reference(tokenizer, text)
    assert tokenizer.encode(text) == expected
    if tokenizer.vocab_size < 2**32:
        array = tokenizer.encode_array(text)
        assert array.tolist() == expected
        assert array.dtype == (np.uint16 if offset <= 65_000 else np.uint32)
    assert tokenizer.decode(expected) == text


def test_the_greatest_id_of_16_bits():
    for greatest in (2**16 - 1, 2**16):
        tokenizer = Tokenizer({**BYTES, greatest: b"ab"}, [(b"a", b"b")])
        array = tokenizer.encode_array("ab cab")
        assert array.tolist() == [greatest, 32, 99, greatest]
        assert array.dtype == (np.uint16 if greatest < 2**16 else np.uint32)


# ------------------------------------------------------------------ arrays


@pytest.mark.parametrize("pattern", ["gpt2", "cl100k", r"\w+|\W"])
@given(text=tricky_texts)
@settings(max_examples=60, deadline=None)
def test_arrays_hold_the_ids(pattern, text):
    tokenizer = small_tokenizer(tuple(SPECIALS), pattern)
    for given_text in (text, text.encode()):
        array = tokenizer.encode_array(given_text)
        assert array.tolist() == tokenizer.encode(text)
        assert array.dtype == np.uint16
        assert array.ndim == 1


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


def test_large_texts_are_encoded_where_ctrl_c_is_seen_and_to_the_same_ids():
    tokenizer = small_tokenizer()
    cut = TRAINING_TEXT * (17_000_000 // len(TRAINING_TEXT.encode()) + 1)  # many spans
    whole = "!." * 8_600_000  # one
    for text in (cut, whole):
        ids = tokenizer.encode(text)
        assert ids == tokenizer.encode_array(text, num_workers=2).tolist()
        assert ids == list(tokenizer.encode_iterable([text]))
        assert tokenizer.decode(ids) == text


def test_a_text_without_any_cut_is_one_block():
    text = "x" * (3 << 20)
    tokenizer = small_tokenizer()
    array = tokenizer.encode_array(text, num_workers=2)
    assert tokenizer.decode(array) == text


@given(data=st.binary(max_size=40) | st.lists(st.sampled_from(
    [b"the", b" cat", b"\xff", b"\xe2\x82", b"\xf0\x9f", b"\xc3(", "猫".encode(), END.encode()]
)).map(b"".join))  # fmt: skip
@settings(max_examples=150, deadline=None)
def test_bytes_that_are_not_utf8_are_decoded_with_replacement(data):
    tokenizer = small_tokenizer()
    expected = tokenizer.encode(data.decode("utf-8", errors="replace"))
    assert tokenizer.encode_array(data).tolist() == expected
    try:
        data.decode()
    except UnicodeDecodeError as error:
        with pytest.raises(ValueError, match=f"offset {error.start} is not valid UTF-8"):
            tokenizer.encode_array(data, errors="strict")
    else:
        assert tokenizer.encode_array(data, errors="strict").tolist() == expected


def test_arguments_of_encode_array_are_checked():
    tokenizer = small_tokenizer()
    with pytest.raises(TypeError, match="int"):
        tokenizer.encode_array(5)
    with pytest.raises(ValueError, match="ignore"):
        tokenizer.encode_array(b"a", errors="ignore")
    with pytest.raises(ValueError, match="num_workers"):
        tokenizer.encode_array("a", num_workers=0)
    with pytest.raises(ValueError, match=r"U\+D800 at character 2"):
        tokenizer.encode_array("ab\ud800")


# ------------------------------------------------------------------ batches, offsets


@given(texts=st.lists(tricky_texts, max_size=6))
@settings(max_examples=60, deadline=None)
def test_a_batch_is_the_texts_one_by_one(texts):
    tokenizer = small_tokenizer(tuple(SPECIALS))
    assert tokenizer.encode_batch(texts) == [tokenizer.encode(text) for text in texts]
    assert tokenizer.decode_batch(tokenizer.encode_batch(texts)) == texts


def test_a_large_batch_is_encoded_by_several_threads():
    tokenizer = small_tokenizer()
    texts = [TRAINING_TEXT[i % 100 :] * (i % 7) for i in range(2000)]
    assert sum(map(len, texts)) > 1 << 20
    expected = [tokenizer.encode(text) for text in texts]
    assert tokenizer.encode_batch(texts, num_workers=3) == expected
    assert tokenizer.encode_batch(iter(texts), num_workers=1) == expected
    for num_workers in (1, 3):
        ids, offsets = tokenizer.encode_batch_array(texts, num_workers=num_workers)
        assert [part.tolist() for part in np.split(ids, offsets[1:-1])] == expected


@pytest.mark.parametrize("num_workers", [1, 2])
def test_the_garbage_collector_sees_the_lists_of_a_batch_when_all_are_made(num_workers):
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
    # (Python 3.12 and later collect when the call returns.)
    assert set(seen) <= {0, len(texts)}
    assert all(map(gc.is_tracked, lists))


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="signals are those of POSIX")
@pytest.mark.parametrize("offset", [0, 1 << 21])
def test_no_signal_handler_finds_a_list_that_is_not_complete(offset):
    tokenizer = Tokenizer({offset + i: bytes([i]) for i in range(256)}, [])
    length, calls, num_items = 3_000_000, [], []

    def look(*_):
        calls.append(1)
        lists = [o for o in gc.get_objects() if type(o) is list and len(o) == length]
        num_items.extend(len(gc.get_referents(o)) for o in lists)
        if len(calls) < 100:  # (The timer is set again here: handlers must not be nested.)
            signal.setitimer(signal.ITIMER_REAL, 0.001)

    before = signal.signal(signal.SIGALRM, look)
    signal.setitimer(signal.ITIMER_REAL, 0.001)
    try:
        tokenizer.encode("a" * length)
    finally:
        calls.extend(range(100))
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert len(calls) > 100
    assert set(num_items) <= {length}


@pytest.mark.parametrize("num_workers", [1, 2, 5])
@pytest.mark.parametrize("where", [0, 700, 1999])
def test_the_first_text_with_an_error_is_named_by_any_number_of_threads(num_workers, where):
    tokenizer = Tokenizer({0: b"a", 1: b" "}, [])
    texts = ["a " * 500] * 2000
    texts[where] = "a b"
    texts[-1] = "a b"
    for encode in (tokenizer.encode_batch, tokenizer.encode_batch_array):
        with pytest.raises(ValueError, match=rf"text {where:,}: .*0x62 of 'b' at character 2"):
            encode(texts, num_workers=num_workers)
    ids, offsets = tokenizer.encode_batch_array([], num_workers=num_workers)
    assert (len(ids), offsets.tolist()) == (0, [0])
    assert tokenizer.encode_batch(["", "", "a"], num_workers=num_workers) == [[], [], [0]]


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="signals are those of POSIX")
@pytest.mark.parametrize("offset", [0, 1 << 21])
def test_signals_are_seen_between_the_texts_of_a_batch(offset):
    vocab = {offset + i: bytes([i]) for i in range(256)}
    seen = []
    before = signal.signal(signal.SIGALRM, lambda *_: seen.append(1))
    signal.setitimer(signal.ITIMER_REAL, 0.002, 0.002)
    try:
        Tokenizer(vocab, []).encode_batch([TRAINING_TEXT * 100] * 200, num_workers=1)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    # (Signals that arrive between two checks become one.)
    assert len(seen) > 5


def test_the_text_that_cannot_be_encoded_is_named():
    tokenizer = Tokenizer({0: b"a", 1: b" "}, [])
    with pytest.raises(ValueError, match=r"text 1: .*0x62 .*character 2"):
        tokenizer.encode_batch(["a a", "a b", "c"])
    with pytest.raises(ValueError, match=r"text 2: .*U\+DFFF"):
        tokenizer.encode_batch(["a a", "a", "a\udfff"])
    with pytest.raises(TypeError, match=r"text 1: .*bytes"):
        tokenizer.encode_batch(["a", b"a"])
    with pytest.raises(ValueError, match="sequence 1: id 7"):
        tokenizer.decode_batch([[0], [7]])


@pytest.mark.parametrize("pattern", ["gpt2", "cl100k", r"\w+|[^\w ]"])
@given(text=tricky_texts)
@settings(max_examples=80, deadline=None)
def test_offsets_span_the_text_of_each_token(pattern, text):
    tokenizer = small_tokenizer(tuple(SPECIALS), pattern)
    ids, offsets = tokenizer.encode_with_offsets(text)
    assert ids == tokenizer.encode(text)
    assert len(offsets) == len(ids)
    for token_id, (start, end) in zip(ids, offsets, strict=True):
        part = text[start:end].encode()
        token = tokenizer.vocab[token_id]
        assert token in part
        # Whole characters equal the token; an incomplete one adds at most three bytes on each side.
        assert len(part) - len(token) <= 6
    assert [start for start, _ in offsets] == sorted(start for start, _ in offsets)
    if pattern in ("gpt2", "cl100k") and text:
        assert offsets[0][0] == 0
        assert offsets[-1][1] == len(text)


# ------------------------------------------------------------------ special tokens by call


def test_special_tokens_can_be_allowed_and_refused():
    tokenizer = small_tokenizer((END, "<|pad|>"))
    text = f"the {END} cat<|pad|>"
    end, pad = tokenizer.special_token_id(END), tokenizer.special_token_id("<|pad|>")
    assert {end, pad} <= set(tokenizer.encode(text))
    plain = tokenizer.encode(text, allowed_special=())
    assert not {end, pad} & set(plain)
    assert tokenizer.decode(plain) == text
    some = tokenizer.encode(text, allowed_special=[END])
    assert end in some
    assert pad not in some
    assert tokenizer.decode(some) == text
    with pytest.raises(ValueError, match=r"'<\|pad\|>' at character 21"):
        tokenizer.encode(text, allowed_special=[END], disallowed_special="all")
    with pytest.raises(ValueError, match=r"<\|endoftext\|>' at character 4"):
        tokenizer.encode_array(text, allowed_special=(), disallowed_special=[END])
    with pytest.raises(ValueError, match=r"text 1: .*character 0"):
        tokenizer.encode_batch(["a", END], allowed_special=(), disallowed_special="all")
    with pytest.raises(ValueError, match="'<x>' is not a special token"):
        tokenizer.encode(text, allowed_special=["<x>"])
    with pytest.raises(ValueError, match="both"):
        tokenizer.encode(text, allowed_special=[END], disallowed_special=[END])
    with pytest.raises(ValueError, match="'all'"):
        tokenizer.encode(text, allowed_special="none")
    with pytest.raises(TypeError, match="allowed_special is b'all': it must be 'all' or a list"):
        tokenizer.encode(text, allowed_special=b"all")
    for allowed in (None, [END]):
        for disallowed in (None, 0, False):
            with pytest.raises(TypeError, match=f"disallowed_special is {disallowed}: it must be"):
                tokenizer.encode(text, allowed_special=allowed, disallowed_special=disallowed)
    assert tokenizer.encode_with_offsets(text, allowed_special=[END])[0] == some


ENCODE = {
    "encode": lambda tokenizer, text, **choice: tokenizer.encode(text, **choice),
    "encode_array": lambda tokenizer, text, **choice: list(tokenizer.encode_array(text, **choice)),
    "encode_batch": lambda tokenizer, text, **choice: tokenizer.encode_batch([text], **choice)[0],
    "encode_batch_array": lambda tokenizer, text, **choice: list(
        tokenizer.encode_batch_array([text], **choice)[0]
    ),
    "encode_with_offsets": lambda tokenizer, text, **choice: tokenizer.encode_with_offsets(
        text, **choice
    )[0],
}


@pytest.mark.parametrize("name", ENCODE)
def test_special_tokens_that_are_only_disallowed_are_refused(name):
    tokenizer, encode = small_tokenizer((END, "<|pad|>")), ENCODE[name]
    for disallowed in ("all", [END]):
        with pytest.raises(ValueError, match=r"<\|endoftext\|>' at character 4"):
            encode(tokenizer, f"the {END} cat", disallowed_special=disallowed)
        assert encode(tokenizer, "the cat", disallowed_special=disallowed) == tokenizer.encode(
            "the cat"
        )
    pad = tokenizer.special_token_id("<|pad|>")  # is not disallowed, and so allowed
    assert pad in encode(tokenizer, "the<|pad|>", disallowed_special=[END])


@given(text=tricky_texts, allowed=st.sets(st.sampled_from(SPECIALS)))
@settings(max_examples=100, deadline=None)
def test_a_subset_of_special_tokens_can_be_allowed(text, allowed):
    tokenizer = small_tokenizer(tuple(SPECIALS))
    expected = encode_text(text, tokenizer.vocab, tokenizer.merges, sorted(allowed))
    assert tokenizer.encode(text, allowed_special=allowed) == expected


# ------------------------------------------------------------------ decoding


@given(ids=st.lists(st.integers(0, 300), max_size=50))
@settings(max_examples=100, deadline=None)
def test_every_kind_of_sequence_is_decoded(ids):
    tokenizer = small_tokenizer()
    ids = [i % tokenizer.vocab_size for i in ids]
    data = b"".join(tokenizer.vocab[i] for i in ids)
    kinds = [ids, tuple(ids), iter(ids), np.array(ids, np.uint16), np.array(ids, np.int64)]
    kinds += [np.array(ids, np.uint32), np.array(ids, ">u2"), np.repeat(np.array(ids, int), 2)[::2]]
    for kind in kinds:
        assert tokenizer.decode_bytes(kind) == data
    assert tokenizer.decode(ids) == data.decode("utf-8", errors="replace")
    decoder = StreamingDecoder(tokenizer)
    streamed = "".join(map(decoder.push, ids)) + decoder.finish()
    assert streamed == tokenizer.decode(ids)


@pytest.mark.parametrize("bad", [-1, 10**4, 2**31, 2**32, 2**32 + 5, 2**64])
def test_unknown_ids_of_any_size_are_named(bad):
    tokenizer = small_tokenizer()
    with pytest.raises(ValueError, match=f"id {bad} "):
        tokenizer.decode([0, bad, 1])
    with pytest.raises(ValueError, match="id 5 "):
        Tokenizer({0: b"a", 9: b"b"}, []).decode(np.array([0, 5, 9]))


def test_every_utf8_string_survives_encoding_and_decoding():
    tokenizer = small_tokenizer()
    for start in range(0, 0x110000, 0x8000):
        codes = range(start, start + 0x8000)
        text = "".join(chr(code) for code in codes if not 0xD800 <= code < 0xE000)
        assert tokenizer.decode(tokenizer.encode(text)) == text


# ------------------------------------------------------------------ campaigns


@functools.cache
def trained_on(name: str, vocab_size: int, pattern: str) -> Tokenizer:
    path = data_file(name)
    return Tokenizer(*train_bpe(path, vocab_size, [END], pattern=pattern), [END], pattern=pattern)


class CachedReference:
    """The reference encoder, which merges each word once."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        token_ids = {token: token_id for token_id, token in tokenizer.vocab.items()}
        ranks = {pair: rank for rank, pair in enumerate(tokenizer.merges)}

        @functools.cache
        def ids_of(word: str) -> list[int]:
            return [token_ids[token] for token in merge_pretoken(word.encode(), ranks)]

        self.ids_of = ids_of

    def encode(self, text: str) -> list[int]:
        from cs336_basics.pretokenization import reference, split_special_tokens

        ids: list[int] = []
        for part, is_special in split_special_tokens(text, self.tokenizer.special_tokens):
            if is_special:
                ids.append(self.tokenizer.special_token_id(part))
            else:
                for word in reference.pretokenize(part, self.tokenizer.pattern):
                    ids += self.ids_of(word)
        return ids


with_three_vocabularies = pytest.mark.parametrize(
    ("trained", "vocab_size", "pattern"),
    [
        ("tinystories_train.txt", 10_000, "gpt2"),
        ("multi_zh_wiki.txt", 32_000, "gpt2"),
        ("code_python.txt", 32_000, "cl100k"),
    ],
)


@pytest.mark.slow
@with_three_vocabularies
@pytest.mark.parametrize("name", CORPORA)
def test_real_text_gets_the_ids_of_the_reference(trained, vocab_size, pattern, name):
    tokenizer = trained_on(trained, vocab_size, pattern)
    with open(data_file(f"{name}.txt"), "rb") as file:
        text = file.read(2_000_000).decode("utf-8", errors="replace")
    expected = CachedReference(tokenizer).encode(text)
    assert tokenizer.encode(text) == expected
    assert tokenizer.encode_array(text, num_workers=2).tolist() == expected
    assert tokenizer.decode(expected) == text


@pytest.mark.slow
@with_three_vocabularies
def test_many_random_texts_get_the_ids_of_the_reference(trained, vocab_size, pattern):
    tokenizer = trained_on(trained, vocab_size, pattern)
    reference_encoder = CachedReference(tokenizer)
    chooser = random.Random(vocab_size)
    fragments = [*FRAGMENTS, " the", "ing", "def ", "中国", "的", "1234", "    "]
    for _ in range(200_000):
        text = "".join(chooser.choice(fragments) for _ in range(chooser.randint(1, 20)))
        if chooser.random() < 0.2:
            offset = chooser.randrange(len(text) + 1)
            code = chooser.randrange(0x110000 - 0x800)
            code += 0x800 * (code >= 0xD800)
            text = text[:offset] + chr(code) + text[offset:]
        assert tokenizer.encode(text) == reference_encoder.encode(text)
