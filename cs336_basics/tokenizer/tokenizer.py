"""Tokenizer: text to ids and back, by byte-pair encoding with GPT-2's rules.

A text is cut at its special tokens, the rest is split into pre-tokens, and each pre-token is merged
by rank: of all pairs of neighbours the one that was learned first is merged, wherever it stands,
until no pair is left (Sennrich et al. 2016; Radford et al. 2019). `reference.py` says the same in
the plainest way, and the tests hold the two together. Here the tokens are ids instead of bytes,
what was encoded before is remembered, and a very long pre-token takes a linked list.
"""

from __future__ import annotations

import codecs
import heapq
import operator
import os
import sys
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain, pairwise
from typing import Any, SupportsIndex

import numpy as np

from cs336_basics.pretokenization import pretokenize, resolve_pattern, split_special_tokens
from cs336_basics.pretokenization.chunking import SafeCuts
from cs336_basics.pretokenization.patterns import compile_pattern
from cs336_basics.pretokenization.splitting import check_special_tokens
from cs336_basics.tokenizer import vocab_files

Pair = tuple[bytes, bytes]

DEFAULT_CACHE_SIZE = 32 << 20
"""Bytes of memory for remembered words: some 200,000 words of English."""

# What encode_iterable holds stays within a megabyte: bytes of remembered words, bytes that it reads
# before it looks for a safe cut, characters of a huge piece that it takes at a time.
_ITERABLE_CACHE_SIZE = 640 << 10
_READ_AHEAD = 1024
_SLICE = 1 << 13

# From about this many bytes the linked list wins over scanning the whole word for each merge.
_LONG_WORD = 100

_ABSENT = -1
_NO_RANK = sys.maxsize


