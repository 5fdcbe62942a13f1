"""The `reference` backend: byte-pair encoding as described in the papers, slow but authoritative.

Tests compare every faster backend with it. The algorithm comes from Sennrich, Haddow and Birch
2016, "Neural Machine Translation of Rare Words with Subword Units", and works on bytes as in GPT-2
(Radford et al. 2019): merge the adjacent pair that was learned first, at its leftmost position if
it occurs several times, and repeat. Hugging Face's tokenizers, tiktoken and llama.cpp do the same.
GPT-2's own encoder merges all occurrences of a pair before it looks for the next pair. The result
is the same if every merge follows the merges that produce its two tokens, as in every trained
vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from cs336_basics.bpe.reference import merge_by_rank, merge_pair, split_bytes
from cs336_basics.splitting import reference as reference_splitter
from cs336_basics.splitting import split_special_tokens
from cs336_basics.tokenizer.definition import Pair, TokenizerDefinition
from cs336_basics.tokenizer.encoders.absent_bytes import absent_in_word
from cs336_basics.tokenizer.encoders.encoder import Encoder


def encode_text(
    text: str,
    vocab: Mapping[int, bytes],
    merges: Iterable[Pair],
    special_tokens: Iterable[str] = (),
    pattern: str = "gpt2",
    ignore_merges: bool = False,
) -> list[int]:
    """Return the ids of a text: cut out special tokens, split the rest into pre-tokens, and merge.

    Args:
        text: Any text.
        vocab: Mapping of id -> token, including the special tokens.
        merges: Pairs in the order in which they were learned. The index of a pair is its rank.
        special_tokens: Texts that become one id each. If occurrences overlap, the leftmost wins;
            at the same position, the longest wins.
        pattern: Split pattern, either a name in PATTERNS or a regular expression.
        ignore_merges: Whether to encode a pre-token that is itself a token as that token, without
            merging.

    Raises:
        KeyError: If a byte or special token is not in the vocabulary.
    """
    token_ids = {token: token_id for token_id, token in vocab.items()}
    ranks = {pair: rank for rank, pair in enumerate(merges)}
    special_tokens = list(special_tokens)
    special = {token.encode() for token in special_tokens}
    ids: list[int] = []
    for segment, is_special in split_special_tokens(text, special_tokens):
        if is_special:
            ids.append(token_ids[segment.encode()])
            continue
        for pretoken in map(str.encode, reference_splitter.pretokenize(segment, pattern)):
            if ignore_merges and pretoken in token_ids and pretoken not in special:
                ids.append(token_ids[pretoken])
            else:
                ids.extend(token_ids[token] for token in merge_pretoken(pretoken, ranks))
    return ids


def merge_pretoken(pretoken: bytes, ranks: Mapping[Pair, int]) -> list[bytes]:
    """Merge the bytes of a pre-token by rank, and return the resulting tokens.

    Args:
        pretoken: Bytes of one pre-token.
        ranks: Mapping of pair -> rank; see `merge_by_rank`.
    """
    return list(merge_by_rank(split_bytes(pretoken), ranks))


def merge_pretoken_in_order(pretoken: bytes, merges: Iterable[Pair]) -> list[bytes]:
    """Return the tokens of a pre-token after applying every merge once, in the order learned.

    The running time grows with the number of merges. `merge_pretoken` gives the same result if
    every merge follows the merges that produce its two tokens, as in every trained vocabulary. In a
    vocabulary edited by hand, a later merge may produce a pair whose own merge was already applied.
    Such a pair stays unmerged.
    """
    tokens = split_bytes(pretoken)
    for pair in merges:
        tokens = merge_pair(tokens, pair)
    return list(tokens)


class ReferenceEncoder(Encoder):
    """The reference algorithm as an `Encoder`, without a cache. `regex` splits the text."""

    def __init__(self, definition: TokenizerDefinition) -> None:
        super().__init__(definition)
        self._ranks = {pair: rank for rank, pair in enumerate(definition.merges)}

    def split(self, text: str) -> Iterable[str]:
        """See `Encoder`."""
        return reference_splitter.pretokenize(text, self.pattern)

    def encode_word(self, word: str) -> list[int]:
        """See `Encoder`."""
        token_ids, data = self.definition.token_ids, word.encode()
        if data in self.definition.whole_words:
            return [token_ids[data]]
        for offset, byte in enumerate(data):
            if bytes([byte]) not in token_ids:
                raise absent_in_word(data, offset)
        return [token_ids[token] for token in merge_pretoken(data, self._ranks)]
