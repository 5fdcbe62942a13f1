"""Tokenizer: text to ids and back, by byte-pair encoding with GPT-2's rules.

A text is cut at its special tokens, the rest is split into pre-tokens, and each pre-token is merged
by rank: of all pairs of neighbours the one that was learned first is merged, wherever it stands,
until no pair is left (Sennrich et al. 2016; Radford et al. 2019).

Three files say how, and the tests hold them together: `reference.py` in the plainest way,
`python_encoder.py` with words remembered, and `encoder.hpp`, which is what runs where it is built.
Here is what they share: which arguments are taken and which refused, files, errors.
"""

from __future__ import annotations

import codecs
import operator
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, SupportsIndex

import numpy as np
import numpy.typing as npt

from cs336_basics.pretokenization import pretokenize, resolve_pattern, split_special_tokens
from cs336_basics.pretokenization.parallel import resolve_num_workers
from cs336_basics.pretokenization.patterns import compile_pattern
from cs336_basics.pretokenization.safe_cuts import SafeCuts
from cs336_basics.pretokenization.splitter import check_special_tokens
from cs336_basics.tokenizer import vocab_files
from cs336_basics.tokenizer.encoders import ABSENT, AbsentByteError, PythonEncoder

try:
    from cs336_basics.tokenizer import _encoder
except ImportError:  # not built: plain Python does it
    _encoder = None  # type: ignore[assignment]

Pair = tuple[bytes, bytes]
TokenArray = npt.NDArray[np.unsignedinteger[Any]]

DEFAULT_CACHE_SIZE = 128 << 20
"""Bytes of memory for remembered words: more than a million words of English."""

# What encode_iterable holds stays within a megabyte: bytes of remembered words, bytes that it reads
# before it looks for a safe cut, characters of a huge piece that it takes at a time.
_ITERABLE_CACHE_SIZE = 448 << 10
_READ_AHEAD = 1 << 11
_SLICE = 1 << 13

# The compiled encoder takes ids of 32 bits, of which the greatest is a mark; to decode, it keeps
# them in an array, in which there may be this many gaps.
_MOST_NATIVE_IDS = (1 << 32) - 1
_MOST_GAPS = 1 << 20