class Tokenizer:
    """Byte-pair encoding with a vocabulary, its merges and special tokens.

    Args:
        vocab: id -> token. Ids may stand in any order and have gaps. A vocabulary need not hold
            every byte; a text that needs one it lacks is refused by `encode`.
        merges: pairs of tokens, in the order in which they were learned: the place of a pair is
            its rank. Two tokens may be merged in more than one way.
        special_tokens: texts that become one id each and are never split; where they overlap, the
            longest wins. One that is not in the vocabulary is appended after its greatest id.
        pattern: split pattern, a name in PATTERNS or a regular expression. What a pattern of your
            own does not match is left out, as with `finditer`; the named ones match everything.
        cache_size: bytes of memory for remembered words, 0 = remember nothing. A full cache is
            emptied and filled anew, the simplest rule that keeps the words of the day.

    Attributes:
        vocab: id -> token, with the special tokens (a copy: the caller's is not changed).
        merges, special_tokens: lists, as given.
        pattern, cache_size: as given.

    A tokenizer may be shared between threads, copied and pickled.

    Raises:
        TypeError: an item of the wrong type.
        ValueError: two ids with the same bytes, a negative id, an empty token, a merge given twice,
            a merge whose parts or result the vocabulary lacks, an empty or repeated special token,
            a bad pattern. Every message names the item.
    """

    def __init__(
        self,
        vocab: Mapping[int, bytes],
        merges: Iterable[Pair],
        special_tokens: Iterable[str] | None = None,
        *,
        pattern: str = "gpt2",
        cache_size: int = DEFAULT_CACHE_SIZE,
    ) -> None:
        if cache_size < 0:
            raise ValueError(f"cache_size is {cache_size}: it must be 0 (no cache) or more bytes")
        resolve_pattern(pattern)
        self.pattern = pattern
        self.cache_size = cache_size
        self.vocab = dict(vocab)
        self.merges = list(merges)
        self.special_tokens = check_special_tokens(special_tokens or [])

        token_ids = _index_vocab(self.vocab)
        self._pair_ranks, self._merged_ids = _index_merges(self.merges, token_ids)
        self._special_ids: dict[str, int] = {}
        next_id = self.vocab_size
        for special_token in self.special_tokens:
            token = special_token.encode()
            if token not in token_ids:
                token_ids[token] = next_id
                self.vocab[next_id] = token
                next_id += 1
            self._special_ids[special_token] = token_ids[token]
        self._byte_ids = [token_ids.get(bytes([byte]), _ABSENT) for byte in range(256)]
        self._cache = _WordCache(self._encode_word, cache_size)

    # ----------------------------------------------------------------- files

    @classmethod
    def from_files(
        cls,
        vocab_filepath: str | os.PathLike[str],
        merges_filepath: str | os.PathLike[str],
        special_tokens: Iterable[str] | None = None,
        *,
        pattern: str = "gpt2",
        cache_size: int = DEFAULT_CACHE_SIZE,
    ) -> Tokenizer:
        """Read vocab.json and merges.txt as GPT-2 has them, or pickles if the names end in .pkl.

        Raises:
            FileNotFoundError, ValueError: see `load_vocab` and `load_merges`.
        """
        vocab = vocab_files.load_vocab(vocab_filepath)
        merges = vocab_files.load_merges(merges_filepath)
        return cls(vocab, merges, special_tokens, pattern=pattern, cache_size=cache_size)

    @classmethod
    def from_directory(
        cls, directory: str | os.PathLike[str], *, cache_size: int = DEFAULT_CACHE_SIZE
    ) -> Tokenizer:
        """Read a directory that `save` or `python -m cs336_basics.train_bpe` wrote.

        Raises:
            FileNotFoundError, ValueError: see `load_tokenizer`.
        """
        vocab, merges, special_tokens, pattern = vocab_files.load_tokenizer(directory)
        return cls(vocab, merges, special_tokens, pattern=pattern, cache_size=cache_size)

    def save(self, directory: str | os.PathLike[str]) -> None:
        """Write vocab.json, merges.txt and metadata.json into a directory."""
        vocab_files.save_tokenizer(
            directory, self.vocab, self.merges, self.special_tokens, self.pattern
        )

    # ----------------------------------------------------------------- what it is

    @property
    def vocab_size(self) -> int:
        """The greatest id plus one: the number of rows that a model's embedding needs."""
        return max(self.vocab, default=-1) + 1

    def hash(self) -> str:
        """Return a SHA-256 (64 hexadecimal digits) of all that decides which ids a text gets."""
        return vocab_files.tokenizer_hash(
            self.vocab, self.merges, self.special_tokens, self.pattern
        )

    def special_token_id(self, token: str) -> int:
        """Return the id of a special token.

        Raises:
            ValueError: it is not one of this tokenizer's special tokens.
        """
        if token not in self._special_ids:
            raise ValueError(f"{token!r} is not a special token; these are: {self.special_tokens}")
        return self._special_ids[token]

    def __repr__(self) -> str:
        return (
            f"Tokenizer(vocab_size={self.vocab_size}, merges: {len(self.merges)}, "
            f"special_tokens={self.special_tokens}, pattern={self.pattern!r})"
        )

    # ----------------------------------------------------------------- text to ids

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text.

        Raises:
            TypeError: `text` is not a str.
            ValueError: a lone surrogate, or a byte that the vocabulary lacks; names it and its
                place, counted in characters from 0.
        """
        _check_type(text)
        if not text.isascii():
            _to_utf8(text)  # for its error: a lone surrogate is named with its place in the text
        return list(self._encode_lazily(text, self._cache))

    def encode_iterable(self, iterable: Iterable[str]) -> Iterator[int]:
        """Yield the ids of the joined pieces of a text, without holding more than some of them.

        The ids are those of `encode("".join(iterable))`, wherever the pieces are cut: a pre-token
        or special token may lie across them. An open file is a fine iterable: its lines are read
        as they are needed. The buffer grows only while the text gives no place that is sure to be
        the end of a pre-token (see `pretokenization/chunking.py`): white space in a named pattern,
        a special token in any. Remembered words take at most 640 KB here.

        Raises:
            TypeError: a piece is not a str.
            ValueError: as `encode`; the place is counted from the beginning of the first piece.
        """
        cache = _WordCache(self._encode_word, min(self.cache_size, _ITERABLE_CACHE_SIZE))
        offset = 0
        for text in self._safe_pieces(iterable):
            yield from self._encode_lazily(text, cache, offset)
            offset += len(text)

    def _encode_lazily(self, text: str, cache: _WordCache, offset: int = 0) -> Iterator[int]:
        """Yield the ids of a text; `offset` is its place in the whole, for error messages."""
        for piece, is_special in split_special_tokens(text, self.special_tokens):
            if is_special:
                yield self._special_ids[piece]
            else:
                words = pretokenize(piece, self.pattern)
                try:
                    # Looking up a known word takes no line of Python.
                    yield from chain.from_iterable(map(cache.__getitem__, words))
                except _AbsentByteError as error:
                    raise self._explain_absent_byte(piece, offset, error.byte) from None
            offset += len(piece)

    def _encode_word(self, word: str) -> list[int]:
        """Return the ids of one pre-token."""
        data = word.encode()
        symbols = [self._byte_ids[byte] for byte in data]
        if _ABSENT in symbols:
            raise _AbsentByteError(data[symbols.index(_ABSENT)])
        if len(symbols) < _LONG_WORD:
            return list(self._merge(symbols))
        return list(self._merge_long(symbols))

    def _merge(self, symbols: list[int]) -> list[int]:
        """Merge by rank in a list, in place: quick for a short word, n^2 for a long one."""
        rank_of = self._pair_ranks.get
        ranks = [rank_of(pair, _NO_RANK) for pair in pairwise(symbols)]
        while (lowest := min(ranks, default=_NO_RANK)) != _NO_RANK:
            # One pass: every place of that pair, from left to right, before another is looked at.
            while lowest in ranks:
                place = ranks.index(lowest)
                symbols[place : place + 2] = [self._merged_ids[lowest]]
                del ranks[place]
                if place > 0:
                    ranks[place - 1] = rank_of((symbols[place - 1], symbols[place]), _NO_RANK)
                if place < len(ranks):
                    ranks[place] = rank_of((symbols[place], symbols[place + 1]), _NO_RANK)
        return symbols

    def _merge_long(self, word: list[int]) -> Iterator[int]:
        """Merge by rank in time n log n: a linked list of symbols, and for each rank its places.

        The same passes as `_merge`, but a pass only visits the places of its own pair. Each merge
        takes one symbol away and adds at most two pairs, so all passes together visit at most three
        places for each symbol. Arrays, not lists: a word of a megabyte then stays small enough for
        the processor's cache to help.
        """
        rank_of = self._pair_ranks.get
        end = len(word)
        # symbols[i] begins at byte i; the bytes up to after[i] were merged into it.
        symbols = array("q", word)
        before = array("q", range(-1, end - 1))
        after = array("q", range(1, end + 1))
        places_of_rank: dict[int, array[int]] = {}
        open_ranks: list[int] = []  # a heap of the keys of places_of_rank

        def note(place: int) -> None:
            """Put down the rank of the pair that begins at `place`."""
            rank = rank_of((symbols[place], symbols[after[place]]))
            if rank is None:
                return
            if rank not in places_of_rank:
                places_of_rank[rank] = array("q")
                heapq.heappush(open_ranks, rank)
            places_of_rank[rank].append(place)

        for place in range(end - 1):
            note(place)
        while open_ranks:
            rank = heapq.heappop(open_ranks)
            for place in sorted(places_of_rank.pop(rank)):
                second = after[place]
                # One of the two may have been merged with another since they were put down.
                if (
                    symbols[place] == _ABSENT
                    or second == end
                    or rank_of((symbols[place], symbols[second])) != rank
                ):
                    continue
                symbols[place] = self._merged_ids[rank]
                symbols[second] = _ABSENT
                after[place] = after[second]
                if after[place] < end:
                    before[after[place]] = place
                # The new pairs wait for the end of this pass, even one of a lower rank.
                if before[place] >= 0:
                    note(before[place])
                if after[place] < end:
                    note(place)
        return (symbol for symbol in symbols if symbol != _ABSENT)

    def _safe_pieces(self, iterable: Iterable[str]) -> Iterator[str]:
        """Regroup the pieces of a text so that each can be encoded by itself."""
        cuts = SafeCuts(self.special_tokens, self.pattern)
        waiting = bytearray()  # UTF-8
        searched = 0  # waiting[:searched] holds no safe cut
        num_characters = 0
        for piece in iterable:
            _check_type(piece)
            # A huge piece is taken in slices, so that the buffer stays small.
            for start in range(0, len(piece), _SLICE):
                part = piece[start : start + _SLICE]
                waiting += _to_utf8(part, num_characters)
                num_characters += len(part)
                if len(waiting) - searched < _READ_AHEAD + cuts.margin:
                    continue
                # Only the new bytes are searched: a text without a cut must not take n^2 time.
                origin = max(0, searched - cuts.margin)
                cut = cuts.last(bytes(waiting[origin:]), searched - origin)
                if cut is not None:
                    yield waiting[: origin + cut].decode()
                    del waiting[: origin + cut]
                searched = max(0, len(waiting) - cuts.margin)
        yield waiting.decode()

    def _explain_absent_byte(self, piece: str, offset: int, byte: int) -> ValueError:
        """Return the error for the first word in `piece` that needs an absent byte."""
        for match in compile_pattern(resolve_pattern(self.pattern)).finditer(piece):
            place, word = match.start(), match.group()
            for index, character in enumerate(word):
                if byte in character.encode():
                    return ValueError(
                        f"the vocabulary has no token for the byte {byte:#04x} of {character!r} at "
                        f"character {offset + place + index:,} of the text: add it to the "
                        "vocabulary, or remove the character"
                    )
        raise AssertionError(f"byte {byte:#04x} is not in {piece!r}")

    # ----------------------------------------------------------------- ids to text

    def decode(self, ids: Iterable[SupportsIndex]) -> str:
        """Return the text of some ids; bytes that are not UTF-8 become U+FFFD.

        Args:
            ids: ints, in any iterable: a list, a NumPy array, a generator.

        Raises:
            TypeError: an id is not a whole number.
            ValueError: an id that is not in the vocabulary; names it.
        """
        return self.decode_bytes(ids).decode("utf-8", errors="replace")

    def decode_bytes(self, ids: Iterable[SupportsIndex]) -> bytes:
        """Return the bytes of some ids, which need not be whole characters; raises as `decode`."""
        vocab = self.vocab
        tokens: list[bytes] = []
        for token_id in _plain_ids(ids):
            token = vocab.get(token_id)
            if token is None:
                raise ValueError(
                    f"id {token_id} is not in the vocabulary, whose greatest id is "
                    f"{self.vocab_size - 1}"
                )
            tokens.append(token)
        return b"".join(tokens)

    # ----------------------------------------------------------------- pickling

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_cache": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._cache = _WordCache(self._encode_word, self.cache_size)


class StreamingDecoder:
    """Decodes ids one at a time and gives out whole characters only.

    A character may take the bytes of several tokens; what is not complete waits for the next id.
    All the texts together are what `decode` makes of all the ids.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def push(self, token_id: SupportsIndex) -> str:
        """Return the characters that are complete with this id: often one word, perhaps none.

        Raises:
            TypeError, ValueError: as `Tokenizer.decode`; the decoder is left as it was.
        """
        return self._decoder.decode(self._tokenizer.decode_bytes([token_id]))

    def finish(self) -> str:
        """Return what is left, an incomplete character as U+FFFD; the decoder can begin anew."""
        rest = self._decoder.decode(b"", final=True)
        self._decoder.reset()
        return rest


