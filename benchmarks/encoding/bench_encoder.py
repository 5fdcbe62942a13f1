"""Benchmark encoding, from the simplest implementation to the fastest, and decoding.

1. `every merge`: tries every merge of the vocabulary on every word
2. `ranks`: merges the pair with the lowest rank in a word (`reference.py`)
3. `cached words`: the same, but on ids and once per distinct word (`python_encoder.py`)
4. `compiled, no cache`: scans and merges in C++ (`encoder.hpp`)
5. `compiled`: adds a word cache in C++

tiktoken and tokenizers are measured for comparison. All encoders use the same vocabulary, trained
on the corpus, and must return the same ids as the reference before they are timed.
`peers/encoding.py` measures whole processes, threads and files.
"""

import tempfile
from functools import cache

import pytest

from benchmarks.corpora import EOT
from benchmarks.peers.encoding import tiktoken_encoding
from benchmarks.report.measurements import attach_rate
from benchmarks.report.tables import WHOLE_SIZES
from cs336_basics import Tokenizer
from cs336_basics.bpe import TRAINERS
from cs336_basics.splitting import pretokenize, split_special_tokens
from cs336_basics.tokenizer.reference import encode_text, merge_pretoken_in_order

VOCAB_SIZE = 10_000  # of the tokenizer that decodes
# Slow encoders encode this many characters; all others encode MOST_CHARACTERS. Tables therefore
# compare rates (MB/s), not seconds.
NUM_CHARACTERS = {"every merge": 2_000, "ranks": 300_000}
MOST_CHARACTERS = 3_000_000
PEERS = ("tiktoken", "tokenizers")
SLOW = ("every merge", "ranks", "tokenizers")  # timed in one round

pytestmark = pytest.mark.filterwarnings("ignore:no pair was left")


@cache
def vocabulary(corpus, vocab_size=VOCAB_SIZE):
    return TRAINERS["memoryview"]().train_from_counts(corpus.word_counts, vocab_size, [EOT])


@cache
def reference_ids(corpus, vocab_size, num_characters):
    return by_ranks(vocabulary(corpus, vocab_size))(corpus.text[:num_characters])


# Each function takes a vocabulary with its merges and returns a function from text to ids.


def by_every_merge(learned):
    vocab, merges = learned
    ids = {token: i for i, token in vocab.items()}

    def encode(text):
        return [
            ids[token]
            for segment, is_special in split_special_tokens(text, [EOT])
            for word in ([segment] if is_special else pretokenize(segment))
            for token in (
                [segment.encode()] if is_special else merge_pretoken_in_order(word.encode(), merges)
            )
        ]

    return encode


def by_ranks(learned):
    vocab, merges = learned
    return lambda text: encode_text(text, vocab, merges, [EOT])


def with_options(**options):
    return lambda learned: Tokenizer(*learned, [EOT], **options).encode


def with_tiktoken(learned):
    encoding = tiktoken_of(learned)
    return lambda text: encoding.encode(text, allowed_special="all")


def tiktoken_of(learned):
    pytest.importorskip("tiktoken")
    return tiktoken_encoding(Tokenizer(*learned, [EOT]))


def with_tokenizers(learned):
    """Encode documents in threads, which is the fastest way to use tokenizers."""
    tokenizers = pytest.importorskip("tokenizers")
    with tempfile.TemporaryDirectory() as directory:
        Tokenizer(*learned, [EOT]).save(directory)
        tokenizer = tokenizers.Tokenizer.from_file(f"{directory}/tokenizer.json")

    def encode(text):
        first, *others = text.split(EOT)
        documents = [first, *(EOT + document for document in others)]
        return [i for encoding in tokenizer.encode_batch(documents) for i in encoding.ids]

    return encode


ENCODERS = {
    "every merge": by_every_merge,
    "ranks": by_ranks,
    "cached words": with_options(backend="python"),
    "compiled, no cache": with_options(cache_size=0),
    "compiled": with_options(),
    "tiktoken": with_tiktoken,
    "tokenizers": with_tokenizers,
}


@pytest.mark.parametrize("vocab_size", WHOLE_SIZES)
@pytest.mark.parametrize("encoder", ENCODERS)
def test_encode(benchmark, corpus, encoder, vocab_size):
    learned = vocabulary(corpus, vocab_size)
    encode = ENCODERS[encoder](learned)
    text = corpus.text[: NUM_CHARACTERS.get(encoder, MOST_CHARACTERS)]
    checked = min(len(text), NUM_CHARACTERS["ranks"])
    same = encode(text[:checked]) == reference_ids(corpus, vocab_size, checked)
    assert same, f"{encoder} is wrong"

    benchmark.group = f"encode, {corpus}, {vocab_size:,} tokens"
    # Every round starts with a new tokenizer, whose word cache is empty.
    benchmark.pedantic(
        lambda encode: encode(text),
        setup=lambda: ((ENCODERS[encoder](learned),), {}),
        rounds=1 if encoder in SLOW else 3,
    )
    num_bytes, is_peer = len(text.encode()), encoder in PEERS
    attach_rate(benchmark, "encoding", corpus, vocab_size, encoder, num_bytes, is_peer=is_peer)


@pytest.mark.parametrize("encoder", ["compiled", "tiktoken"])
def test_decode(benchmark, corpus, encoder):
    """Decode ten million ids."""
    tokenizer = Tokenizer(*vocabulary(corpus), [EOT])
    peer = tiktoken_of(vocabulary(corpus))
    ids = tokenizer.encode(corpus.text[:MOST_CHARACTERS])
    ids = (ids * (10_000_000 // len(ids) + 1))[:10_000_000]
    same = tokenizer.decode(ids) == peer.decode(ids)  # avoids pytest's diff of the texts
    assert same
    decode = tokenizer.decode if encoder == "compiled" else peer.decode
    benchmark.group = f"decode ten million ids, {corpus}"
    text = benchmark.pedantic(decode, args=(ids,), rounds=3)
    num_bytes, is_peer = len(text.encode()), encoder in PEERS
    attach_rate(benchmark, "decoding", corpus, VOCAB_SIZE, encoder, num_bytes, is_peer=is_peer)
