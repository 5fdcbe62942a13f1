"""Random `tokenizer.json` files behave the same here and in tokenizers, also when written again."""

from __future__ import annotations

import json
import random
import unicodedata
import warnings

import pytest

from cs336_basics._support.errors import InputError
from cs336_basics.formats.huggingface.parsing import parse_tokenizer_json
from cs336_basics.formats.huggingface.tokenizer_json import tokenizer_json
from cs336_basics.tokenizer import Tokenizer
from tests.formats.huggingface.random_files import random_file, random_text

tokenizers = pytest.importorskip("tokenizers")

FILES = [
    (range(0, 30), 10),
    *(pytest.param(range(n, n + 2000), 60, marks=pytest.mark.slow) for n in range(0, 20_000, 2000)),
]


@pytest.mark.parametrize(("seeds", "num_texts"), FILES)
def test_random_files_behave_the_same_here_and_in_tokenizers(seeds, num_texts):
    loaded = sum(check_random_file(seed, num_texts) for seed in seeds)
    assert len(seeds) - loaded < len(seeds) / 5


def check_random_file(seed, num_texts):
    """Compare a random file with tokenizers on random texts. Return whether it was loaded."""
    chooser = random.Random(seed)
    content = random_file(chooser)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a pre-tokenizer may be slow
            ours = Tokenizer.of(parse_tokenizer_json(content))
    except InputError:  # see check_always_found and _check_is_normalized
        return False
    theirs = tokenizers.Tokenizer.from_str(json.dumps(content))
    try:
        again = tokenizers.Tokenizer.from_str(json.dumps(tokenizer_json(ours.definition)))
    except InputError:
        again = theirs
    before = ""
    for _ in range(num_texts):
        text = known_characters(random_text(chooser))
        try:
            theirs.encode(text)
        except BaseException as error:
            if type(error).__name__ != "PanicException":
                raise
            continue  # an added token with lstrip or rstrip can make tokenizers fail
        assert_same(ours, theirs, text, before, seed)
        for pair in (None, before):
            assert again.encode(text, pair).ids == theirs.encode(text, pair).ids, (seed, text)
        before = text
    return True


def known_characters(text):
    """Remove characters that have no category in Unicode 3.2, but may have one in later versions.

    Libraries normalize them by different versions.
    """
    return "".join(c for c in text if unicodedata.ucd_3_2_0.category(c) != "Cn")


def assert_same(ours, theirs, text, other, seed):
    found = theirs.encode(text, add_special_tokens=False)
    ids, offsets = ours.encode_with_offsets(text)
    assert ids == found.ids, (seed, text)
    assert offsets == found.offsets, (seed, text)
    assert ours.encode(text) == ids, (seed, text)
    for skip in (False, True):
        decoded = ours.decode(ids, skip_special_tokens=skip)
        assert decoded == theirs.decode(ids, skip_special_tokens=skip), (seed, text, skip)
    for pair in (None, other):
        for add in (False, True):
            expected = theirs.encode(text, pair, add_special_tokens=add).ids
            found = ours(text, pair, add_special_tokens=add)["input_ids"]
            assert found == expected, (seed, text, pair, add)