class _AbsentByteError(Exception):
    """A word needs a byte for which the vocabulary has no token."""

    def __init__(self, byte: int) -> None:
        super().__init__(byte)
        self.byte = byte


class _WordCache(dict[str, list[int]]):
    """Pre-token -> ids, filled on demand: `cache[word]` encodes a word that it does not know.

    At most about `max_bytes` of memory are used; then the cache is emptied. Threads may share it:
    at worst they encode a word twice or count its bytes wrong by a little. The ids are lists, not
    tuples: Python keeps up to 2,000 freed tuples of every length for itself, so that an emptied
    cache would not give its memory back.
    """

    # What a word takes besides itself and its ids: its place in the table, which is a third to two
    # thirds full, and the rounding of the allocator. Measured with tracemalloc.
    _SLOT = 50

    def __init__(self, encode_word: Callable[[str], list[int]], max_bytes: int) -> None:
        super().__init__()
        self._encode_word = encode_word
        self._max_bytes = max_bytes
        self._num_bytes = 0

    def __missing__(self, word: str) -> list[int]:
        ids = self._encode_word(word)
        num_bytes = sys.getsizeof(word) + sys.getsizeof(ids) + self._SLOT
        # Long words seldom come again, and one of them would take the place of many.
        if len(word.encode()) < _LONG_WORD and num_bytes <= self._max_bytes:
            if self._num_bytes + num_bytes > self._max_bytes:
                self.clear()
                self._num_bytes = 0
            self[word] = ids
            self._num_bytes += num_bytes
        return ids