# Fewer bytes are not worth the start of a thread.
_BYTES_PER_WORKER = 1 << 18


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
        cache_size: bytes of memory for remembered words, those of all threads together; 0 =
            remember nothing. A full cache is emptied and filled anew, the simplest rule that keeps
            the words of the day.

    Attributes:
        vocab: id -> token, with the special tokens (a copy: the caller's is not changed).
        merges, special_tokens: lists, as given.
        pattern, cache_size: as given.

    A tokenizer may be shared between threads, forked, copied and pickled. Encoding gives the GIL
    away.

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
        next_id = max(self.vocab, default=-1) + 1
        for special_token in self.special_tokens:
            token = special_token.encode()
            if token not in token_ids:
                token_ids[token] = next_id
                self.vocab[next_id] = token
                next_id += 1
            self._special_ids[special_token] = token_ids[token]
        self._vocab_size = max(self.vocab, default=-1) + 1
        self._byte_ids = [token_ids.get(bytes([byte]), ABSENT) for byte in range(256)]
        self._make_encoders()

    def _make_encoders(self) -> None:
        """Make the compiled encoder, or where there is none the one in plain Python."""
        self._special_sets: dict[frozenset[str], Any] = {}
        self._hash: str | None = None
        self._native: Any = None  # an Encoder
        self._python = PythonEncoder(
            self._byte_ids, self._pair_ranks, self._merged_ids, self.cache_size
        )
        if _encoder is None or self.vocab_size > _MOST_NATIVE_IDS:
            return
        merges = np.empty((len(self._merged_ids), 3), np.uint32)
        if len(merges):
            merges[:, :2] = list(self._pair_ranks)  # in the order of their ranks
            merges[:, 2] = self._merged_ids
        data = offsets = None
        if self.vocab_size <= 8 * len(self.vocab) + _MOST_GAPS:
            tokens = [self.vocab.get(token_id, b"") for token_id in range(self.vocab_size)]
            offsets = np.zeros(len(tokens) + 1, np.int64)
            np.cumsum([len(token) for token in tokens], out=offsets[1:])
            data = np.frombuffer(b"".join(tokens), np.uint8)
        self._native = _encoder.Encoder(
            [None if byte_id == ABSENT else byte_id for byte_id in self._byte_ids],
            merges,
            data,
            offsets,
            self.vocab_size,
            self.pattern,
            self.cache_size,
        )

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
        """Read a directory that `save` or `python -m cs336_basics train-bpe` wrote.

        Raises:
            FileNotFoundError, ValueError: see `load_tokenizer`.
        """
        vocab, merges, special_tokens, pattern, found = vocab_files.load_tokenizer(directory)
        tokenizer = cls(vocab, merges, special_tokens, pattern=pattern, cache_size=cache_size)
        if len(tokenizer.vocab) == len(vocab):  # else special tokens were appended
            tokenizer._hash = found
        return tokenizer

    def save(self, directory: str | os.PathLike[str]) -> None:
        """Write vocab.json, merges.txt and metadata.json into a directory."""
        vocab_files.save_tokenizer(
            directory, self.vocab, self.merges, self.special_tokens, self.pattern
        )

    # ----------------------------------------------------------------- what it is

    @property
    def vocab_size(self) -> int:
        """The greatest id plus one: the number of rows that a model's embedding needs."""
        return self._vocab_size

    def hash(self) -> str:
        """Return a SHA-256 (64 hexadecimal digits) of all that decides which ids a text gets."""
        if self._hash is None:
            self._hash = vocab_files.tokenizer_hash(
                self.vocab, self.merges, self.special_tokens, self.pattern
            )
        return self._hash

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

    def encode(
        self,
        text: str,
        *,
        allowed_special: str | Collection[str] = "all",
        disallowed_special: str | Collection[str] = (),
    ) -> list[int]:
        """Return the ids of a text.

        Args:
            text: any text.
            allowed_special: the special tokens that become ids where they stand in the text:
                `"all"`, or some of them. The others are text like any other.
            disallowed_special: special tokens that are refused; `"all"` = all that are not allowed.

        Raises:
            TypeError: `text` is not a str.
            ValueError: a disallowed special token, a lone surrogate, or a byte that the vocabulary
                lacks; names it and its place, counted in characters from 0. Or a name that is not
                one of the special tokens.
        """
        _check_type(text)
        allowed = self._choose_special(text, allowed_special, disallowed_special)
        if self._is_scanned():
            try:
                ids: list[int] = self._native.encode(text, self._special_set(allowed))
            except UnicodeEncodeError:
                _to_utf8(text)
                raise
            except _encoder.AbsentByteError as error:
                raise self._explain_absent_byte(text, allowed, error.byte) from None
            return ids
        if not text.isascii():
            _to_utf8(text)  # for its error: a lone surrogate is named with its place in the text
        return list(self._encode_pieces(text, allowed))

    def encode_array(
        self,
        text: str | bytes,
        *,
        num_workers: int | None = 1,
        errors: str = "replace",
        allowed_special: str | Collection[str] = "all",
        disallowed_special: str | Collection[str] = (),
    ) -> TokenArray:
        """Return the ids of a text as an array: quicker and smaller than a list.

        Args:
            text: text, or its UTF-8.
            num_workers: threads, None = one for each core.
            errors: what to do with bytes that are not UTF-8: `"replace"` reads them as U+FFFD,
                `"strict"` refuses them.
            allowed_special, disallowed_special: as `encode`.

        Returns:
            ids of shape (num_tokens,), dtype uint16, or uint32 where ids reach 65,536.

        Raises:
            TypeError: `text` is neither str nor bytes.
            ValueError: as `encode`; bytes that are not UTF-8 (`"strict"`), with their place.
        """
        dtype = token_dtype(self.vocab_size)
        num_workers = resolve_num_workers(num_workers)
        if isinstance(text, bytes):
            text = checked_utf8(text, errors)
        else:
            _check_type(text)
        if not self._is_scanned() or disallowed_special:
            characters = text.decode() if isinstance(text, bytes) else text
            if not self._is_scanned():
                options = {
                    "allowed_special": allowed_special,
                    "disallowed_special": disallowed_special,
                }
                return np.array(self.encode(characters, **options), dtype=dtype)
            allowed = self._choose_special(characters, allowed_special, disallowed_special)
        else:
            allowed = self._choose_special("", allowed_special, ())
        num_workers = max(1, min(num_workers, len(text) // _BYTES_PER_WORKER))
        try:
            ids: TokenArray = self._native.encode_array(
                text, self._special_set(allowed), num_workers
            )
        except UnicodeEncodeError:
            assert isinstance(text, str)
            _to_utf8(text)
            raise
        except _encoder.AbsentByteError as error:
            characters = text.decode() if isinstance(text, bytes) else text
            raise self._explain_absent_byte(characters, allowed, error.byte) from None
        return ids

    def encode_batch(
        self,
        texts: Iterable[str],
        *,
        num_workers: int | None = None,
        allowed_special: str | Collection[str] = "all",
        disallowed_special: str | Collection[str] = (),
    ) -> list[list[int]]:
        """Return the ids of each of several texts, which are encoded by threads.

        Args:
            texts: texts; none joins with its neighbours.
            num_workers: threads, None = one for each core; never more than the texts are worth.
            allowed_special, disallowed_special: as `encode`.

        Raises:
            TypeError, ValueError: as `encode`; the message begins with the number of the text.
        """
        texts = list(texts)
        num_workers = resolve_num_workers(num_workers)
        for index, text in enumerate(texts):
            if not isinstance(text, str):
                raise TypeError(f"text {index:,}: {_type_message(text)}")
        num_workers = max(1, min(num_workers, sum(map(len, texts)) // _BYTES_PER_WORKER))
        if self._is_scanned() and not disallowed_special:
            allowed = self._choose_special("", allowed_special, ())
            try:
                ids: list[list[int]] = self._native.encode_batch(
                    texts, self._special_set(allowed), num_workers
                )
                return ids
            except (UnicodeEncodeError, _encoder.AbsentByteError):
                pass  # below the first text that is to blame is named
        batch = []
        for index, text in enumerate(texts):
            try:
                batch.append(
                    self.encode(
                        text,
                        allowed_special=allowed_special,
                        disallowed_special=disallowed_special,
                    )
                )
            except ValueError as error:
                raise ValueError(f"text {index:,}: {error}") from None
        return batch

    def encode_with_offsets(
        self,
        text: str,
        *,
        allowed_special: str | Collection[str] = "all",
        disallowed_special: str | Collection[str] = (),
    ) -> tuple[list[int], list[tuple[int, int]]]:
        """Return the ids of a text, and for each the part of the text that it stands for.

        A part is (start, end), in characters: `text[start:end]`. Where a token is only a part of
        a character, its part is the whole character, so that several tokens have the same.

        Raises:
            TypeError, ValueError: as `encode`.
        """
        _check_type(text)
        allowed = self._choose_special(text, allowed_special, disallowed_special)
        _to_utf8(text)
        ids: list[int] = []
        offsets: list[tuple[int, int]] = []
        place = 0
        for piece, is_special in split_special_tokens(text, allowed):
            if is_special:
                ids.append(self._special_ids[piece])
                offsets.append((place, place + len(piece)))
            else:
                for start, word in self._words_with_places(piece):
                    word_ids = self._encode_words([word], word, allowed)
                    ids += word_ids
                    offsets += self._offsets_in(word, word_ids, place + start)
            place += len(piece)
        return ids, offsets

    def encode_iterable(self, iterable: Iterable[str]) -> Iterator[int]:
        """Yield the ids of the joined pieces of a text, without holding more than some of them.

        The ids are those of `encode("".join(iterable))`, wherever the pieces are cut: a pre-token
        or special token may lie across them. An open file is a fine iterable: its lines are read
        as they are needed. The buffer grows only while the text gives no place that is sure to be
        the end of a pre-token (see `pretokenization/chunking.py`): white space in a named pattern,
        a special token in any. Remembered words take at most 448 KiB here.

        Raises:
            TypeError: a piece is not a str.
            ValueError: as `encode`; the place is counted from the beginning of the first piece.
        """
        cache_size = min(self.cache_size, _ITERABLE_CACHE_SIZE)
        cache: Any  # of this call alone, so that it may be small
        if self._native is not None:
            cache = self._native.streaming_worker(cache_size)
        else:
            cache = self._python.streaming_cache(cache_size)
        allowed = self.special_tokens
        offset = 0
        for text in self._safe_pieces(iterable):
            if self._is_scanned():
                try:
                    yield from self._native.encode(text, self._special_set(allowed), cache)
                except _encoder.AbsentByteError as error:
                    raise self._explain_absent_byte(text, allowed, error.byte, offset) from None
            else:
                yield from self._encode_pieces(text, allowed, cache, offset)
            offset += len(text)

    def _is_scanned(self) -> bool:
        """Tell whether the compiled encoder does it all, the splitting too."""
        return self._native is not None and self._native.scanned

    def _encode_pieces(
        self, text: str, allowed: Sequence[str], cache: Any = None, offset: int = 0
    ) -> Iterator[int]:
        """Yield the ids of a text that is split in Python; `offset` is its place in the whole."""
        for piece, is_special in split_special_tokens(text, allowed):
            if is_special:
                yield self._special_ids[piece]
            else:
                words = pretokenize(piece, self.pattern)
                yield from self._encode_words(words, piece, (), cache, offset)
            offset += len(piece)

    def _encode_words(
        self,
        words: Iterable[str],
        text: str,
        allowed: Sequence[str],
        cache: Any = None,
        offset: int = 0,
    ) -> Iterable[int]:
        """Return the ids of the pre-tokens of a text."""
        try:
            if self._native is not None:
                ids: list[int] = self._native.encode_words(words, cache)
                return ids
            return list(self._python.encode_words(words, cache))
        except AbsentByteError as error:
            raise self._explain_absent_byte(text, allowed, error.byte, offset) from None

    def _words_with_places(self, text: str) -> Iterator[tuple[int, str]]:
        """Yield the pre-tokens of a text without special tokens, with their places in it."""
        if self._is_scanned():  # which leaves nothing out
            start = 0
            for word in pretokenize(text, self.pattern):
                yield start, word
                start += len(word)
        else:
            for match in compile_pattern(resolve_pattern(self.pattern)).finditer(text):
                if match.group():
                    yield match.start(), match.group()

    def _offsets_in(self, word: str, ids: Iterable[int], origin: int) -> Iterator[tuple[int, int]]:
        """Yield the parts of a word that its ids stand for; it begins at character `origin`."""
        character_of_byte = [
            place for place, character in enumerate(word) for _ in character.encode()
        ]
        end = 0
        for token_id in ids:
            start, end = end, end + len(self.vocab[token_id])
            yield origin + character_of_byte[start], origin + character_of_byte[end - 1] + 1

    def _choose_special(
        self,
        text: str,
        allowed_special: str | Collection[str],
        disallowed_special: str | Collection[str],
    ) -> list[str]:
        """Return the allowed special tokens, after refusing a text that holds disallowed ones."""
        if allowed_special == "all" and not disallowed_special:
            return self.special_tokens
        chosen: list[set[str]] = []
        for name, tokens in (
            ("allowed_special", allowed_special),
            ("disallowed_special", disallowed_special),
        ):
            if tokens == "all":
                tokens = set(self.special_tokens) - set(chosen[0] if chosen else ())
            elif isinstance(tokens, str):
                raise ValueError(f"{name} is {tokens!r}: it must be 'all' or a list of tokens")
            for token in tokens:
                if token not in self._special_ids:
                    raise ValueError(
                        f"{name}: {token!r} is not a special token; these are: "
                        f"{self.special_tokens}"
                    )
            chosen.append(set(tokens))
        allowed, disallowed = chosen
        if both := allowed & disallowed:
            raise ValueError(f"special token {min(both)!r} is both allowed and disallowed")
        if disallowed:
            place = 0
            for piece, is_special in split_special_tokens(text, sorted(allowed | disallowed)):
                if is_special and piece in disallowed:
                    raise ValueError(
                        f"the text holds the special token {piece!r} at character {place:,}: add "
                        "it to allowed_special, or take it out of disallowed_special to read it "
                        "as text"
                    )
                place += len(piece)
        return [token for token in self.special_tokens if token in allowed]

    def _special_set(self, allowed: Sequence[str]) -> Any:
        """Return the special tokens as the compiled encoder wants them."""
        key = frozenset(allowed)
        if key not in self._special_sets:
            if len(self._special_sets) >= 16:  # nobody has that many; it must not grow for ever
                self._special_sets.clear()
            self._special_sets[key] = _encoder.SpecialSet(
                [(token, self._special_ids[token]) for token in allowed]
            )
        return self._special_sets[key]

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

    def _explain_absent_byte(
        self, text: str, allowed: Sequence[str], byte: int, offset: int = 0
    ) -> ValueError:
        """Return the error for the first word in a text that needs an absent byte."""
        for piece, is_special in split_special_tokens(text, allowed):
            for place, word in () if is_special else self._words_with_places(piece):
                for index, character in enumerate(word):
                    if byte in character.encode():
                        return ValueError(
                            f"the vocabulary has no token for the byte {byte:#04x} of "
                            f"{character!r} at character {offset + place + index:,} of the text: "
                            "add it to the vocabulary, or remove the character"
                        )
            offset += len(piece)
        raise AssertionError(f"byte {byte:#04x} is not in the text")

    # ----------------------------------------------------------------- ids to text

    def decode(self, ids: Iterable[SupportsIndex]) -> str:
        """Return the text of some ids; bytes that are not UTF-8 become U+FFFD.

        Args:
            ids: ints, in any iterable: a list, a NumPy array, a generator.

        Raises:
            TypeError: an id is not a whole number.
            ValueError: an id that is not in the vocabulary; names it.
        """
        if self._native is not None:
            text: str | None = self._native.decode(ids, True)
            if text is not None:
                return text
        return self._decode_in_python(ids).decode("utf-8", errors="replace")

    def decode_bytes(self, ids: Iterable[SupportsIndex]) -> bytes:
        """Return the bytes of some ids, which need not be whole characters; raises as `decode`."""
        if self._native is not None:
            data: bytes | None = self._native.decode(ids, False)
            if data is not None:
                return data
        return self._decode_in_python(ids)

    def decode_batch(self, batch: Iterable[Iterable[SupportsIndex]]) -> list[str]:
        """Return the text of each of several sequences of ids.

        Raises:
            TypeError, ValueError: as `decode`; the message begins with the number of the sequence.
        """
        texts = []
        for index, ids in enumerate(batch):
            try:
                texts.append(self.decode(ids))
            except (TypeError, ValueError) as error:
                raise type(error)(f"sequence {index:,}: {error}") from None
        return texts

    def _decode_in_python(self, ids: Iterable[SupportsIndex]) -> bytes:
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
        made_anew = ("_native", "_python", "_special_sets", "_hash")
        return {name: value for name, value in self.__dict__.items() if name not in made_anew}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._make_encoders()


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


def token_dtype(vocab_size: int) -> np.dtype[Any]:
    """Return the smaller of uint16 and uint32 that holds every id; little-endian everywhere.

    Raises:
        ValueError: ids need more than 32 bits.
    """
    if vocab_size <= 1 << 16:
        return np.dtype("<u2")
    if vocab_size <= 1 << 32:
        return np.dtype("<u4")
    raise ValueError(f"the greatest id is {vocab_size - 1}: arrays of ids hold at most 32 bits")


def _check_type(text: object) -> None:
    if not isinstance(text, str):
        raise TypeError(_type_message(text))


def _type_message(text: object) -> str:
    hint = "; decode it first, text.decode('utf-8')" if isinstance(text, bytes) else ""
    return f"text is a {type(text).__name__}, not a str{hint}"


def checked_utf8(data: bytes, errors: str) -> bytes:
    """Return bytes that are valid UTF-8."""
    if errors not in ("replace", "strict"):
        raise ValueError(f"errors is {errors!r}: it must be 'replace' or 'strict'")
    if _encoder is not None and _encoder.is_valid_utf8(data):
        return data
    try:
        return data.decode("utf-8", errors).encode()
    except UnicodeDecodeError as error:
        raise ValueError(
            f"byte {data[error.start]:#04x} at offset {error.start:,} is not valid UTF-8; "
            "errors='replace' would read it as U+FFFD"
        ) from None


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
