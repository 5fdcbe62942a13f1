"""Test that compiled classes refuse arguments with which they would read outside their memory."""

from __future__ import annotations

import contextlib
import threading
from array import array

import numpy as np
import pytest

from cs336_basics.bpe import BPE_Trainer

MODULES = [
    "bpe.v4_memoryview", "counting._counting", "formats._byte_strings", "generation._inference",
    "splitting._scanner", "text._normalization", "text._utf8", "tokenizer._padding",
    "tokenizer._usual_calls", "tokenizer._vocabulary", "tokenizer.encoders._decoder",
    "tokenizer.encoders._encoder",
]  # fmt: skip
NEED_NO_ARGUMENTS = {"TextCounter", "UsualCalls"}

for module in MODULES:
    if module != "generation._inference":  # it needs no torch, but its package does
        pytest.importorskip(f"cs336_basics.{module}")

from cs336_basics.counting._counting import TextCounter, first_repeated  # noqa: E402
from cs336_basics.formats import _byte_strings  # noqa: E402
from cs336_basics.tokenizer._padding import fill_rows  # noqa: E402
from cs336_basics.tokenizer._vocabulary import Words  # noqa: E402
from cs336_basics.tokenizer.encoders._decoder import Decoder  # noqa: E402
from cs336_basics.tokenizer.encoders._encoder import (  # noqa: E402
    CompiledCalls,
    Encoder,
    FileEncoding,
    SpecialSet,
    Worker,
)

BYTES = {i: bytes([i]) for i in range(256)}


def made_encoder(tokens=None, vocab_size=257):
    words = Words.of(tokens or {**BYTES, 256: b"ab"}, [(b"a", b"b")])
    return Encoder(range(256), words, vocab_size, "gpt2", 1 << 16)


@pytest.mark.parametrize("name", MODULES)
def test_no_object_exists_without_its_arguments(name):
    module = pytest.importorskip(f"cs336_basics.{name}")
    for value in vars(module).values():
        is_compiled = isinstance(value, type) and value.__module__ == module.__name__
        if not is_compiled or issubclass(value, BPE_Trainer) or value.__name__.startswith("_"):
            continue
        if value.__name__ in NEED_NO_ARGUMENTS:
            value.__new__(value)
            continue
        with pytest.raises(TypeError):
            value.__new__(value)


def test_objects_made_past_their_functions_are_empty():
    words = Words.__new__(Words, 0, 0)
    assert (len(words), words.get(b"a"), words.tokens(), words.num_merges) == (0, None, {}, 0)
    table = array("H", [256])
    file = _byte_strings.TokenizerFile.__new__(_byte_strings.TokenizerFile, b"{}", table)
    assert (len(file), file.get("a"), "a" in file) == (0, None, False)
    assert len(file.words_with({"b": 0}, set())) == 1
    for cls in (Words, _byte_strings.TokenizerFile):
        with pytest.raises(TypeError, match="use "):
            cls(b"{}", table) if cls is not Words else cls(0, 0)


def test_tables_of_bytes_have_a_last_item():
    for function, strings in (
        (_byte_strings.strings_to_tokens, ["a"]),
        (_byte_strings.merges_of_strings, ["a b"]),
        (_byte_strings.merges_of_lines, "a b"),
        (_byte_strings.TokenizerFile.read, b"{}"),
    ):
        with pytest.raises(ValueError, match="empty"):
            function(strings, array("H"))
        with pytest.raises(TypeError):
            function(strings, None)
    with pytest.raises(TypeError):
        _byte_strings.strings_to_tokens([None], array("H", [256]))


def test_ids_of_an_encoder_are_below_its_vocabulary_size():
    with pytest.raises(ValueError, match="words must be below 256"):
        made_encoder(vocab_size=256)
    with pytest.raises(ValueError, match=r"byte_ids\[255\]"):
        Encoder([*range(255), 257], Words.of({97: b"a"}, []), 257, "gpt2", 0)
    with pytest.raises(ValueError, match="256 ids, got 3"):
        Encoder([0, 1, 2], Words.of({97: b"a"}, []), 257, "gpt2", 0)
    encoder, far = made_encoder(), SpecialSet([("<s>", 257)])
    for call in (
        lambda: encoder.encode("<s>", far),
        lambda: encoder.encode_batch(["<s>"], far, 1),
        lambda: encoder.encode_batch(["<s>"], far, 2),
        lambda: CompiledCalls(encoder, far),
    ):
        with pytest.raises(ValueError, match="special tokens must be below 257"):
            call()
    assert encoder.grow(258)
    assert encoder.encode("ab<s>", far) == [256, 257]