def _index_vocab(vocab: dict[int, bytes]) -> dict[bytes, int]:
    """Return token -> id, after checking every item."""
    token_ids: dict[bytes, int] = {}
    for token_id, token in vocab.items():
        if type(token_id) is not int:
            raise TypeError(
                f"vocab: id {token_id!r} of {token!r} is a {type(token_id).__name__}, not an int"
            )
        if token_id < 0:
            raise ValueError(f"vocab: the id {token_id} of {token!r} is negative")
        if not isinstance(token, bytes):
            raise TypeError(
                f"vocab: id {token_id} is {token!r}, a {type(token).__name__}, not bytes"
            )
        if not token:
            raise ValueError(f"vocab: id {token_id} is an empty token: remove it")
        if token in token_ids:
            raise ValueError(
                f"vocab: ids {token_ids[token]} and {token_id} are both {token!r}: remove one"
            )
        token_ids[token] = token_id
    return token_ids


def _index_merges(
    merges: list[Pair], token_ids: dict[bytes, int]
) -> tuple[dict[tuple[int, int], int], list[int]]:
    """Return (left id, right id) -> rank, and rank -> merged id, after checking every merge."""
    pair_ranks: dict[tuple[int, int], int] = {}
    merged_ids: list[int] = []
    for rank, merge in enumerate(merges):
        if (
            not isinstance(merge, (tuple, list))
            or len(merge) != 2
            or not all(isinstance(part, bytes) for part in merge)
        ):
            raise TypeError(f"merge {rank} is {merge!r}, not a pair of bytes")
        left, right = merge
        for token in (left, right, left + right):
            if token not in token_ids:
                raise ValueError(
                    f"merge {rank} joins {left!r} and {right!r}, but the vocabulary has no token "
                    f"{token!r}"
                )
        pair = token_ids[left], token_ids[right]
        if pair in pair_ranks:
            raise ValueError(
                f"merge {rank} of {left!r} and {right!r} stands already at {pair_ranks[pair]}: "
                "remove one"
            )
        pair_ranks[pair] = rank
        merged_ids.append(token_ids[left + right])
    return pair_ranks, merged_ids


