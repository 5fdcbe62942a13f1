"""TokenizerDefinition: one value that says everything which determines ids."""

from __future__ import annotations

import copy
import pickle

from cs336_basics import Tokenizer
from cs336_basics.tokenizer import extend, words
from cs336_basics.tokenizer.definition import TokenizerDefinition
from tests.tokenizer.examples import BYTES, END, small_tokenizer


def test_a_definition_equals_its_copies_and_pickles():
    first = small_tokenizer().definition
    assert first == TokenizerDefinition(**first.arguments())
    for other in (copy.copy(first), copy.deepcopy(first), pickle.loads(pickle.dumps(first))):
        assert other == first
        assert other.digest == first.digest
    for change in ({"pattern": "cl100k"}, {"ignore_merges": True}, {"special_tokens": []}):
        assert first.replaced(**change) != first
    assert first != "a definition"


def test_changes_return_a_new_definition():
    first = small_tokenizer().definition
    before = first.arguments()
    more = first.with_special_tokens(["<pad>"])
    assert more.special_ids == more.added_ids == {END: first.special_ids[END], "<pad>": first.size}
    assert (first.arguments(), first.size) == (before, more.size - 1)


def test_a_tokenizer_is_made_of_a_definition():
    small = small_tokenizer()
    tokenizer = Tokenizer.of(small.definition, "my/tokenizer", backend=small.backend)
    assert tokenizer.definition is small.definition
    assert tokenizer.source == "my/tokenizer"
    assert tokenizer.encode(f"the cat{END}") == small.encode(f"the cat{END}")


def test_merges_given_as_lists_become_tuples():
    vocab = {**BYTES, 256: b"ab", 257: b"abc"}
    merges = [[b"a", b"b"], (b"ab", b"c")]
    tokenizer = Tokenizer(vocab, merges)
    assert tokenizer.merges == [(b"a", b"b"), (b"ab", b"c")]
    reference = Tokenizer(vocab, merges, backend="reference")
    assert reference.encode("abcab") == tokenizer.encode("abcab") == [257, 256]
    assert extend(tokenizer, ["abcd"]).encode("abcd") == [258]


def test_the_vocabulary_of_a_file_is_made_only_if_somebody_looks(tmp_path):
    first = small_tokenizer()
    first.save(tmp_path)
    tokenizer = Tokenizer.from_directory(tmp_path)
    if tokenizer.backend is None and words.CompiledWords is not None:
        assert tokenizer.encode(f"the cat{END}") == first.encode(f"the cat{END}")
        assert tokenizer.decode([104, 105]) == first.decode([104, 105])
        assert not {"vocab", "merges"} & vars(tokenizer.definition).keys()
    assert tokenizer.vocab == first.vocab
    assert tokenizer.merges == first.merges
    assert tokenizer.definition == first.definition
