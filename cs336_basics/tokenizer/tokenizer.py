"""Tokenizer: text to ids and back, by byte-pair encoding with GPT-2's rules.

A text is cut at its special tokens, the rest is split into pre-tokens, and each pre-token is merged
by rank: of all adjacent pairs the one that was learned first is merged, of equal ones the leftmost,
until no pair is left (Sennrich et al. 2016; Radford et al. 2019).

This file is the public class, which checks arguments and delegates. `encoders/` has the three
implementations that do the work, and the tests compare them.
"""

from __future__ import annotations

import operator
import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, SupportsIndex

import numpy as np
import numpy.typing as npt

import cs336_basics
from cs336_basics._support.arguments import MAX_INT64, checked_integer
from cs336_basics._support.files import printable_path, write_json
from cs336_basics._support.messages import short_repr
from cs336_basics._support.text import END_OF_TEXT
from cs336_basics.pretokenization.reading.corpus import ENCODING_ERRORS, check_errors
from cs336_basics.pretokenization.reading.utf8 import is_valid_utf8
from cs336_basics.pretokenization.splitter import Splitter, check_is_str, check_special_tokens
from cs336_basics.tokenizer import decoding, padding
from cs336_basics.tokenizer.batches import Batch, useful_workers
from cs336_basics.tokenizer.encoders.backends import make_encoder
from cs336_basics.tokenizer.encoders.encoder import AbsentByteError
from cs336_basics.tokenizer.encoders.exact_bytes import EXACT, absent_byte_error, encode_exactly
from cs336_basics.tokenizer.ids import EncodedBatch, TokenArray
from cs336_basics.tokenizer.offsets import encode_with_offsets
from cs336_basics.tokenizer.padding import PaddedBatch, model_inputs
from cs336_basics.tokenizer.special_tokens import SpecialChoice
from cs336_basics.tokenizer.streaming.chunked_text import encode_chunks
from cs336_basics.tokenizer.text_input import (
    check_is_iterable,
    explained,
    replaced_utf8,
)
from cs336_basics.tokenizer.vocabulary import (
    TOKENIZER_FILE,
    Pair,
    TokenizerParts,
    Vocabulary,
)

TRAINING_FILE = "training.json"

DEFAULT_CACHE_SIZE = 128 << 20
"""Bytes of memory for cached words: more than a million words of English."""


