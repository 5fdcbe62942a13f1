"""A GGUF export has the same ids, token bytes, logits and greedy text in llama.cpp.

`make llama-cpp` installs llama-cpp-python, which compiles llama.cpp, and runs these tests.
"""

from __future__ import annotations

import ctypes
import functools
import tempfile
import unicodedata
from pathlib import Path

import numpy as np
import pytest
import regex
import torch

from cs336_basics._support.errors import RunError
from cs336_basics.formats import check_model, export_model
from cs336_basics.formats.agreement import greedy
from cs336_basics.formats.gguf import gguf_models
from cs336_basics.formats.gguf.llama_cpp_runtime import LlamaCpp
from cs336_basics.formats.huggingface.llama import llama_state
from tests.errors import rejects
from tests.formats.exported import PUBLISHED, chosen_texts, exportable, random_texts
from tests.formats.models import CONFIGURATIONS, for_gguf, random_model
from tests.tokenizer.examples import CORPORA, END, byte_tokenizer, data_file
from tests.tokenizer.test_reference import ALL_CHARACTERS

pytestmark = pytest.mark.slow
llama_cpp = pytest.importorskip("llama_cpp", reason="make llama-cpp installs llama-cpp-python")


def loaded(tokenizer, directory, context_length=96):
    """Load a tokenizer in llama.cpp, together with a small model, because llama.cpp needs one."""
    model = random_model(
        vocab_size=tokenizer.vocab_size, context_length=context_length, d_model=8, num_layers=1,
        num_heads=1, d_ff=8,
    )  # fmt: skip
    path = directory / "model.gguf"
    export_model(model, tokenizer, "gguf", path)
    return LlamaCpp(path, context_length)


@pytest.fixture(scope="module", params=["gpt2", "cl100k", "llama3", "qwen2", PUBLISHED])
def pair(request, tmp_path_factory):
    tokenizer = exportable(request.param)
    with loaded(tokenizer, tmp_path_factory.mktemp("gguf")) as theirs:
        yield tokenizer, theirs


def assert_equal_ids(tokenizer, theirs, text):
    expected = tokenizer.encode(text)
    if theirs.encode(text) != expected:  # pytest takes minutes to compare two long lists
        for line in text.splitlines(keepends=True):
            assert theirs.encode(line) == tokenizer.encode(line), line
        pytest.fail(f"ids differ for a text of {len(text)} characters, but not for its lines")


def without_long_s(tokenizer, text):
    """Replace U+017F, which `regex`, but not llama.cpp, treats as an s if case is ignored."""
    return text if tokenizer.pattern == "gpt2" else text.replace("\u017f", "s")


def test_ids_of_small_and_random_texts_are_equal(pair):
    tokenizer, theirs = pair
    for text in [*chosen_texts(), *random_texts(3, 20_000)]:
        text = without_new_characters(without_long_s(tokenizer, text))
        assert_equal_ids(tokenizer, theirs, text)


def test_every_id_has_the_same_bytes(pair):
    tokenizer, theirs = pair
    vocab = llama_cpp.llama_model_get_vocab(theirs.llama.model)
    for token_id, token in tokenizer.vocab.items():
        # Llama.detokenize drops tokens of more than 32 bytes.
        buffer = ctypes.create_string_buffer(1000)
        size = llama_cpp.llama_token_to_piece(vocab, token_id, buffer, len(buffer), 0, True)
        assert buffer.raw[:size] == token, token_id


def test_exported_special_tokens_that_overlap_are_matched_in_the_same_way(tmp_path):
    special = [END, "<a>", "<a>b", "<ab", "bc", "xbcx", "<|x|>", "<|xy|>"]
    tokenizer = byte_tokenizer(*special, merges=[(b"<", b"a"), (b"b", b"c")])
    chooser = np.random.default_rng(0)
    with loaded(tokenizer, tmp_path) as theirs:
        for _ in range(20_000):
            parts = chooser.choice([*special, *"<a>bcx|"], size=8)
            text = "".join(parts)
            assert theirs.encode(text) == tokenizer.encode(text), text


@pytest.mark.parametrize("name", CORPORA)
def test_ids_of_real_text_are_equal(pair, name):
    tokenizer, theirs = pair
    with open(data_file(f"{name}.txt"), "rb") as file:
        text = file.read(2_000_000).decode("utf-8", "ignore")
    assert_equal_ids(tokenizer, theirs, without_new_characters(without_long_s(tokenizer, text)))


# ------------------------------------------------------------ Unicode versions


