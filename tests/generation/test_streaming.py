from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cs336_basics._support.errors import InputError, InputTypeError
from cs336_basics.generation import Sampling, generate, generate_text, stop_at, stream_text
from cs336_basics.model import ModelConfig, TransformerLM
from cs336_basics.tokenizer import Tokenizer
from tests.errors import rejects
from tests.tokenizer.examples import byte_tokenizer


def stopped(text, stop):
    """Apply the rule of `stop_at` one character at a time."""
    for end in range(1, len(text) + 1):
        found = [string for string in stop if text[:end].endswith(string)]
        if found:
            return text[: end - max(map(len, found))]
    return text


@settings(deadline=None)
@given(
    texts=st.lists(st.text("ab", max_size=4), max_size=12),
    stop=st.lists(st.text("ab", min_size=1, max_size=5), max_size=3),
)
def test_stop_strings_are_found_across_texts(texts, stop):
    assert "".join(stop_at(texts, stop)) == stopped("".join(texts), stop)


def test_text_is_held_back_only_while_a_stop_string_is_possible():
    passed = stop_at(iter(["one", " two", "\n", "\nthree", "\n\n", "never"]), ["\n\n\n", "e\n\n"])
    # Until more text arrives, "e" could start "e\n\n", and a line break could start "\n\n\n".
    assert list(passed) == ["on", "e two", "", "\n\nthre", ""]


def test_the_stop_strings_may_come_from_an_iterator():
    assert "".join(stop_at(["a", "b"], iter(["b"]))) == "a"


def test_nothing_is_read_after_the_stop_string():
    def texts():
        yield "a"
        yield "b"
        raise AssertionError("read after the stop string")

    assert "".join(stop_at(texts(), ["b"])) == "a"


@pytest.mark.parametrize(
    ("stop", "error", "fields"),
    [
        (["x", ""], InputError, ("stop",)),
        ("The end", InputTypeError, ("stop", "'The end'")),
        (["x", 3], InputTypeError, ("stop", "3")),
        (None, InputTypeError, ("stop", "None")),
    ],
)
def test_bad_stop_strings_are_rejected_at_the_call(stop, error, fields):
    with rejects(*fields, kind=error):
        stop_at(["a"], stop)


def test_text_streams_in_complete_characters():
    tokenizer = byte_tokenizer()
    texts = list(stream_text(tokenizer, "a€b".encode()))
    assert texts == ["a", "", "", "€", "b", ""]
    assert "".join(stop_at(stream_text(tokenizer, "a€b€".encode()), ["b€"])) == "a€"


@pytest.fixture(scope="module")
def tokenizer():
    return byte_tokenizer("<|endoftext|>")


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    shape = {"context_length": 16, "d_model": 16, "num_layers": 1, "num_heads": 2, "d_ff": 32}
    return TransformerLM(ModelConfig(vocab_size=257, **shape))


@pytest.mark.parametrize(("prompt", "ids"), [("Once", list(b"Once")), ("", [256])])
def test_generated_text_equals_the_text_of_the_generated_ids(model, tokenizer, prompt, ids):
    def seeded():
        return torch.Generator().manual_seed(1)

    sampling = Sampling(temperature=0.8)
    text = "".join(generate_text(model, tokenizer, prompt, 40, sampling, generator=seeded()))
    new_ids = [*generate(model, ids, 40, sampling, eos_id=256, generator=seeded())]
    assert text == tokenizer.decode(new_ids) != ""
    stop = text[10]
    stopped_there = generate_text(
        model, tokenizer, prompt, 40, sampling, stop=[stop], generator=seeded(), use_cache=False
    )
    assert "".join(stopped_there) == text[: text.index(stop)]


def test_bad_arguments_of_generate_text_are_rejected_at_the_call(model, tokenizer):
    with rejects("max_new_tokens", "-1"):
        generate_text(model, tokenizer, "a", -1)
    with rejects("token", "special token"):
        generate_text(model, Tokenizer({97: b"a"}, []), "a", 1)


def test_ids_missing_from_the_tokenizer_are_never_drawn(model):
    letters = {byte: bytes([byte]) for byte in b"Oncet "}
    tokenizer = Tokenizer({**letters, 1: b"<|endoftext|>", 9999: b"zz"}, [], ["<|endoftext|>"])
    generator = torch.Generator().manual_seed(2)
    text = "".join(generate_text(model, tokenizer, "Once", 60, generator=generator))
    assert text
    assert set(text) <= set("Oncet ")