def test_a_worker_belongs_to_one_encoder():
    narrow, wide = made_encoder(), made_encoder(vocab_size=1 << 20)
    special = SpecialSet([])
    for worker in (wide.streaming_worker(0), Worker(wide, 0)):
        with pytest.raises(ValueError, match="another encoder"):
            narrow.encode("ab", special, worker)
        with pytest.raises(ValueError, match="another encoder"):
            narrow.encode_words(["ab"], worker)
        assert wide.encode("ab", special, worker) == wide.encode_words(["ab"], worker) == [256]


def test_a_worker_is_used_by_one_call_at_a_time():
    encoder, special = made_encoder(), SpecialSet([])
    worker = encoder.streaming_worker(0)

    def words():
        yield "ab"
        with pytest.raises(RuntimeError, match="one thread"):
            encoder.encode("ab", special, worker)
        yield "b"

    assert encoder.encode_words(words(), worker) == [256, ord("b")]


def is_refused_during(work, call):
    """Return whether a call raises RuntimeError or ValueError while a thread does some work."""

    def run():
        with contextlib.suppress(RuntimeError, ValueError):  # `call` may come first
            work()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        while thread.is_alive():
            try:
                call()
            except (RuntimeError, ValueError) as error:
                return "thread" in str(error)
    finally:
        thread.join()
    return False


def test_a_counter_refuses_a_second_thread():
    counter, text = TextCounter(), b"ab cd " * 1_000_000
    work, call = lambda: counter.count(text), lambda: counter.count(b"a")
    assert any(is_refused_during(work, call) for _ in range(50))


def test_the_blocks_of_files_are_for_one_thread(tmp_path):
    path = tmp_path / "text.txt"
    path.write_bytes(b"ab cd " * 100_000)

    def is_refused():
        args = [path], [path.stat().st_size], SpecialSet([]), 1 << 20, 1, "replace", None, 1 << 20
        blocks = FileEncoding(made_encoder(), *args)
        found = []
        refused = is_refused_during(lambda: found.extend(blocks), lambda: found.extend(blocks))
        blocks.close()
        return refused

    assert any(is_refused() for _ in range(50))


@pytest.mark.parametrize("block_size", [0, 2**48 + 1, 2**63])
def test_a_block_has_a_size(block_size):
    with pytest.raises(ValueError, match="block_size"):
        FileEncoding(made_encoder(), [], [], SpecialSet([]), block_size, 1, "replace", None, 1)


@pytest.mark.parametrize("offsets", [[], [-1, 0], [0, 2, 1], [1 << 40, 1 << 41], [0, 3]])
def test_offsets_of_a_decoder_are_within_its_data(offsets):
    with pytest.raises(ValueError, match="token_offsets"):
        Decoder(b"ab", array("q", offsets))


@pytest.mark.parametrize(
    ("starts", "lengths"), [([-1], [1]), ([2], [2]), ([0], [-1]), ([0], [4]), ([2**63 - 1], [1])]
)
def test_rows_are_within_the_ids(starts, lengths):
    padded, mask = np.zeros((1, 3), np.int64), np.zeros((1, 3), np.uint8)
    starts, lengths = np.array(starts), np.array(lengths)
    with pytest.raises(ValueError, match="outside the ids"):
        fill_rows(np.zeros(3, np.int64), starts, lengths, 0, False, padded, mask)
    with pytest.raises(TypeError):
        fill_rows(np.zeros(3, np.int64), None, lengths, 0, False, padded, mask)


def test_words_to_count_have_offsets():
    counter = TextCounter()
    with pytest.raises(ValueError, match="one number more"):
        counter.add_words(b"ab", array("q", [0]), array("q", [1]))
    with pytest.raises(TypeError):
        counter.add_words(None, array("q", [0, 1]), array("q", [1]))
    with pytest.raises(TypeError):
        first_repeated(b"ab", None)