@functools.cache
def new_characters():
    """Return the characters whose class in this library differs from their class in llama.cpp.

    In the vocabulary used here, every byte merges with a preceding `x`, `1` or `!`, provided that
    both are in the same pre-token. The ids therefore show whether a character is a letter, a number
    or a symbol.
    """
    merges = [
        (first.encode(), bytes([byte])) for first in "x1!" for byte in range(256)
        if bytes([byte]) not in b"x1!"
    ]  # fmt: skip
    tokenizer = byte_tokenizer(END, merges=merges)
    found: set[str] = set()
    with (
        tempfile.TemporaryDirectory() as directory,
        loaded(tokenizer, Path(directory)) as theirs,
    ):
        size = 64
        for start in range(0, len(ALL_CHARACTERS), size):
            characters = ALL_CHARACTERS[start : start + size]
            if _ids(theirs.encode, characters) != _ids(tokenizer.encode, characters):
                found |= {
                    each for each in characters
                    if _ids(theirs.encode, each) != _ids(tokenizer.encode, each)
                }  # fmt: skip
    return frozenset(found)


def _ids(encode, characters):
    return encode("".join(f"x{each}\n1{each}\n!{each}\n" for each in characters))


def without_new_characters(text):
    return "".join(each for each in text if each not in new_characters())


def test_only_letters_and_numbers_after_unicode_15_1_differ():
    found = new_characters()
    assert all(regex.fullmatch(r"[\p{L}\p{N}]", each) for each in found)
    if unicodedata.unidata_version <= "15.1.0":
        assert {unicodedata.category(each) for each in found} == {"Cn"}
    assert "\U0002ebf0" not in found  # a letter of Unicode 15.1


# ------------------------------------------------------------ models


LONG = {"context_length": 2048, "d_model": 64, "num_heads": 2}
CASES = [(number, "f32", {}, None) for number in range(20)]
CASES += [(number, "f32", LONG, None) for number in (0, 3)]
CASES += [(n, *rest) for n in (0, 3, 16) for rest in (("f16", {}, 0.01), ("q8_0", {}, 0.05))]


@pytest.mark.parametrize(("number", "type", "changes", "share"), CASES)
def test_logits_are_close_and_64_greedy_tokens_equal(tmp_path, number, type, changes, share):
    """Logits differ by at most 1e-3 or, with rounded weights, a share of the largest one."""
    values = for_gguf(CONFIGURATIONS[number][0]) | changes
    tokenizer = exportable("gpt2")
    model = random_model(number, vocab_size=tokenizer.vocab_size, **values)
    path = tmp_path / "model.gguf"
    export_model(model, tokenizer, "gguf", path, type=type)
    with LlamaCpp(path, values["context_length"]) as theirs:
        for length in (1, 2, 17, values["context_length"]):
            ids = torch.randint(tokenizer.vocab_size, (1, length))
            with torch.inference_mode():
                expected = model(ids)
                difference = (theirs.logits(ids) - expected).abs().max()
            assert difference < (share * expected.abs().max() if share else 1e-3), length
        if share is None:
            prompt = tokenizer.encode("Once upon")[:8]
            assert greedy(theirs.logits, prompt, 64) == greedy(model, prompt, 64)


@pytest.mark.parametrize("type", ["f32", "f16", "q8_0"])
def test_check_reports_the_comparisons(tmp_path, type):
    tokenizer = exportable("gpt2")
    values = CONFIGURATIONS[0][0]
    # The model has more ids than the tokenizer.
    model = random_model(vocab_size=tokenizer.vocab_size + 12, **values)
    path = tmp_path / "model.gguf"
    export_model(model, tokenizer, "gguf", path, type=type)
    agreement = check_model(model, tokenizer, "gguf", path, type=type)
    assert "llama-cpp-python" in agreement.runtime
    assert agreement.lines[1].startswith("ids equal on ")
    end = "64 greedy tokens equal" if type == "f32" else "of 96 positions"
    assert agreement.lines[2].startswith("logits within ")
    assert agreement.lines[2].endswith(end)


@pytest.mark.parametrize("type", ["f32", "f16", "q8_0"])
def test_check_finds_different_results_of_llama_cpp(tmp_path, monkeypatch, type):
    tokenizer = exportable("gpt2")
    model = random_model(vocab_size=tokenizer.vocab_size, **CONFIGURATIONS[0][0])
    path = tmp_path / "model.gguf"
    monkeypatch.setattr(gguf_models, "llama_state", with_halves)
    export_model(model, tokenizer, "gguf", path, type=type)
    with rejects(None, "logits", kind=RunError):
        check_model(model, tokenizer, "gguf", path, type=type)


def with_halves(config, state, *, halves):
    """Keep Hugging Face's order of features. llama.cpp loads such a file without an error."""
    return llama_state(config, state)


def test_loading_prints_nothing(tmp_path, capfd):
    tokenizer = exportable("gpt2")
    with loaded(tokenizer, tmp_path) as theirs:
        theirs.logits(torch.tensor([[1, 2, 3]]))
    assert capfd.readouterr() == ("", "")


def test_a_file_that_is_not_a_model_is_refused(tmp_path):
    path = tmp_path / "model.gguf"
    path.write_bytes(b"GGUF and nothing else")
    with rejects(None, path, kind=RunError):
        LlamaCpp(path, 16)
