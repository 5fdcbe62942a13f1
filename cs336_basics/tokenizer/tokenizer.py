"""Tokenizer: convert text to ids and back, by byte-pair encoding with GPT-2's rules.

Special tokens are cut out of the text, and the rest is split into pre-tokens. The bytes of each
pre-token are merged by rank: each step merges the adjacent pair that was learned first, at its
leftmost position, until no merge applies (Sennrich et al. 2016; Radford et al. 2019).

The public class checks arguments and delegates to one of three encoders; see `encoders/`.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, SupportsIndex

from cs336_basics._support.arguments import MAX_INT64, checked_bool, checked_integer, utf8_of
from cs336_basics._support.errors import InputError, InputTypeError
from cs336_basics._support.lazy import lazy_modules
from cs336_basics._support.messages import counted, short_repr
from cs336_basics._support.paths import existing_directory, printable_path
from cs336_basics.splitting.splitter import Splitter, check_is_str
from cs336_basics.text.utf8 import ENCODING_ERRORS, check_errors, is_valid_utf8
from cs336_basics.tokenizer import usual_calls
from cs336_basics.tokenizer.added_tokens import AddedToken, check_added_tokens
from cs336_basics.tokenizer.definition import TokenizerDefinition
from cs336_basics.tokenizer.encoders.absent_bytes import AbsentByteError
from cs336_basics.tokenizer.encoders.backends import extended_encoder, make_encoder
from cs336_basics.tokenizer.encoders.encoder import Encoder
from cs336_basics.tokenizer.special_tokens import choose_special
from cs336_basics.tokenizer.words import Pair

if TYPE_CHECKING:
    from pathlib import Path

    from cs336_basics.tokenizer import batches, decoding, description, offsets, text_input
    from cs336_basics.tokenizer import padding as batch_padding  # `padding` is an argument
    from cs336_basics.tokenizer.dropout import Dropout
    from cs336_basics.tokenizer.editing import truncated
    from cs336_basics.tokenizer.encoders import encoding_errors, exact_bytes
    from cs336_basics.tokenizer.ids import EncodedBatch, TokenArray
    from cs336_basics.tokenizer.padding import PaddedBatch
else:  # Loading a tokenizer and encoding a text to a list needs none of these.
    batches, decoding, description, offsets, text_input, batch_padding = lazy_modules(
        "cs336_basics.tokenizer", "batches decoding description offsets text_input padding"
    )
    truncated, encoding_errors, exact_bytes = lazy_modules(
        "cs336_basics.tokenizer",
        "editing.truncated encoders.encoding_errors encoders.exact_bytes",
    )

DEFAULT_CACHE_SIZE = 128 << 20
"""Memory for cached words in bytes: enough for more than a million English words."""


class Tokenizer:
    """Byte-pair encoding with a vocabulary, its merges and special tokens.

    Args:
        vocab: Mapping of id -> token. Ids may be in any order and have gaps. The vocabulary does
            not have to contain every byte; `encode` raises ValueError for a missing byte.
        merges: Pairs of tokens in the order they were learned. The index of a pair is its
            rank. Two different pairs may produce the same token.
        special_tokens: Texts that become one id each and are never split, as str or `AddedToken`.
            If occurrences overlap, the leftmost wins; at the same position, the longest wins.
            Tokens that are not in the vocabulary get ids after its highest id.
        pattern: Split pattern, either a name in PATTERNS or a regular expression. Text that the
            expression does not match becomes pre-tokens, too, one for each stretch of it.
        cache_size: Bytes of memory for cached words, shared by all threads; 0 disables the cache.
            When the cache is full, it is emptied, so it always contains recent words.
        backend: `"reference"`, `"python"` or `"native"`. All return the same ids. Defaults to
            `"native"` if the extensions are built, the vocabulary contains every byte of UTF-8 and
            the highest id is below 2^32 - 1, else to `"python"`.
        ignore_merges: Whether to encode a pre-token that is itself an ordinary token as that token,
            regardless of the merges. tiktoken does so, as do Hugging Face tokenizers with this
            option, such as Llama 3's.
        normalizer: Unicode normalization form of the text around the added tokens: None, `"NFC"`,
            `"NFD"`, `"NFKC"` or `"NFKD"`.

    Attributes:
        encoder: `Encoder` that encodes and decodes.
        definition: `TokenizerDefinition`: everything that determines ids. The properties vocab,
            merges, added_tokens, special_tokens, pattern, ignore_merges, normalizer and splitter
            are its parts.
        cache_size, backend: The arguments.
        source: File, directory or name that the tokenizer was loaded from, or None. Used in
            messages.

    Tokenizers can be shared between threads, copied, pickled, and used after a fork. The native
    backend releases the GIL while it encodes. The class methods, copies and pickles create a
    tokenizer without calling `__init__`.

    Tokenizers are equal if they have the same `hash()`, and the same defaults for truncation and
    padding, whatever their `cache_size` and `backend`.

    Raises:
        TypeError: If an item has the wrong type.
        ValueError: If two ids have the same bytes, an id is negative or does not fit in 32 bits, a
            token is empty, a merge is repeated, a token in a merge is missing from the vocabulary,
            a special token is empty or repeated, the pattern is invalid, or the backend is unknown
            or not available. The message includes the offending item.

    Example:
        >>> from cs336_basics import Tokenizer
        >>> vocab = {**{i: bytes([i]) for i in range(256)}, 256: b"ow", 257: b"low"}
        >>> tokenizer = Tokenizer(vocab, [(b"o", b"w"), (b"l", b"ow")], ["<|endoftext|>"])
        >>> tokenizer.encode("low flow<|endoftext|>")
        [257, 32, 102, 257, 258]
        >>> tokenizer.decode([257, 258])
        'low<|endoftext|>'
    """

    def __init__(
        self,
        vocab: Mapping[int, bytes],
        merges: Iterable[Pair],
        special_tokens: Iterable[str | AddedToken] | None = None,
        *,
        pattern: str = "gpt2",
        cache_size: int = DEFAULT_CACHE_SIZE,
        backend: str | None = None,
        ignore_merges: bool = False,
        normalizer: str | None = None,
    ) -> None:
        definition = TokenizerDefinition(
            vocab, merges, special_tokens, pattern, ignore_merges, normalizer
        )
        self._set(definition, cache_size, backend)

    @classmethod
    def of(
        cls,
        definition: TokenizerDefinition,
        source: object = None,
        *,
        cache_size: int = DEFAULT_CACHE_SIZE,
        backend: str | None = None,
    ) -> Tokenizer:
        """Return the tokenizer of a definition.

        Args:
            definition: Everything that determines ids.
            source: Origin of the definition. Messages include it if it is a path or a name.
            cache_size, backend: See the constructor.
        """
        tokenizer = cls.__new__(cls)
        tokenizer._set(definition, cache_size, backend)
        if isinstance(source, (str, os.PathLike)):
            tokenizer.source = printable_path(source)
            tokenizer._loaded_from = existing_directory(source)
        return tokenizer

    def with_definition(self, definition: TokenizerDefinition) -> Tokenizer:
        """Return a tokenizer with another definition, the same cache size and the same backend."""
        made = Tokenizer.of(definition, cache_size=self.cache_size, backend=self.backend)
        made._loaded_from = self._loaded_from
        return made

    def _set(self, definition: TokenizerDefinition, cache_size: int, backend: str | None) -> None:
        self.cache_size = checked_integer(
            "cache_size", cache_size, 0, MAX_INT64, note=" bytes (0: no cache)"
        )
        self.backend = backend
        self._use(make_encoder(definition, self.cache_size, backend))
        self.source: str | None = None
        self._loaded_from: str | None = None

    def _use(self, encoder: Encoder) -> None:
        # Other threads see the old encoder or the new one, in each of the two attributes.
        self.encoder = encoder
        self._calls = encoder.usual_calls

    # Encoders contain caches and pointers, so copied and unpickled tokenizers create new encoders.
    # Equal tokenizers have equal pickles in every process; see TokenizerDefinition.

    def __getstate__(self) -> dict[str, Any]:
        state = {**vars(self), "definition": self.definition}
        left_out = ("_calls", "_loaded_from", "encoder", "source")
        return {name: state[name] for name in sorted(state) if name not in left_out}

    def __setstate__(self, state: dict[str, Any]) -> None:
        attributes = dict(state)
        self._set(attributes.pop("definition"), state["cache_size"], state["backend"])
        vars(self).update(attributes)  # includes attributes of subclasses

    # A hash must not change while the tokenizer is the key of a dict, so it is computed from parts
    # that `add_special_tokens` does not change.

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Tokenizer):
            return NotImplemented
        mine, others = self.definition, other.definition
        return mine is others or (
            hash(self) == hash(other)
            and mine.length_settings == others.length_settings
            and mine.digest == others.digest
        )

    def __hash__(self) -> int:
        parts = self.definition
        return hash((parts.words.num_merges, parts.ignore_merges, parts.normalizer))

    def __repr__(self) -> str:
        return (
            f"<Tokenizer: {counted(len(self), 'token')}, {counted(len(self.merges), 'merge')}, "
            f"special tokens {short_repr(self.special_tokens)}, pattern {short_repr(self.pattern)}>"
        )

    def __str__(self) -> str:
        return description.described(self.definition)

    @property
    def loaded_from(self) -> Path | None:
        """Directory that this tokenizer, or the one it was made from, was loaded from, or None.

        `save` can keep its other files.
        """
        from pathlib import Path

        return None if self._loaded_from is None else Path(self._loaded_from)

    # ----------------------------------------------------------------- the parts of the definition

    @property
    def definition(self) -> TokenizerDefinition:
        """Everything that determines the ids of a text."""
        return self.encoder.definition

    @property
    def vocab(self) -> dict[int, bytes]:
        """Mapping of id -> token, including added tokens. Do not change it."""
        return self.encoder.definition.vocab

    @property
    def merges(self) -> list[Pair]:
        """The merges, in the order they were learned."""
        return self.encoder.definition.merges

    @property
    def added_tokens(self) -> tuple[AddedToken, ...]:
        """The texts that become one id each, with their flags."""
        return self.encoder.definition.added_tokens

    @property
    def special_tokens(self) -> list[str]:
        """The added tokens that are special."""
        return self.encoder.definition.special_tokens

    @property
    def pattern(self) -> str:
        """The split pattern: a name in PATTERNS or a regular expression."""
        return self.encoder.definition.pattern

    @property
    def ignore_merges(self) -> bool:
        """Whether a pre-token that is an ordinary token is encoded as that token."""
        return self.encoder.definition.ignore_merges

    @property
    def normalizer(self) -> str | None:
        """The Unicode normalization form of the text around the added tokens, or None."""
        return self.encoder.definition.normalizer

    @property
    def splitter(self) -> Splitter:
        """The split pattern and the contents of the added tokens."""
        return self.encoder.definition.splitter

    # ----------------------------------------------------------------- files
    # The functions of `formats/` read and write definitions. Formats are imported only when used,
    # because few programs need more than one.

    @classmethod
    def from_files(
        cls,
        vocab_filepath: str | os.PathLike[str],
        merges_filepath: str | os.PathLike[str] | None = None,
        special_tokens: Iterable[str] | None = None,
        *,
        pattern: str = "gpt2",
        cache_size: int = DEFAULT_CACHE_SIZE,
        backend: str | None = None,
    ) -> Tokenizer:
        """Read vocab.json and merges.txt in GPT-2's format.

        `from_directory` reads a tokenizer.json, which needs no second file.

        Args:
            vocab_filepath, merges_filepath: The two files.
            special_tokens, pattern, cache_size, backend: See the constructor.

        Raises:
            FileNotFoundError: If a file does not exist.
            ValueError: If a file is damaged, or the files do not fit together.
            TypeError: If `merges_filepath` is missing.
        """
        from cs336_basics.formats.gpt2.pair import load_pair

        if merges_filepath is None:
            raise InputTypeError(
                f"must be the merges.txt beside {short_repr(str(vocab_filepath))}",
                argument="merges_filepath",
                remedy="for a tokenizer.json, call Tokenizer.from_directory",
            )
        definition = load_pair(vocab_filepath, merges_filepath, special_tokens, pattern)
        return cls.of(definition, cache_size=cache_size, backend=backend)

    @classmethod
    def from_directory(
        cls,
        directory: str | os.PathLike[str],
        *,
        cache_size: int = DEFAULT_CACHE_SIZE,
        backend: str | None = None,
    ) -> Tokenizer:
        """Read a tokenizer.json written by `save` or `python -m cs336_basics train-bpe`.

        Args:
            directory: Directory that contains the file, or the file itself. The file may come from
                another library.
            cache_size, backend: See the constructor.
        """
        from cs336_basics.formats.huggingface.loading import load_tokenizer_json

        definition = load_tokenizer_json(directory, own=True)
        return cls.of(definition, directory, cache_size=cache_size, backend=backend)

    @classmethod
    def from_huggingface(
        cls,
        source: Any,
        *,
        revision: str | None = None,
        ignore: Iterable[str] = (),
        cache_size: int = DEFAULT_CACHE_SIZE,
        backend: str | None = None,
    ) -> Tokenizer:
        """Read a tokenizer.json written by Hugging Face's tokenizers or transformers.

        The special tokens, the other added tokens with their flags, the normalizer, the
        post-processor, truncation and padding are kept, and `save` writes them again.

        Args:
            source: The file, a directory that contains it, or the name of a repository on the hub,
                such as `openai-community/gpt2`. Repositories are downloaded by huggingface_hub.
                Also a `tokenizers.Tokenizer` or a fast tokenizer of transformers.
            revision: Branch, tag or commit of the repository.
            ignore: Parts of the file to ignore: `"normalizer"` (normalize texts yourself),
                `"post_processor"` (no tokens are added to a text), `"truncation"` or `"padding"`
                (they are no defaults of `tokenizer(text)`).
            cache_size, backend: See the constructor.

        Raises:
            TypeError: If `source` is another object.
            ValueError: If the file is malformed or has an unsupported part, such as `Lowercase`.
                The message says whether you can ignore the part. If it is another kind of file,
                the message says which, and which method reads it, if one does.

        Warns:
            UserWarning: If the file splits text in a way that cannot be compiled, which is slow.
        """
        from cs336_basics.formats.huggingface.loading import load_from_hub

        definition = load_from_hub(source, revision, ignore)
        return cls.of(definition, source, cache_size=cache_size, backend=backend)

    @classmethod
    def from_pretrained(
        cls,
        source: Any,
        *,
        revision: str | None = None,
        ignore: Iterable[str] = (),
        cache_size: int = DEFAULT_CACHE_SIZE,
        backend: str | None = None,
    ) -> Tokenizer:
        """Read a tokenizer that `from_directory` or `from_huggingface` can read, or a Tekken file.

        Args:
            source, revision, ignore: See `from_huggingface`.
            cache_size, backend: See the constructor.
        """
        from cs336_basics.formats.huggingface.loading import load_from_hub

        definition = load_from_hub(source, revision, ignore, own=True)
        return cls.of(definition, source, cache_size=cache_size, backend=backend)

    @classmethod
    def from_tiktoken(
        cls,
        source: Any,
        special_tokens: Mapping[str, int] | None = None,
        *,
        pattern: str | None = None,
        cache_size: int = DEFAULT_CACHE_SIZE,
        backend: str | None = None,
    ) -> Tokenizer:
        """Read a tokenizer of tiktoken.

        Args:
            source: Rank file, directory of an export for tiktoken, name of an encoding, or a
                `tiktoken.Encoding`. Also the `tekken.json` of Mistral, which needs no more
                arguments.
            special_tokens: Mapping of special token -> id. Defaults to the encoding's.
            pattern: Split pattern: a name, or a regular expression for tiktoken. Defaults to the
                encoding's. A rank file needs it.
            cache_size, backend: See the constructor.

        Raises:
            TypeError, ValueError, OSError: See `load_tiktoken`.
        """
        from cs336_basics.formats.tiktoken.loading import load_tiktoken

        definition = load_tiktoken(source, special_tokens, pattern)
        return cls.of(definition, source, cache_size=cache_size, backend=backend)

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
        """Read GPT-2's pair of files, given their directory or their paths.

        Unlike `from_files`, this method treats tokens that no merge produces as special tokens.

        Args:
            source: Directory of vocab.json and merges.txt, or the path of the vocabulary.
            merges_file: Path of the merges, if `source` is not a directory.
            special_tokens: Special tokens. By default, those that no merge produces.
            cache_size, backend: See the constructor.

        Raises:
            FileNotFoundError, ValueError: See `load_gpt2`.
        """
        from cs336_basics.formats.gpt2.pair import load_gpt2

        definition = load_gpt2(source, merges_file, special_tokens)
        return cls.of(definition, source, cache_size=cache_size, backend=backend)

    def save(
        self,
        directory: str | os.PathLike[str],
        training: Mapping[str, Any] | None = None,
        *,
        keep_files: bool = False,
    ) -> None:
        """Write the tokenizer as DIRECTORY/tokenizer.json, in Hugging Face's format.

        The file contains everything that determines ids, and is replaced atomically. A second file,
        DIRECTORY/training.json, records the tokenizer's origin, for information only.

        Args:
            directory: Directory to write to. It is created if it does not exist.
            training: Information about the training, to be recorded in training.json.
            keep_files: Whether to copy the chat templates and the `tokenizer_config.json` beside
                the tokenizer, too, unchanged (see `loaded_from`).

        Raises:
            ValueError: If `directory` is an empty string, or a file to keep cannot be copied; see
                `files_to_keep`.
        """
        from cs336_basics.formats.huggingface.tokenizer_json import save_tokenizer

        save_tokenizer(self, directory, training, checked_bool("keep_files", keep_files))

    def hash(self) -> str:
        """Return the SHA-256 (64 hexadecimal digits) of everything that determines ids.

        The hash does not depend on the order of the vocabulary or the special tokens, or on whether
        you pass the pattern by name.
        """
        return self.definition.digest

    def add_special_tokens(self, special_tokens: Iterable[str | AddedToken]) -> list[int]:
        """Add special or other added tokens to this tokenizer and return their ids.

        A new token gets the next id, `vocab_size`. Existing tokens keep their ids. A model needs an
        embedding row for each new id. `hash` changes; `save` and pickles include the new tokens.

        Other threads may encode and decode during the call; they see either none or all of the new
        tokens. Two threads must not add tokens at the same time, because one thread's tokens would
        be lost.

        Args:
            special_tokens: List of str or `AddedToken`. Tokens that were added before keep their
                ids and flags.

        Raises:
            TypeError, ValueError: See the constructor. After an error, the tokenizer is unchanged.
        """
        added = check_added_tokens(special_tokens)
        definition = self.definition.with_special_tokens(added)
        self._use(extended_encoder(self.encoder, definition, self.cache_size, self.backend))
        self.source = None
        return [definition.added_ids[token.content] for token in added]

    def truncated(self, vocab_size: int) -> Tokenizer:
        """Return a tokenizer with the first ids and the merges that make them.

        For a tokenizer trained by this library, this is the result of training with a smaller
        `vocab_size`. To keep the most frequent tokens of a text instead, use `prune`.

        Args:
            vocab_size: Number of ids to keep, including bytes and special tokens.

        Raises:
            TypeError: If `vocab_size` is not an integer.
            ValueError: If `vocab_size` exceeds the size of the vocabulary, or leaves out a single
                byte or an added token; or if the ids are not in the order of the merges.
        """
        return self.with_definition(truncated.truncated(self.definition, vocab_size))

    # ----------------------------------------------------------------- tokens and their ids

    def __len__(self) -> int:
        """Return the number of tokens, including special tokens; see `vocab_size`."""
        return len(self.vocab)

    @property
    def vocab_size(self) -> int:
        """The highest id plus one: the number of rows that a model's embedding needs.

        It exceeds `len(tokenizer)` if the ids have gaps.
        """
        return self.encoder.definition.size

    def token_to_id(self, token: bytes | str) -> int | None:
        """Return the id of a token, or None if it is not in the vocabulary.

        Args:
            token: Token as bytes or as a str, such as `" the"` (not `"Ġthe"`).

        Raises:
            TypeError: If `token` is neither bytes nor str.
            ValueError: If `token` contains a lone surrogate.
        """
        if isinstance(token, str):
            if (added_id := self.definition.added_ids.get(token)) is not None:
                return added_id
            token = utf8_of("token", token)
        elif not isinstance(token, bytes):
            raise InputTypeError(
                f"must be bytes or a str, got {short_repr(token)}", argument="token"
            )
        return self.definition.token_ids.get(token)

    def id_to_token(self, token_id: SupportsIndex) -> bytes | None:
        """Return the bytes of a token, or None if no token has this id.

        A token may end within a character. Use `decode([token_id])` for its text.

        Raises:
            TypeError: If `token_id` is not an integer.
        """
        return self.vocab.get(checked_integer("token_id", token_id, None))

    def special_token_id(self, token: str) -> int:
        """Return the id of a special token.

        Raises:
            ValueError: If `token` is not a special token of this tokenizer.
        """
        special_ids = self.definition.special_ids
        if not isinstance(token, str) or token not in special_ids:
            raise InputError(
                f"must be one of the special tokens {short_repr(self.special_tokens)}, got "
                f"{short_repr(token)}",
                argument="token",
                remedy="add it with add_special_tokens",
            )
        return special_ids[token]

    # ----------------------------------------------------------------- text to ids

    def __call__(
        self,
        text: str | Iterable[str] | Mapping[str, Any],
        text_pair: str | Iterable[str] | None = None,
        *,
        add_special_tokens: bool = True,
        padding: bool | str = False,
        truncation: bool = False,
        max_length: int | None = None,
        pad_id: int | str | None = None,
    ) -> dict[str, list[Any]]:
        """Return `input_ids` and `attention_mask`, as Hugging Face's tokenizers do.

        Args:
            text: One text or several. Several texts are encoded in threads. If a mapping is passed,
                its `text` column is encoded, so `dataset.map(tokenizer, batched=True)` works with
                Hugging Face's `datasets`; for another column, also pass `input_columns` to `map`.
            text_pair: Second text for each text, for models that read pairs.
            add_special_tokens: Whether to add the ids that the tokenizer's file adds to a text,
                such as one at its start. `encode` never adds ids. Most tokenizers add none.
            padding: True or `"longest"` pads to the longest list; `"max_length"` pads to
                `max_length` ids. Defaults to no padding.
            truncation: Whether to keep only the first `max_length` ids of a text, including ids
                that are added. Of a pair of texts, the longer one is shortened first.
            max_length: Number of ids to truncate or pad to. Required by `truncation` and by
                `padding="max_length"` unless the tokenizer's file contains it, and not allowed
                otherwise.
            pad_id: Padding id or special token; see `pad`. Defaults to the id in the tokenizer's
                file, to `<|endoftext|>`, or to 0 if the tokenizer does not have this token.

        A file that contains settings for truncation and padding also determines the sides, which
        are on the right otherwise, and whether a length is rounded up to a multiple. Whether a text
        is truncated or padded depends only on the arguments, as in transformers.

        Returns:
            A dict with `input_ids`, lists of ids, and `attention_mask`, lists with 1 for each id
            and 0 for padding. For a single text, each value is a single list.

        Raises:
            TypeError, ValueError: See `encode` and `pad`. Also raised if `padding` is unknown,
                `max_length` is missing or unused, a text is longer than `max_length` without
                truncation, or a mapping has no `text` column.
        """
        return batch_padding.model_inputs(
            self, text, padding, truncation, max_length, pad_id, text_pair, add_special_tokens
        )

    @usual_calls.encode
    def encode(
        self,
        text: str,
        *,
        allowed_special: str | Collection[str] | None = None,
        disallowed_special: str | Collection[str] = (),
    ) -> list[int]:
        """Return the ids of a text, without the ids that `tokenizer(text)` may add.

        Args:
            text: Any text.
            allowed_special: Special tokens that become ids: `"all"` or a collection. All other
                special tokens are ordinary text. Defaults to every special token that is not
                disallowed.
            disallowed_special: Special tokens that raise ValueError if they occur in the text;
                `"all"` means every special token that is not in `allowed_special`.

        Raises:
            TypeError: If `text` is not a str.
            ValueError: If the text contains a disallowed special token, a lone surrogate or a byte
                without a token (the message includes its position in characters); or if an item of
                `allowed_special` or `disallowed_special` is not a special token.
        """
        if type(text) is not str:
            check_is_str(text)
        encoder = self.encoder
        special = choose_special(encoder, text, allowed_special, disallowed_special)
        try:
            return encoder.encode(text, special)
        except UnicodeEncodeError:
            text = encoding_errors.without_surrogates(text)
        except AbsentByteError:
            raise encoding_errors.explained(encoder, text, special) from None
        return self.encode(
            text, allowed_special=allowed_special, disallowed_special=disallowed_special
        )

    @usual_calls.encode_array
    def encode_array(
        self,
        text: str | bytes,
        *,
        num_workers: int | None = 1,
        errors: str = "replace",
        allowed_special: str | Collection[str] | None = None,
        disallowed_special: str | Collection[str] = (),
    ) -> TokenArray:
        """Return the ids of a text as an array, which is faster and smaller than a list.

        Args:
            text: Text, as str or UTF-8 bytes.
            num_workers: Number of threads; None means all cores. Defaults to 1.
            errors: How to handle invalid UTF-8, and surrogates of a str that are not half of a
                pair: `"replace"` replaces them with U+FFFD, `"strict"` raises ValueError, and
                `"bytes"` encodes each invalid byte as its single-byte token, so that
                `decode_bytes` returns exactly `text` (see `exact_bytes.py`).
            allowed_special, disallowed_special: See `encode`.

        Returns:
            Ids of shape (num_tokens,), dtype uint16, or uint32 if the vocabulary has ids of 65,536
            or more.

        Raises:
            TypeError: If `text` is neither str nor bytes.
            ValueError: See `encode`. Also raised if bytes are not UTF-8 (with `"strict"`; the
                message includes their offset), or if they start with the byte order mark of UTF-16
                or UTF-32.

        Warns:
            UserWarning: If invalid UTF-8 was replaced with U+FFFD.
        """
        check_errors(errors, ENCODING_ERRORS)
        is_exact = errors == exact_bytes.EXACT
        errors = "strict" if is_exact else errors
        invalid = None  # bytes that are encoded exactly
        if isinstance(text, bytes):
            if is_exact and not is_valid_utf8(text):
                invalid = text
            else:
                text = text_input.replaced_utf8(text, errors)
        else:
            check_is_str(text)
        encoder = self.encoder
        special = choose_special(encoder, text, allowed_special, disallowed_special)
        num_workers = batches.useful_workers(num_workers, len(text))
        try:
            if invalid is not None:
                return exact_bytes.encode_exactly(encoder, invalid, special, num_workers)
            return encoder.encode_array(text, special, num_workers)
        except UnicodeEncodeError:
            # Bytes contain no surrogates, so this happens once.
            data = text_input.replaced_utf8(text, errors)
        except AbsentByteError:
            raise encoding_errors.explained(encoder, text, special) from None
        return self.encode_array(
            data,
            num_workers=num_workers,
            allowed_special=allowed_special,
            disallowed_special=disallowed_special,
        )

    def encode_batch(
        self,
        texts: Iterable[str],
        *,
        num_workers: int | None = None,
        allowed_special: str | Collection[str] | None = None,
        disallowed_special: str | Collection[str] = (),
        dropout: Dropout | None = None,
    ) -> list[list[int]]:
        """Return the ids of each text.

        Args:
            texts: Texts, encoded independently of each other.
            num_workers: Number of threads. Defaults to all cores, or fewer if there is little text.
            allowed_special, disallowed_special: See `encode`.
            dropout: Leaves out merges at random (BPE-dropout); see `Dropout`. The ids of a text
                depend only on the text, the dropout and the index of the text. Tokens that no
                merge produces do not occur, even with `ignore_merges`.

        Raises:
            TypeError, ValueError: See `encode`; the message starts with the index of the text.
        """
        encoder = self.encoder
        given = texts, num_workers, allowed_special, disallowed_special
        if dropout is not None and (dropped := batches.with_dropout(encoder, dropout)):
            return [ids.tolist() for ids in batches.encode_texts(encoder, dropped, *given).arrays()]
        return batches.encode_texts(encoder, encoder.encode_batch, *given)

    def encode_batch_array(
        self,
        texts: Iterable[str],
        *,
        num_workers: int | None = None,
        allowed_special: str | Collection[str] | None = None,
        disallowed_special: str | Collection[str] = (),
        dropout: Dropout | None = None,
    ) -> EncodedBatch:
        """Return the ids of several texts in one array, which is faster and smaller than lists.

        You can pass the result to `pad`, `truncate` and `decode_batch`. Call the result's
        `arrays()` method to get one array of ids per text.

        Args:
            texts, num_workers, allowed_special, disallowed_special, dropout: See `encode_batch`.

        Returns:
            A pair: the ids, of shape (num_tokens,) and the same dtype as in `encode_array`, and the
            offsets, of shape (num_texts + 1,) and dtype int64. The ids of text i are
            ids[offsets[i]:offsets[i + 1]].
        """
        encoder = self.encoder
        return batches.encode_texts(
            encoder,
            batches.with_dropout(encoder, dropout) or encoder.encode_batch_array,
            texts,
            num_workers,
            allowed_special,
            disallowed_special,
        )

    def encode_with_offsets(
        self,
        text: str,
        *,
        allowed_special: str | Collection[str] | None = None,
        disallowed_special: str | Collection[str] = (),
    ) -> tuple[list[int], list[tuple[int, int]]]:
        """Return the ids of a text, and the span of the text that each id covers.

        A span is (start, end) in characters: `text[start:end]`. A token with only some bytes of a
        character covers the whole character, so several tokens can have the same span.

        Args:
            text, allowed_special, disallowed_special: See `encode`.

        Raises:
            TypeError, ValueError: See `encode`.
        """
        check_is_str(text)
        encoder = self.encoder
        special = choose_special(encoder, text, allowed_special, disallowed_special)
        return offsets.encode_with_offsets(encoder, text, special)

    def encode_iterable(
        self,
        iterable: Iterable[str],
        *,
        allowed_special: str | Collection[str] | None = None,
        disallowed_special: str | Collection[str] = (),
    ) -> Iterator[int]:
        """Yield the ids of a text that arrives in chunks, keeping only a few chunks in memory.

        The ids equal `encode("".join(iterable))` however the text is divided into chunks: a
        pre-token or special token may continue in the next chunk. You can pass an open file, whose
        lines are read as needed. Text is buffered until the end of a pre-token is certain (see
        `splitting/safe_cuts.py`). Usually the buffer contains a word or two; with a pattern
        that cannot be compiled, it contains everything since the last special token. The word cache
        takes at most 448 KiB.

        Args:
            iterable: Chunks of text.
            allowed_special, disallowed_special: See `encode`.

        Raises:
            TypeError: If a chunk is not a str.
            ValueError: See `encode`; positions are counted from the start of the first chunk.
        """
        from cs336_basics.tokenizer.streaming.chunk_encoder import encode_chunks

        if not isinstance(iterable, Iterable):
            raise InputTypeError(
                f"must be an iterable of str, got {short_repr(iterable)}", argument="iterable"
            )
        yield from encode_chunks(
            self.encoder, self.cache_size, iterable, allowed_special, disallowed_special
        )

    # ----------------------------------------------------------------- ids to text

    @usual_calls.decode
    def decode(
        self,
        ids: Iterable[SupportsIndex],
        errors: str | None = None,
        *,
        skip_special_tokens: bool = False,
    ) -> str:
        """Return the text of a sequence of ids.

        Args:
            ids: Iterable of ints, such as a list, a NumPy array or a generator.
            errors: How to handle unknown ids and invalid UTF-8: `"strict"` raises ValueError,
                `"replace"` replaces each with U+FFFD, and `"ignore"` leaves them out. By default,
                unknown ids raise ValueError because they indicate a mistake, and invalid bytes
                become U+FFFD because sequences are often cut in the middle of a character.
            skip_special_tokens: Whether to leave out special tokens. Added tokens that are not
                special stay.

        Raises:
            TypeError: If an id is not an integer.
            ValueError: If an id is unknown or the bytes are not valid UTF-8, depending on
                `errors`; or if the value of `errors` is unknown.
        """
        if errors is None and not skip_special_tokens:  # the usual case: save a function call
            return self.encoder.decode(ids)
        return decoding.decode(self.encoder, ids, errors, skip_special_tokens)

    @usual_calls.decode_bytes
    def decode_bytes(
        self,
        ids: Iterable[SupportsIndex],
        errors: str | None = None,
        *,
        skip_special_tokens: bool = False,
    ) -> bytes:
        """Return the bytes of a sequence of ids. The bytes may end within a character.

        Args:
            ids: See `decode`.
            errors: How to handle unknown ids: `"strict"` or None raises ValueError, `"replace"`
                replaces each with the UTF-8 of U+FFFD, and `"ignore"` leaves them out.
            skip_special_tokens: See `decode`.
        """
        if errors is None and not skip_special_tokens:
            return self.encoder.decode_bytes(ids)
        return decoding.decode_bytes(self.encoder, ids, errors, skip_special_tokens)

    def decode_batch(
        self,
        batch: Iterable[Iterable[SupportsIndex]] | EncodedBatch,
        errors: str | None = None,
        *,
        skip_special_tokens: bool = False,
    ) -> list[str]:
        """Return the text of each sequence of ids.

        Args:
            batch: Sequences of ids, or the result of `encode_batch_array`.
            errors, skip_special_tokens: See `decode`.

        Raises:
            TypeError, ValueError: See `decode`; the message starts with the index of the sequence.
        """
        return decoding.decode_batch(self.encoder, batch, errors, skip_special_tokens)

    # ----------------------------------------------------------------- ids to arrays

    def truncate(
        self,
        sequences: Iterable[Iterable[SupportsIndex]] | EncodedBatch,
        max_length: int,
        *,
        side: str = "right",
    ) -> list[Any]:
        """Return each sequence, shortened to at most `max_length` ids; see `padding.truncate`.

        Args:
            sequences: Sequences of ids, or the result of `encode_batch_array`.
            max_length: Maximum number of ids of a sequence.
            side: The side that loses ids, "right" or "left".

        Raises:
            ValueError: If `max_length` is negative, or `side` is unknown.
        """
        return batch_padding.truncate(sequences, max_length, side=side)

    def pad(
        self,
        sequences: Iterable[Iterable[SupportsIndex]] | EncodedBatch,
        *,
        pad_id: int | str = 0,
        side: str = "right",
        max_length: int | None = None,
        multiple_of: int = 1,
    ) -> PaddedBatch:
        """Return sequences of ids as one array of shape (batch, longest), with its mask.

        Args:
            pad_id: An id (see `padding.pad`) or a special token of this tokenizer.
            sequences, side, max_length, multiple_of: See `padding.pad`.

        Raises:
            TypeError, ValueError: See `padding.pad`. Also raised if `pad_id` is a str that is not a
                special token.
        """
        pad_id = batch_padding.checked_pad_id(self, pad_id)
        return batch_padding.pad(
            sequences, pad_id=pad_id, side=side, max_length=max_length, multiple_of=multiple_of
        )


def check_is_tokenizer(tokenizer: object, name: str = "tokenizer") -> None:
    """Raise TypeError if the argument called `name` is not a Tokenizer."""
    if not isinstance(tokenizer, Tokenizer):
        raise InputTypeError(f"must be a Tokenizer, got {short_repr(tokenizer)}", argument=name)
