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

from collections.abc import Iterable, Iterator, Mapping, Sequence

import regex

from cs336_basics.bpe.reference import merge_by_rank, merge_pair, split_bytes
from cs336_basics.splitting import reference as reference_splitter
from cs336_basics.text.normalization import normalized
from cs336_basics.tokenizer.added_tokens import AddedToken, check_added_tokens
from cs336_basics.tokenizer.definition import TokenizerDefinition
from cs336_basics.tokenizer.dropout import Dropout, merge_with_dropout
from cs336_basics.tokenizer.encoders.absent_bytes import check_word
from cs336_basics.tokenizer.encoders.encoder import Encoder
from cs336_basics.tokenizer.words import Pair


def encode_text(
    text: str,
    vocab: Mapping[int, bytes],
    merges: Iterable[Pair],
    special_tokens: Iterable[str | AddedToken] = (),
    pattern: str = "gpt2",
    ignore_merges: bool = False,
    normalizer: str | None = None,
    added_ids: Mapping[str, int] | None = None,
) -> list[int]:
    """Return the ids of a text: cut out added tokens, normalize the rest, split it, and merge.

    Args:
        text: Any text.
        vocab: Mapping of id -> token, including the added tokens.
        merges: Pairs in the order they were learned. The index of a pair is its rank.
        special_tokens: Added tokens: texts that become one id each.
        pattern: Split pattern, either a name in PATTERNS or a regular expression.
        ignore_merges: Whether to encode a pre-token that is itself a token as that token, without
            merging.
        normalizer: Normalization form, or None.
        added_ids: Ids of added tokens that differ from the id of the ordinary token with the same
            bytes.

    Raises:
        KeyError: If a byte or added token is not in the vocabulary.
    """
    added_ids = dict(added_ids or {})
    own_ids = set(added_ids.values())
    token_ids = {token: id_ for id_, token in vocab.items() if id_ not in own_ids}
    ranks = {pair: rank for rank, pair in enumerate(merges)}
    tokens = check_added_tokens(special_tokens)
    not_words = {token.content.encode() for token in tokens if token.content not in added_ids}
    ids: list[int] = []
    for piece, added in cut_out_added_tokens(text, tokens, normalizer):
        if added is not None:
            own_id = added_ids.get(added.content)
            ids.append(token_ids[added.content.encode()] if own_id is None else own_id)
            continue
        for pretoken in map(str.encode, reference_splitter.pretokenize(piece, pattern)):
            if ignore_merges and pretoken in token_ids and pretoken not in not_words:
                ids.append(token_ids[pretoken])
            else:
                ids.extend(token_ids[token] for token in merge_pretoken(pretoken, ranks))
    return ids


def encode_text_with_dropout(
    text: str,
    vocab: Mapping[int, bytes],
    merges: Iterable[Pair],
    dropout: Dropout,
    document: int = 0,
    special_tokens: Iterable[str | AddedToken] = (),
    pattern: str = "gpt2",
) -> list[int]:
    """Return the ids of a text without normalization, with dropout.

    Args:
        text, vocab, merges, special_tokens, pattern: See `encode_text`.
        dropout: How to leave out merges.
        document: Number of the text.

    Raises:
        KeyError: See `encode_text`.
    """
    token_ids = {token: id_ for id_, token in vocab.items()}
    ranks = {pair: rank for rank, pair in enumerate(merges)}
    ids: list[int] = []
    offset = 0
    for piece, added in cut_out_added_tokens(text, check_added_tokens(special_tokens), None):
        if added is not None:
            ids.append(token_ids[added.content.encode()])
            offset += len(piece.encode())
            continue
        for pretoken in map(str.encode, reference_splitter.pretokenize(piece, pattern)):
            kept = dropout.kept((document, offset))
            tokens = merge_with_dropout(split_bytes(pretoken), ranks, kept)
            ids.extend(token_ids[token] for token in tokens)
            offset += len(pretoken)
    return ids


def cut_out_added_tokens(
    text: str, tokens: Sequence[AddedToken], normalizer: str | None
) -> Iterator[tuple[str, AddedToken | None]]:
    """Yield the pieces of a text, normalized, each with the added token that it is, or None.

    Tokens that are not `normalized` are found first, in the original text. What remains is
    normalized, and the other tokens are found in it, in the same way.
    """
    first = {token.content: token for token in tokens if not token.normalized}
    second: dict[str, AddedToken] = {}
    for token in sorted(tokens, key=lambda token: not token.special):
        if token.normalized:
            second.setdefault(normalized(token.content, normalizer), token)
    for piece, added in _found_tokens(text, first):
        if added is None:
            yield from _found_tokens(normalized(piece, normalizer), second)
        else:
            yield piece, added


def _found_tokens(
    text: str, tokens: Mapping[str, AddedToken]
) -> Iterator[tuple[str, AddedToken | None]]:
    """Yield the pieces of a text, each with the token that it is, or None.

    Args:
        text: Any text.
        tokens: Mapping from the texts to search for to the tokens that they are.
    """
    longest_first = sorted(tokens, key=len, reverse=True)
    start = end = 0  # start of the search, and end of the last token with its whitespace
    while start < len(text):
        found = next((token for token in longest_first if text.startswith(token, start)), None)
        if found is None:
            start += 1
            continue
        first, last, token = start, start + len(found), tokens[found]
        start = last
        if token.single_word and (
            regex.search(r"\w\Z", text[:first]) or regex.match(r"\w", text[last:])
        ):
            continue
        if token.lstrip:
            first = max(end, len(regex.sub(r"\s+\Z", "", text[:first])))
        if token.rstrip:
            last = len(text) - len(regex.sub(r"\A\s+", "", text[last:]))
        if end < first:
            yield text[end:first], None
        if first < last:  # else the whitespace of the token before it includes it
            yield text[first:last], token
        end = last
    if end < len(text):
        yield text[end:], None


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
        check_word(data, token_ids)
        return [token_ids[token] for token in merge_pretoken(data, self._ranks)]