def _check_type(text: object) -> None:
    if not isinstance(text, str):
        hint = "; decode it first, text.decode('utf-8')" if isinstance(text, bytes) else ""
        raise TypeError(f"text is a {type(text).__name__}, not a str{hint}")


def _to_utf8(text: str, offset: int = 0) -> bytes:
    """Return the UTF-8 of a text; `offset` is its place in the whole, for the error message."""
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(
            f"the text holds the lone surrogate U+{ord(text[error.start]):04X} at character "
            f"{offset + error.start:,}: it stands for no character and has no UTF-8"
        ) from None


def _plain_ids(ids: Any) -> Iterator[int]:
    """Yield ids as plain ints; refuses bools and everything that is not a whole number."""
    if isinstance(ids, np.ndarray):
        if ids.ndim != 1:
            raise ValueError(f"ids have the shape {ids.shape}: decode one sequence at a time")
        if ids.dtype.kind not in "iu" and ids.size:
            raise TypeError(f"ids are {ids.dtype}, not whole numbers")
        ids = ids.tolist()
    if isinstance(ids, (str, bytes)) or not isinstance(ids, Iterable):
        raise TypeError(f"ids are {ids!r}: decode takes a list or another iterable of ints")
    for token_id in ids:
        if type(token_id) is int:
            yield token_id
        elif isinstance(token_id, (bool, np.bool_)):
            raise TypeError(f"id {token_id!r} is a truth value, not a whole number")
        else:
            try:
                yield operator.index(token_id)
            except TypeError:
                raise TypeError(
                    f"id {token_id!r} is a {type(token_id).__name__}, not a whole number"
                ) from None
