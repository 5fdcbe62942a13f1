"""Encoding text to ids: the readable reference, the library's tokenizer, and its peers.

One vocabulary for all, trained on the corpus itself; every encoder must give the same ids as the
reference before it is timed.
"""

import json
from functools import cache

import pytest
from corpora import EOT

from cs336_basics import Tokenizer
from cs336_basics.bpe import TRAINERS
from cs336_basics.pretokenization import PATTERNS
from cs336_basics.tokenizer.reference import encode_text
from cs336_basics.tokenizer.vocab_files import token_to_string

VOCAB_SIZE = 10_000
# The reference merges every word anew; this much text is enough to know its speed.
NUM_CHARACTERS = 300_000

pytestmark = pytest.mark.filterwarnings("ignore:no pair was left")


@cache
def vocabulary(corpus):
    return TRAINERS["memoryview"]().train_from_counts(corpus.word_counts, VOCAB_SIZE, [EOT])


@cache
def reference_ids(corpus):
    return reference(corpus)(corpus.text[:NUM_CHARACTERS])


def reference(corpus):
    vocab, merges = vocabulary(corpus)
    return lambda text: encode_text(text, vocab, merges, [EOT])


def ours(corpus):
    return Tokenizer(*vocabulary(corpus), [EOT]).encode


def ours_without_cache(corpus):
    return Tokenizer(*vocabulary(corpus), [EOT], cache_size=0).encode


def with_tiktoken(corpus):
    tiktoken = pytest.importorskip("tiktoken")
    vocab, _ = vocabulary(corpus)
    encoding = tiktoken.Encoding(
        "benchmark",
        pat_str=PATTERNS["gpt2"],
        mergeable_ranks={token: i for i, token in vocab.items() if token != EOT.encode()},
        special_tokens={EOT: 256},
    )
    return lambda text: encoding.encode(text, allowed_special="all")


def with_tokenizers(corpus):
    tokenizers = pytest.importorskip("tokenizers")
    vocab, merges = vocabulary(corpus)
    model = {
        "version": "1.0",
        "added_tokens": [
            {"id": 256, "content": EOT, "single_word": False, "lstrip": False, "rstrip": False,
             "normalized": False, "special": True}
        ],
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True,
                          "use_regex": True},
        "model": {"type": "BPE", "dropout": None, "unk_token": None,
                  "continuing_subword_prefix": None, "end_of_word_suffix": None,
                  "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                  "vocab": {token_to_string(token): i for i, token in vocab.items()},
                  "merges": [[token_to_string(a), token_to_string(b)] for a, b in merges]},
    }  # fmt: skip
    tokenizer = tokenizers.Tokenizer.from_str(json.dumps(model))
    return lambda text: tokenizer.encode(text).ids


ENCODERS = {
    "reference": reference,
    "tokenizer without cache": ours_without_cache,
    "tokenizer": ours,
    "tiktoken (peer)": with_tiktoken,
    "tokenizers (peer)": with_tokenizers,
}


@pytest.mark.parametrize("encoder", ENCODERS)
def test_encode(benchmark, corpus, encoder):
    encode = ENCODERS[encoder](corpus)
    text = corpus.text[:NUM_CHARACTERS]
    assert encode(text) == reference_ids(corpus), f"{encoder} differs from the reference"

    benchmark.group = f"encode, {corpus}, {VOCAB_SIZE:,} tokens"
    # A tokenizer with an empty word cache for every round: what a new process would see.
    benchmark.pedantic(
        lambda encode: encode(text), setup=lambda: ((ENCODERS[encoder](corpus),), {}), rounds=3
    )
    num_bytes = len(text.encode())
    benchmark.extra_info.update(
        bytes=num_bytes,
        tokens=len(reference_ids(corpus)),
        megabytes_per_second=num_bytes / 1e6 / benchmark.stats.stats.median,
    )
