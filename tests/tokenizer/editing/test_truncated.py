"""A truncated tokenizer is the result of a shorter training run."""

import pytest

from cs336_basics import TRAINERS, Tokenizer
from cs336_basics._support.errors import InputTypeError
from cs336_basics.bpe import train_bpe
from tests.errors import rejects
from tests.texts import long_text
from tests.tokenizer.examples import END


@pytest.fixture(scope="module")
def text_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("truncated") / "text.txt"
    path.write_text(long_text(7, 20_000), encoding="utf-8", newline="")
    return path


@pytest.mark.parametrize("name", [name for name, trainer in TRAINERS.items() if trainer.is_built])
def test_it_equals_training_with_a_smaller_vocabulary(name, text_file):
    options = {"trainer": name, "pattern": "cl100k"}
    largest = Tokenizer(*train_bpe(text_file, 330, [END], **options), [END], pattern="cl100k")
    for size in (257, 258, 300, 330):
        alone = Tokenizer(*train_bpe(text_file, size, [END], **options), [END], pattern="cl100k")
        found = largest.truncated(size)
        assert (found.vocab, found.merges) == (alone.vocab, alone.merges)
        assert found.hash() == alone.hash()
    assert len(largest) == 330


def test_what_must_stay_is_not_cut_off(text_file):
    tokenizer = Tokenizer(*train_bpe(text_file, 280, [END]), [END])
    with rejects("vocab_size", "257", "256"):
        tokenizer.truncated(256)
    with rejects("vocab_size", "280", "281"):
        tokenizer.truncated(281)
    with rejects("vocab_size", kind=InputTypeError):
        tokenizer.truncated(270.0)
    tokenizer.add_special_tokens(["<new>"])
    with rejects("vocab_size", "281"):
        tokenizer.truncated(270)


def test_ids_in_another_order_than_the_merges_are_refused():
    vocab = {0: b"a", 1: b"b", 2: b"abab", 3: b"ab"}
    tokenizer = Tokenizer(vocab, [(b"a", b"b"), (b"ab", b"ab")])
    with rejects(None, "order"):
        tokenizer.truncated(3)
    assert tokenizer.truncated(4).merges == tokenizer.merges