class Tokenizer:
    """Byte-pair encoding with a vocabulary, its merges and special tokens.

    Args:
        vocab: id -> token. Ids may come in any order and have gaps. A vocabulary need not hold
            every byte; `encode` refuses a text that needs one it lacks.
        merges: pairs of tokens, in the order in which they were learned: the index of a pair is
            its rank. Two different pairs may make the same token.
        special_tokens: texts that become one id each and are never split; where they overlap, the
            longest wins. One that is not in the vocabulary is appended after its greatest id.
        pattern: split pattern, a name in PATTERNS or a regular expression. Text that a regular
            expression of your own does not match is dropped, as with `finditer`, and decoding does
            not give it back: the first time, there is a warning with the share. The named patterns
            match everything.
        cache_size: bytes of memory for cached words, of all threads together; 0: no cache. A full
            cache is emptied and filled again: a simple rule, after which it holds recent words.
        backend: the implementation, one of `backends.BACKENDS`: `"reference"`, `"python"` or
            `"native"`. All give the same ids. None: `"native"` where the extensions are built and
            the greatest id is below 2^32 - 1, else `"python"`.
        ignore_merges: a pre-token that is a token, and not a special one, becomes this token,
            whatever the merges: as in tiktoken, and in tokenizers with this switch (Llama 3).

    Attributes:
        vocab: id -> token, with the special tokens (a copy of the argument).
        merges, special_tokens: lists, as given.
        pattern, cache_size, backend, ignore_merges: as given.
        splitter: the `Splitter` of pattern and special tokens.
        encoder: the `Encoder` that does the work.
        source: the file, directory or name that it was loaded from, for messages; None: from none.

    A tokenizer may be shared between threads, forked, copied and pickled. The native backend
    releases the GIL while it encodes.

    Raises:
        TypeError: an item of the wrong type.
        ValueError: two ids with the same bytes, an id that is negative or above 32 bits, an empty
            token, a merge given twice, a merge whose tokens or result the vocabulary lacks, an
            empty or repeated special token, a bad pattern, a backend that is unknown or not
            available. Every message names the item.
    """

    def __init__(
        self,
        vocab: Mapping[int, bytes],
        merges: Iterable[Pair],
        special_tokens: Iterable[str] | None = None,
        *,
        pattern: str = "gpt2",
        cache_size: int = DEFAULT_CACHE_SIZE,
        backend: str | None = None,
        ignore_merges: bool = False,
    ) -> None:
        cache_size = checked_integer(
            "cache_size", cache_size, 0, MAX_INT64, note=" bytes (0: no cache)"
        )
        check_is_iterable("merges", merges, "pairs of bytes")
        if not isinstance(vocab, Mapping):
            raise TypeError(f"vocab is {short_repr(vocab)}: pass a dict of id -> bytes")
        splitter = Splitter(pattern, check_special_tokens(special_tokens))
        vocabulary = Vocabulary(vocab, merges, splitter.special_tokens, ignore_merges)
        self._set(vocabulary, splitter, cache_size, backend)

    def _set(
        self, vocabulary: Vocabulary, splitter: Splitter, cache_size: int, backend: str | None
    ) -> None:
        self._vocabulary = vocabulary
        self.vocab = vocabulary.tokens
        self.merges = vocabulary.merges
        self.ignore_merges = vocabulary.ignore_merges
        self.splitter = splitter
        self.special_tokens = list(splitter.special_tokens)
        self.pattern = splitter.pattern
        self.cache_size = cache_size
        self.backend = backend
        self.encoder = make_encoder(vocabulary, self.pattern, cache_size, backend)
        # (A bound method: as fast as one of this class.)
        self._choose_special = SpecialChoice(self.encoder.all_special, self.special_tokens).choose
        self._hash: str | None = None
        self.source: str | None = None

    # The encoder holds caches and pointers, so a copy or an unpickled tokenizer makes its own.
    # Equal tokenizers have equal pickles, in every process: the library `datasets` names what it
    # has computed by the hash of a pickle.

    def __getstate__(self) -> dict[str, Any]:
        made = {"vocab", "merges", "ignore_merges", "splitter", "special_tokens", "encoder"}
        made |= {"_choose_special", "_hash", "source"}
        return {name: value for name, value in sorted(vars(self).items()) if name not in made}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)  # with what a subclass has
        splitter = Splitter(self.pattern, list(self._vocabulary.special_ids))
        self._set(self._vocabulary, splitter, self.cache_size, self.backend)

    def __repr__(self) -> str:
        return (
            f"<Tokenizer: {len(self):,} tokens, {len(self.merges):,} merges, special tokens "
            f"{short_repr(self.special_tokens)}, pattern {short_repr(self.pattern)}>"
        )

    # ----------------------------------------------------------------- files
    # Formats are imported where they are read: few programs need more than one.

    @classmethod
    def from_files(
        cls,
        vocab_filepath: str | os.PathLike[str],
        merges_filepath: str | os.PathLike[str],
        special_tokens: Iterable[str] | None = None,
        *,
        pattern: str = "gpt2",
        cache_size: int = DEFAULT_CACHE_SIZE,
        backend: str | None = None,
    ) -> Tokenizer:
        """Read vocab.json and merges.txt as GPT-2 has them.

        Raises:
            FileNotFoundError, ValueError: see `load_vocab` and `load_merges`.
        """
        from cs336_basics.formats.gpt2.pair import load_merges, load_vocab

        vocab, merges = load_vocab(vocab_filepath), load_merges(merges_filepath)
        return cls(
            vocab, merges, special_tokens, pattern=pattern, cache_size=cache_size, backend=backend
        )

    @classmethod
    def from_directory(
        cls,
        directory: str | os.PathLike[str],
        *,
        cache_size: int = DEFAULT_CACHE_SIZE,
        backend: str | None = None,
    ) -> Tokenizer:
        """Read the tokenizer.json that `save` or `python -m cs336_basics train-bpe` wrote.

        Args:
            directory: the directory that holds it, or the file itself; also one of another library.
            cache_size, backend: as the constructor.

        Raises:
            FileNotFoundError, ValueError: see `load_tokenizer_json`.
        """
        from cs336_basics.formats.huggingface.tokenizer_json import load_tokenizer_json

        parts = load_tokenizer_json(directory, own=True)
        return cls._of(parts, directory, cache_size, backend)

    @classmethod
    def from_huggingface(
        cls,
        source: str | os.PathLike[str],
        *,
        revision: str | None = None,
        ignore: Iterable[str] = (),
        cache_size: int = DEFAULT_CACHE_SIZE,
        backend: str | None = None,
    ) -> Tokenizer:
        """Read a tokenizer.json of Hugging Face's tokenizers and transformers.

        Args:
            source: the file, a directory that holds it, or the name of a repository of the hub,
                such as `openai-community/gpt2`, from which huggingface_hub downloads it.
            revision: a branch, tag or commit of the repository.
            ignore: parts of the file that a Tokenizer cannot do, and that are left out:
                `"normalizer"` (normalize texts yourself), `"post_processor"` (no tokens are added
                to a text), `"truncation"`, `"padding"`.
            cache_size, backend: as the constructor.

        Raises:
            FileNotFoundError, OSError, ImportError: see `find_or_download`.
            ValueError: the file is malformed, or does what a Tokenizer does not do, such as a
                normalizer: names it, and says whether it can be ignored.
        """
        from cs336_basics.formats.huggingface.hub import find_or_download
        from cs336_basics.formats.huggingface.tokenizer_json import load_tokenizer_json

        path = find_or_download(source, TOKENIZER_FILE, revision)
        return cls._of(load_tokenizer_json(path, ignore), source, cache_size, backend)

    @classmethod
    def from_pretrained(
        cls,
        source: str | os.PathLike[str],
        *,
        revision: str | None = None,
        ignore: Iterable[str] = (),
        cache_size: int = DEFAULT_CACHE_SIZE,
        backend: str | None = None,
    ) -> Tokenizer:
        """Read what `from_directory` or `from_huggingface` reads, by its directory or name.

        Args:
            source, revision, ignore: as `from_huggingface`.
            cache_size, backend: as the constructor.

        Raises:
            FileNotFoundError, OSError, ImportError, ValueError: as `from_huggingface`.
        """
        from cs336_basics.formats.huggingface.hub import find_or_download
        from cs336_basics.formats.huggingface.tokenizer_json import load_tokenizer_json

        path = find_or_download(source, TOKENIZER_FILE, revision)
        return cls._of(load_tokenizer_json(path, ignore, own=True), source, cache_size, backend)

    @classmethod
    def from_tiktoken(
        cls,
        source: str | os.PathLike[str],
        special_tokens: Mapping[str, int] | None = None,
        *,
        pattern: str | None = None,
        cache_size: int = DEFAULT_CACHE_SIZE,
        backend: str | None = None,
    ) -> Tokenizer:
        """Read a file of tiktoken's ranks, an export to tiktoken, or an encoding that it knows.

        Raises:
            FileNotFoundError, ValueError, ImportError, OSError: see `load_tiktoken`.
        """
        from cs336_basics.formats.tiktoken.ranks import load_tiktoken

        parts = load_tiktoken(source, special_tokens, pattern)
        return cls._of(parts, source, cache_size, backend)

    @classmethod
    def from_gpt2(
        cls,
        source: str | os.PathLike[str],
        merges_file: str | os.PathLike[str] | None = None,
        special_tokens: Iterable[str] | None = None,
        *,
        cache_size: int = DEFAULT_CACHE_SIZE,
        backend: str | None = None,
    ) -> Tokenizer:
        """Read GPT-2's pair of files, from their directory or by their names.

        Unlike `from_files`, it knows the special tokens: those that no merge makes.

        Raises:
            FileNotFoundError, ValueError: see `load_gpt2`.
        """
        from cs336_basics.formats.gpt2.pair import load_gpt2

        parts = load_gpt2(source, merges_file, special_tokens)
        return cls._of(parts, source, cache_size, backend)

    @classmethod
    def _of(
        cls,
        parts: TokenizerParts,
        source: str | os.PathLike[str],
        cache_size: int,
        backend: str | None,
    ) -> Tokenizer:
        try:
            tokenizer = cls(**parts._asdict(), cache_size=cache_size, backend=backend)
        except ValueError as error:
            raise ValueError(f"{source}: {error}") from None
        tokenizer.source = printable_path(source)
        return tokenizer

    def save(
        self, directory: str | os.PathLike[str], training: Mapping[str, Any] | None = None
    ) -> None:
        """Write the tokenizer as DIRECTORY/tokenizer.json, in Hugging Face's format.

        Everything that determines ids is in this file, which is old or new after a crash.
        DIRECTORY/training.json tells where it comes from; nothing reads it.

        Args:
            directory: created if it is missing.
            training: what the tokenizer was made from, to be recorded in training.json.
        """
        from cs336_basics.formats.huggingface.tokenizer_json import save_tokenizer_json
        from cs336_basics.pretokenization.reference import unicode_version

        save_tokenizer_json(self.parts(), directory)
        provenance = {
            "tokenizer_hash": self.hash(),
            "library_version": cs336_basics.__version__,
            # Its tables determine which characters are letters for the pattern.
            "unicode_version": unicode_version(),
        }
        write_json(os.path.join(directory, TRAINING_FILE), {**provenance, **(training or {})})

    def parts(self) -> TokenizerParts:
        """Return everything that determines the ids of a text."""
        return TokenizerParts(
            self.vocab, self.merges, self.special_tokens, self.pattern, self.ignore_merges
        )

    def hash(self) -> str:
        """Return the SHA-256 (64 hexadecimal digits) of what determines the ids of a text.

        It depends neither on the order of the vocabulary and of the special tokens, nor on whether
        the pattern is given by its name.
        """
        if self._hash is None:
            self._hash = self._vocabulary.hash(self.splitter.expression)
        return self._hash

    def add_special_tokens(self, special_tokens: Iterable[str]) -> list[int]:
        """Add special tokens to this tokenizer, and return their ids.

        A new one gets the next id, `vocab_size`; ids of other tokens never change. One that is in
        the vocabulary keeps its id. A model needs a row of its embedding for each new id. `save`
        and pickles hold the tokens, and `hash` changes.

        Threads that encode or decode meanwhile do so as before, or with all new tokens. Two threads
        must not add tokens at the same time: those of one would be lost.

        Args:
            special_tokens: a list of str. Repeating one that the tokenizer has changes nothing.

        Raises:
            TypeError, ValueError: as the constructor; nothing is changed.
        """
        if isinstance(special_tokens, Mapping):
            raise TypeError(f"special_tokens is {short_repr(special_tokens)}: pass a list of str")
        added = check_special_tokens(special_tokens)
        together = dict.fromkeys([*self.special_tokens, *added])
        splitter = Splitter(self.pattern, list(together))
        vocabulary = Vocabulary(
            self.vocab, self.merges, splitter.special_tokens, self.ignore_merges
        )
        changed = type(self).__new__(type(self))
        changed._set(vocabulary, splitter, self.cache_size, self.backend)
        # One call: no thread sees the attributes of two vocabularies.
        vars(self).update(vars(changed))
        return [vocabulary.special_ids[token] for token in added]

    # ----------------------------------------------------------------- tokens and their ids

    def __len__(self) -> int:
        """Return the number of tokens, special tokens included; see `vocab_size`."""
        return len(self.vocab)

    @property
    def vocab_size(self) -> int:
        """The greatest id plus one: the number of rows that a model's embedding needs.

        It exceeds `len(tokenizer)` where ids have gaps.
        """
        return self._vocabulary.size

    def token_to_id(self, token: bytes | str) -> int | None:
        """Return the id of a token, None if the vocabulary lacks it.

        Args:
            token: bytes, or a str, which stands for its UTF-8: `" the"`, not `"Ġthe"`.

        Raises:
            TypeError: neither bytes nor str.
            ValueError: a str with a lone surrogate, which has no UTF-8.
        """
        if isinstance(token, str):
            try:
                token = token.encode()
            except UnicodeEncodeError:
                raise ValueError(f"token is {short_repr(token)}: it has no UTF-8") from None
        elif not isinstance(token, bytes):
            raise TypeError(f"token is {short_repr(token)}: it must be bytes or a str")
        return self._vocabulary.token_ids.get(token)

    def id_to_token(self, token_id: SupportsIndex) -> bytes | None:
        """Return the bytes of a token, None if no token has this id.

        A token need not be text: it may end within a character. `decode([token_id])` is text.

        Raises:
            TypeError: it is not an integer.
        """
        if isinstance(token_id, (bool, np.bool_)):
            raise TypeError(f"token_id is {token_id!r}, a bool, not an integer")
        try:
            return self.vocab.get(operator.index(token_id))
        except TypeError:
            raise TypeError(f"token_id is {short_repr(token_id)}, not an integer") from None

    def special_token_id(self, token: str) -> int:
        """Return the id of a special token.

        Raises:
            ValueError: it is not one of this tokenizer's special tokens.
        """
        if not isinstance(token, str) or token not in self._vocabulary.special_ids:
            raise ValueError(
                f"{short_repr(token)} is not a special token: use one of "
                f"{short_repr(self.special_tokens)}, or make the tokenizer with it"
            )
        return self._vocabulary.special_ids[token]

    # ----------------------------------------------------------------- text to ids

    def __call__(
        self,
        text: str | Iterable[str],
        *,
        padding: bool | str = False,
        truncation: bool = False,
        max_length: int | None = None,
        pad_id: int | str | None = None,
    ) -> dict[str, list[Any]]:
        """Return `input_ids` and `attention_mask`, as a tokenizer of Hugging Face does.

        Args:
            text: a text or several, which are encoded by threads. No tokens are added.
            padding: make the lists equally long: True or `"longest"`, as the longest one;
                `"max_length"`, with `max_length` ids.
            truncation: leave out the ids of a text after its first `max_length`.
            max_length: see above.
            pad_id: fills the lists, as in `pad`; None: `<|endoftext|>`, or 0 without this token.

        Returns:
            lists of ids, and lists of 1 for an id and 0 for padding; of one text, one list each.

        Raises:
            TypeError, ValueError: as `encode` and `pad`; an unknown `padding`; a `max_length` that
                is missing, without use, or too small for a text that is not truncated.
        """
        one = isinstance(text, str)
        lists = self.encode_batch([text] if isinstance(text, str) else text)
        if pad_id is None:
            pad_id = self._vocabulary.special_ids.get(END_OF_TEXT, 0)
        elif isinstance(pad_id, str):
            pad_id = self.special_token_id(pad_id)
        ids, mask = model_inputs(lists, padding, truncation, max_length, pad_id)
        return {"input_ids": ids[0] if one else ids, "attention_mask": mask[0] if one else mask}

    def encode(
        self,
        text: str,
        *,
        allowed_special: str | Collection[str] | None = None,
        disallowed_special: str | Collection[str] = (),
    ) -> list[int]:
        """Return the ids of a text.

        Args:
            text: any text.
            allowed_special: the special tokens that become ids where they occur in the text:
                `"all"`, or some of them. None: all that are not disallowed. The others are
                ordinary text.
            disallowed_special: special tokens that are refused; `"all"`: all that are not named in
                `allowed_special`.

        Raises:
            TypeError: `text` is not a str.
            ValueError: a disallowed special token, a lone surrogate, or a byte that the vocabulary
                lacks; names it and its position, counted in characters from 0. Or a name that is
                not one of the special tokens.
        """
        check_is_str(text)
        special = self._choose_special(text, allowed_special, disallowed_special)
        try:
            return self.encoder.encode(text, special)
        except (UnicodeEncodeError, AbsentByteError) as error:
            raise explained(error, text) from None

    def encode_array(
        self,
        text: str | bytes,
        *,
        num_workers: int | None = 1,
        errors: str = "replace",
        allowed_special: str | Collection[str] | None = None,
        disallowed_special: str | Collection[str] = (),
    ) -> TokenArray:
        """Return the ids of a text as an array: faster and smaller than a list.

        Args:
            text: text, or its UTF-8.
            num_workers: threads; None: one for each core.
            errors: what to do with bytes that are not UTF-8: `"replace"` reads them as U+FFFD,
                `"strict"` refuses them, `"bytes"` makes each of them the token of this byte, so
                that `decode_bytes` gives back exactly `text`; see `exact_bytes.py`.
            allowed_special, disallowed_special: as `encode`.

        Returns:
            ids of shape (num_tokens,), dtype uint16, or uint32 where ids reach 65,536.

        Raises:
            TypeError: `text` is neither str nor bytes.
            ValueError: as `encode`; bytes that are not UTF-8 (`"strict"`), with their offset, or
                that begin with the byte order mark of UTF-16 or UTF-32; ids of more than 32 bits.

        Warns:
            UserWarning: bytes were read as U+FFFD.
        """
        check_errors(errors, ENCODING_ERRORS)
        if isinstance(text, bytes):
            if errors == EXACT and not is_valid_utf8(text):
                special = self._choose_special(text, allowed_special, disallowed_special)
                num_workers = useful_workers(num_workers, len(text))
                try:
                    ids = encode_exactly(self.encoder, text, special, num_workers)
                except AbsentByteError as error:
                    raise absent_byte_error(error.byte, f"at offset {error.offset:,}") from None
                self.encoder.warn_of_dropped(len(text), ids)
                return ids
            text = replaced_utf8(text, "strict" if errors == EXACT else errors)
        else:
            check_is_str(text)
        special = self._choose_special(text, allowed_special, disallowed_special)
        num_workers = useful_workers(num_workers, len(text))
        try:
            return self.encoder.encode_array(text, special, num_workers)
        except (UnicodeEncodeError, AbsentByteError) as error:
            raise explained(error, text) from None

    def encode_batch(
        self,
        texts: Iterable[str],
        *,
        num_workers: int | None = None,
        allowed_special: str | Collection[str] | None = None,
        disallowed_special: str | Collection[str] = (),
    ) -> list[list[int]]:
        """Return the ids of each of several texts, which are encoded by threads.

        Args:
            texts: several texts; none is joined to its neighbours.
            num_workers: threads; None: one for each core, fewer for little text.
            allowed_special, disallowed_special: as `encode`.

        Raises:
            TypeError, ValueError: as `encode`; the message begins with the index of the text.
        """
        batch = Batch(texts, self._choose_special, allowed_special, disallowed_special)
        return batch.encode(self.encoder, self.encoder.encode_batch, num_workers)

    def encode_batch_array(
        self,
        texts: Iterable[str],
        *,
        num_workers: int | None = None,
        allowed_special: str | Collection[str] | None = None,
        disallowed_special: str | Collection[str] = (),
    ) -> EncodedBatch:
        """Return the ids of several texts in one array: faster and smaller than lists.

        `pad`, `truncate` and `decode_batch` take what it returns, and `arrays()` of it is a list of
        the ids of each text.

        Args:
            texts, num_workers, allowed_special, disallowed_special: as `encode_batch`.

        Returns:
            a pair: ids of shape (num_tokens,), dtype uint16, or uint32 where ids reach 65,536; and
            offsets of shape (num_texts + 1,), int64: the ids of text i are
            ids[offsets[i]:offsets[i + 1]].

        Raises:
            TypeError, ValueError: as `encode_batch`.
        """
        batch = Batch(texts, self._choose_special, allowed_special, disallowed_special)
        return EncodedBatch(
            *batch.encode(self.encoder, self.encoder.encode_batch_array, num_workers)
        )

    def encode_with_offsets(
        self,
        text: str,
        *,
        allowed_special: str | Collection[str] | None = None,
        disallowed_special: str | Collection[str] = (),
    ) -> tuple[list[int], list[tuple[int, int]]]:
        """Return the ids of a text, and for each the span of the text that it covers.

        A span is (start, end), in characters: `text[start:end]`. A token that holds only some bytes
        of a character covers the whole character, so that several tokens have the same span.

        Raises:
            TypeError, ValueError: as `encode`.
        """
        check_is_str(text)
        special = self._choose_special(text, allowed_special, disallowed_special)
        return encode_with_offsets(self.encoder, text, special)

    def encode_iterable(
        self,
        iterable: Iterable[str],
        *,
        allowed_special: str | Collection[str] | None = None,
        disallowed_special: str | Collection[str] = (),
    ) -> Iterator[int]:
        """Yield the ids of a text that is given in chunks, of which only a few are in memory.

        The ids are those of `encode("".join(iterable))`, wherever the chunks end: a pre-token or
        special token may continue in the next chunk. An open file is suitable: its lines are read
        as needed. The buffer grows as long as no position in the text is known to be the end of a
        pre-token (see `pretokenization/safe_cuts.py`): mostly a word or two, or, with a pattern
        that cannot be compiled, everything since the last special token. Cached words take 448 KiB.

        Args:
            iterable: the chunks.
            allowed_special, disallowed_special: as `encode`.

        Raises:
            TypeError: a chunk is not a str.
            ValueError: as `encode`; the position is counted from the beginning of the first chunk.
        """
        if not isinstance(iterable, Iterable):
            raise TypeError(f"iterable is {short_repr(iterable)}: pass an iterable of str")
        choice = SpecialChoice(self.encoder.all_special, self.special_tokens)
        special = choice.sets(allowed_special, disallowed_special)
        yield from encode_chunks(self.encoder, self.splitter, iterable, special, self.cache_size)

    # ----------------------------------------------------------------- ids to text

    def decode(self, ids: Iterable[SupportsIndex], errors: str | None = None) -> str:
        """Return the text of ids.

        Args:
            ids: ints, in any iterable: a list, a NumPy array, a generator.
            errors: how to treat ids that are not in the vocabulary, and bytes that are not UTF-8:
                `"strict"` refuses both, `"replace"` reads each as U+FFFD, `"ignore"` leaves them
                out. None refuses unknown ids, and reads other bytes as U+FFFD: a sequence that was
                cut within a character is common, an unknown id is a mistake.

        Raises:
            TypeError: an id is not an integer.
            ValueError: an id that is not in the vocabulary, or bytes that are not UTF-8, if they
                are refused; names it. `errors` is unknown.
        """
        if errors is None:  # (the usual call, without a function in between)
            return self.encoder.decode(ids)
        return decoding.decode(self.encoder, ids, errors)

    def decode_bytes(self, ids: Iterable[SupportsIndex], errors: str | None = None) -> bytes:
        """Return the bytes of ids, which may end within a character.

        Args:
            ids: as `decode`.
            errors: how to treat ids that are not in the vocabulary: `"strict"` or None refuses
                them, `"replace"` reads each as the UTF-8 of U+FFFD, `"ignore"` leaves them out.

        Raises:
            TypeError, ValueError: as `decode`.
        """
        if errors is None:
            return self.encoder.decode_bytes(ids)
        return decoding.decode_bytes(self.encoder, ids, errors)

    def decode_batch(
        self, batch: Iterable[Iterable[SupportsIndex]] | EncodedBatch, errors: str | None = None
    ) -> list[str]:
        """Return the text of each of several sequences of ids.

        Args:
            batch: the sequences; or what `encode_batch_array` returns.
            errors: as `decode`.

        Raises:
            TypeError, ValueError: as `decode`; the message begins with the index of the sequence.
        """
        return decoding.decode_batch(self.encoder, batch, errors)

    # ----------------------------------------------------------------- ids to arrays

    def truncate(
        self,
        sequences: Iterable[Iterable[SupportsIndex]] | EncodedBatch,
        max_length: int,
        *,
        side: str = "right",
    ) -> list[Any]:
        """Return each sequence of ids without those that exceed `max_length`; see `padding`."""
        return padding.truncate(sequences, max_length, side=side)

    def pad(
        self,
        sequences: Iterable[Iterable[SupportsIndex]] | EncodedBatch,
        *,
        pad_id: int | str = 0,
        side: str = "right",
        max_length: int | None = None,
        truncate_side: str = "right",
        multiple_of: int = 1,
        dtype: npt.DTypeLike = np.int64,
    ) -> PaddedBatch:
        """Return sequences of ids as one array of shape (batch, longest), and its mask.

        Args:
            pad_id: as `padding.pad`, or a special token of this tokenizer.
            sequences, side, max_length, truncate_side, multiple_of, dtype: as `padding.pad`.

        Raises:
            TypeError, ValueError: as `padding.pad`, or a str that is not a special token.
        """
        if isinstance(pad_id, str):
            pad_id = self.special_token_id(pad_id)
        return padding.pad(
            sequences,
            pad_id=pad_id,
            side=side,
            max_length=max_length,
            truncate_side=truncate_side,
            multiple_of=multiple_of,
            dtype=dtype,
        )


def files_of_tokenizer(directory: str | os.PathLike[str]) -> list[str]:
    """Return the paths of the files that `save` writes."""
    return [os.path.join(directory, name) for name in (TOKENIZER_FILE, TRAINING_FILE)]


def check_is_tokenizer(tokenizer: object, name: str = "tokenizer") -> None:
    """Raise TypeError for an argument, with this name, that is not a Tokenizer."""
    if not isinstance(tokenizer, Tokenizer):
        raise TypeError(f"{name} is {short_repr(tokenizer)}: pass a Tokenizer")
