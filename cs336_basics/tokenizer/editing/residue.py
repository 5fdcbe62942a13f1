"""Residue tokens: steps on the way to longer tokens, which texts rarely contain themselves.

Sun et al. 2026, "LiteToken: Removing Intermediate Merge Residues From BPE Tokenizers", arXiv
2602.04706. The merges need such a token to produce longer ones. `count_steps` counts how often each
token is a step, and `without_residue` removes tokens that are only steps, where pre-tokens that are
a token do not need the merges.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from cs336_basics._support.errors import InputError
from cs336_basics._support.lazy import np, npt
from cs336_basics._support.messages import short_repr
from cs336_basics.bpe.reference import split_bytes, steps_by_rank
from cs336_basics.execution.workers import resolve_num_workers
from cs336_basics.text import Corpus
from cs336_basics.text.paths import PathsLike
from cs336_basics.tokenizer.definition import TokenizerDefinition
from cs336_basics.tokenizer.editing.prune import IdPair, counted_words, renumbered
from cs336_basics.tokenizer.editing.token_counts import TokenCounts, never_used
from cs336_basics.tokenizer.encoders.python_encoder import RankMerger
from cs336_basics.tokenizer.id_gaps import check_gaps
from cs336_basics.tokenizer.tokenizer import Tokenizer, check_is_tokenizer


def count_steps(tokenizer: Tokenizer, counts: TokenCounts) -> TokenCounts:
    """Return how often each token was a step: produced by a merge, and merged further.

    The bytes of a token merge in the same steps wherever the token is produced, so the steps follow
    from the counts of the final tokens.

    Args:
        tokenizer: Tokenizer that encoded the text.
        counts: Number of times that each token is final; the result of `count_tokens`.

    Returns:
        Counts of shape (vocab_size,), int64. Single bytes are no steps, and have a count of 0.

    Raises:
        TypeError, ValueError: See `never_used`.
    """
    never_used(tokenizer, counts)  # checks the arguments
    vocab = tokenizer.vocab
    steps = np.zeros(len(counts), np.int64)
    last = last_merges(tokenizer.definition)
    for token_id in sorted(last, key=lambda i: -len(vocab[i])):
        made = counts[token_id] + steps[token_id]
        for part in last[token_id]:
            if len(vocab[part]) > 1:
                steps[part] += made
    return steps


def only_steps(tokenizer: Tokenizer, counts: TokenCounts) -> list[int]:
    """Return the ids of the tokens that are steps, but never final, in ascending order.

    Args:
        tokenizer, counts: See `count_steps`.
    """
    steps = count_steps(tokenizer, counts)
    added = tokenizer.definition.ids_of_added
    return [i for i in np.flatnonzero((counts == 0) & (steps > 0)).tolist() if i not in added]


def last_merges(definition: TokenizerDefinition) -> dict[int, IdPair]:
    """Return the pair of the last merge that produces each token from its bytes.

    Tokens that no merge produces, or that their bytes do not become, are left out.
    """
    pairs: defaultdict[int, list[IdPair]] = defaultdict(list)
    for pair, merged in zip(definition.pair_ranks, definition.merged_ids, strict=True):
        pairs[merged].append(pair)
    token_ids = definition.token_ids
    last: dict[int, IdPair] = {}
    ranks = None
    for token_id, found in pairs.items():
        if len(found) > 1:  # only in edited vocabularies
            if ranks is None:
                ranks = {pair: rank for rank, pair in enumerate(definition.merges)}
            symbols = split_bytes(definition.vocab[token_id])
            for _, i, after in steps_by_rank(symbols, ranks):
                left, right = token_ids[symbols[i]], token_ids[symbols[i + 1]]
                symbols = after
            if len(symbols) > 1:
                continue
            found = [(left, right)]
        last[token_id] = found[0]
    return last


class WithoutResidue(NamedTuple):
    """A vocabulary without tokens that are only steps."""

    tokenizer: Tokenizer
    """Tokenizer with the remaining tokens in their old order and the ids 0, 1, 2, ..."""
    id_map: npt.NDArray[np.int64]
    """New id of each old id, or -1 if the token was removed; shape (old vocab_size,)."""
    only_whole: list[bytes]
    """Tokens that are now produced only where they are a whole pre-token."""


def without_residue(
    tokenizer: Tokenizer,
    counts: Mapping[bytes, int] | Corpus | PathsLike,
    *,
    num_workers: int | None = None,
) -> WithoutResidue:
    """Remove the tokens that a text contains only as steps, if its ids stay the same.

    A removed token was a step of longer tokens, which merges can then not produce anymore. With
    `ignore_merges`, they are still produced where they are a whole pre-token. Therefore, a token is
    removed if it is never final in the text, and if none of the longer tokens is ever one of
    several tokens of a pre-token in the text.

    All texts keep their ids, apart from the new numbers, except where an old id belongs to a
    removed token, or to a token in `only_whole` that is not a whole pre-token. Proof: the other
    tokens of a pre-token were produced by merges that remain. Merging always applies the possible
    merge with the lowest rank, so leaving out merges that were never applied changes nothing. The
    given text contains no exception.

    Args:
        tokenizer: Tokenizer whose tokens are all produced from their bytes. It is not changed.
        counts: Word counts or text; see `prune`.
        num_workers: See `prune`.

    Raises:
        TypeError, ValueError: See `prune`. A ValueError is also raised if a token is not produced
            from its own bytes, because `ignore_merges` would change its text.
    """
    check_is_tokenizer(tokenizer)
    check_gaps(tokenizer.vocab)
    definition, vocab = tokenizer.definition, tokenizer.vocab
    merger = RankMerger(definition)
    added = definition.ids_of_added
    for token_id, token in vocab.items():
        if token_id not in added and merger.encode(token) != [token_id]:
            raise InputError(
                f"must produce each token from its own bytes, but not {short_repr(token)}",
                argument="tokenizer",
                remedy="remove such tokens with prune first",
            )
    words = counted_words(tokenizer, counts, resolve_num_workers(num_workers))
    removed = _residue(tokenizer, (_ids_of_word(tokenizer, merger, word) for word in words))
    last = last_merges(definition)
    only_whole: set[int] = set()
    for token_id in sorted(last, key=lambda i: len(vocab[i])):
        if token_id not in removed and not only_whole.union(removed).isdisjoint(last[token_id]):
            only_whole.add(token_id)
    gone = removed | only_whole
    id_map = np.full(tokenizer.vocab_size, -1, np.int64)
    left = [i for i in sorted(vocab) if i not in removed]
    id_map[left] = np.arange(len(left))
    merges = [
        merge
        for merge, pair, merged in zip(
            definition.merges, definition.pair_ranks, definition.merged_ids, strict=True
        )
        if merged not in gone and gone.isdisjoint(pair)
    ]
    made = renumbered(tokenizer, id_map, merges)
    if only_whole and not definition.ignore_merges:
        made = made.with_definition(made.definition.replaced(ignore_merges=True))
    return WithoutResidue(made, id_map, [vocab[i] for i in sorted(only_whole)])


def _residue(tokenizer: Tokenizer, words: Iterable[Sequence[int]]) -> set[int]:
    """Return the ids of the tokens that are only steps to tokens that are always whole words.

    Args:
        tokenizer: Tokenizer of the ids.
        words: Ids of each distinct word of a text.
    """
    definition, vocab = tokenizer.definition, tokenizer.vocab
    is_used, is_inner = bytearray(tokenizer.vocab_size), bytearray(tokenizer.vocab_size)
    for ids in words:
        for token_id in ids:
            is_used[token_id] = 1
            is_inner[token_id] |= len(ids) > 1
    stays = definition.ids_in_use | {i for i, t in vocab.items() if len(t) == 1}
    # A part is needed if a token that it is part of is ever one of several tokens.
    last = last_merges(definition)
    is_step = bytearray(tokenizer.vocab_size)
    residue: set[int] = set()
    for token_id in sorted(last, key=lambda i: -len(vocab[i])):
        for part in last[token_id]:
            is_inner[part] |= is_inner[token_id]
            is_step[part] |= is_step[token_id] | is_used[token_id]
        is_only_step = is_step[token_id] and not is_used[token_id]
        if is_only_step and not is_inner[token_id] and token_id not in stays:
            residue.add(token_id)
    return residue


def _ids_of_word(tokenizer: Tokenizer, merger: RankMerger, word: bytes) -> list[int]:
    try:
        return tokenizer.encoder.encode_word(word.decode())  # compiled, if built
    except UnicodeDecodeError:
        return merger.encode(word)
