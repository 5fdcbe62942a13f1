"""The usual calls of a tokenizer, which are compiled, return what the methods define."""

from __future__ import annotations

import concurrent.futures
import inspect
import pickle
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cs336_basics._support.errors import InputError, InputTypeError
from cs336_basics.tokenizer import AddedToken, Tokenizer
from cs336_basics.tokenizer.encoders.native_encoder import NativeEncoder
from cs336_basics.tokenizer.encoders.staged_encoder import StagedEncoder
from tests.errors import rejects
from tests.text.combining import combining_text
from tests.tokenizer.examples import END, FRAGMENTS, SPECIALS, small_tokenizer, trained

TEXT = st.lists(st.sampled_from(FRAGMENTS) | st.text(max_size=5), max_size=30).map("".join)
LENGTHS = (0, 1, 11, 12, 63, 64, 65, 127, 128, 129, 383, 384, 767, 768, 769, 4_096, 66_000)


@pytest.fixture(scope="module")
def tokenizer():
    found = small_tokenizer(SPECIALS)
    if not isinstance(found.encoder, NativeEncoder):
        pytest.skip("the extensions are not built")
    found.decode(found.encode("warm"))  # compiles the decoder
    return found


def defined(tokenizer, method, *arguments):
    """Call the method that a compiled one decorates."""
    return inspect.unwrap(getattr(Tokenizer, method))(tokenizer, *arguments)


def check(tokenizer, text):
    ids = defined(tokenizer, "encode", text)
    assert tokenizer.encode(text) == ids
    array = tokenizer.encode_array(text)
    assert array.tolist() == ids
    assert array.dtype == defined(tokenizer, "encode_array", text).dtype
    assert array.flags.owndata
    assert array.flags.writeable
    assert tokenizer.decode(ids) == tokenizer.decode(array) == text
    assert tokenizer.decode_bytes(ids) == tokenizer.decode_bytes(array) == text.encode()
    assert tokenizer.encode_batch([text, text], num_workers=1) == [ids, ids]


@given(text=TEXT)
def test_any_text_has_the_same_ids(tokenizer, text):
    check(tokenizer, text.encode("utf-8", "replace").decode())


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("unit", ["a", "the cat ", "1 \n", "é", "猫は", "🎉", "x" + END])
def test_texts_of_every_length_have_the_same_ids(tokenizer, length, unit):
    text = (unit * length)[:length]
    check(tokenizer, text)
    check(tokenizer, text[:-1] + " ")


@pytest.mark.parametrize("normalizer", ["NFC", "NFKD"])
def test_text_that_is_normalized_first_has_the_same_ids(normalizer):
    tokenizer = Tokenizer(*trained(), [END, "<e>"], normalizer=normalizer)
    assert isinstance(tokenizer.encoder, StagedEncoder)
    if isinstance(Tokenizer(*trained()).encoder, NativeEncoder):
        assert tokenizer.encoder.usual_calls is not None
    tokenizer.decode([0])  # compiles the decoder
    chooser = random.Random(normalizer)
    for length in (0, 1, 5, 20, 300, 2_000):
        for text in ("the cat " * length, combining_text(chooser, length, [END, "<e>", "＜e>"])):
            ids = defined(tokenizer, "encode", text)
            assert tokenizer.encode(text) == tokenizer.encode_array(text).tolist() == ids
            assert tokenizer.decode(ids) == defined(tokenizer, "decode", ids)
    with rejects(None, "lone surrogate"):
        tokenizer.encode("a\ud800")


def test_added_tokens_that_need_several_searches_are_found():
    tokenizer = Tokenizer(*trained(), [AddedToken("<e>", lstrip=True)])
    assert tokenizer.encode("the  <e>") == defined(tokenizer, "encode", "the  <e>")
    assert tokenizer.encode("the  <e>") == tokenizer.encode("the<e>")
    assert tokenizer.encode_array("the  <e>").tolist() == tokenizer.encode("the<e>")


@given(st.lists(st.integers(-3, 300), max_size=70))
def test_any_ids_have_the_same_text_or_error(tokenizer, ids):
    for method in ("decode", "decode_bytes"):
        try:
            expected = defined(tokenizer, method, ids)
        except InputError as error:
            with rejects(None, str(error)):
                getattr(tokenizer, method)(ids)
        else:
            assert getattr(tokenizer, method)(ids) == expected


def test_lone_surrogates_are_refused_or_replaced_and_surrogate_pairs_are_characters(tokenizer):
    for text in ("a\ud800", "x" * 800 + "\udfff"):
        with rejects(None, "lone surrogate"):
            tokenizer.encode(text)
        with pytest.warns(UserWarning, match=r"U\+FFFD"):
            assert tokenizer.decode(tokenizer.encode_array(text)) == text[:-1] + "\ufffd"
    assert tokenizer.encode("\ud83c\udf89") == tokenizer.encode("🎉")
    assert tokenizer.encode_array("\ud83c\udf89").tolist() == tokenizer.encode("🎉")


def test_other_arguments_are_checked_as_before(tokenizer):
    for wrong in (5, None, b"a", ["a"]):
        with rejects("text", kind=InputTypeError):
            tokenizer.encode(wrong)
    with pytest.raises(TypeError):
        tokenizer.encode()
    with pytest.raises(TypeError):
        tokenizer.encode("a", "all")
    with rejects("num_workers"):
        tokenizer.encode_array("a", num_workers=0)
    with rejects("errors"):
        tokenizer.decode([1], "unknown")
    with rejects(None, END):
        tokenizer.encode(END, disallowed_special="all")
    assert tokenizer.encode(END, allowed_special=[]) != tokenizer.encode(END)


def test_added_tokens_are_found_after_they_were_added(tokenizer):
    copy = pickle.loads(pickle.dumps(tokenizer))
    assert len(copy.encode("<new>")) > 1
    [token_id] = copy.add_special_tokens(["<new>"])
    assert copy.encode("<new>") == copy.encode_array("<new>").tolist() == [token_id]
    assert copy.decode([token_id]) == "<new>"
    assert len(tokenizer.encode("<new>")) > 1


def test_subclasses_override_the_methods_and_pickles_contain_no_compiled_object(tokenizer):
    class Reversed(Tokenizer):
        def encode(self, text, **options):
            return super().encode(text, **options)[::-1]

    reversed_ = Reversed.of(tokenizer.definition)
    assert reversed_.encode("the cat") == tokenizer.encode("the cat")[::-1]
    assert not [name for name in tokenizer.__getstate__() if "calls" in name]
    assert pickle.loads(pickle.dumps(tokenizer.encode))("the") == tokenizer.encode("the")


def test_the_signatures_are_those_of_the_methods(tokenizer):
    assert list(inspect.signature(tokenizer.encode).parameters) == [
        "text", "allowed_special", "disallowed_special",
    ]  # fmt: skip
    assert "allowed_special" in tokenizer.encode.__doc__


def test_threads_that_share_a_tokenizer_get_the_ids_of_their_texts(tokenizer):
    texts = [f"the cat {i} ate " * (1 + i % 7 * 60) for i in range(200)]
    expected = [tokenizer.encode(text) for text in texts]
    with concurrent.futures.ThreadPoolExecutor(4) as threads:
        assert list(threads.map(tokenizer.encode, texts)) == expected
        arrays = list(threads.map(tokenizer.encode_array, texts))
    assert all(np.array_equal(*pair) for pair in zip(arrays, expected, strict=True))


def test_vocabularies_with_wide_ids_have_wide_arrays():
    wide = small_tokenizer().definition
    vocab = {token_id + 70_000: token for token_id, token in wide.vocab.items()}
    tokenizer = Tokenizer(vocab, wide.merges)
    assert tokenizer.encode_array("the cat").dtype == np.uint32
    assert tokenizer.encode("the cat") == tokenizer.encode_array("the cat").tolist()
    tokenizer.encode("x")
    assert tokenizer.encode("the cat") == defined(tokenizer, "encode", "the cat")
