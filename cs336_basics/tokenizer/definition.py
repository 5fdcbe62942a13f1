"""TokenizerDefinition: everything that determines ids, as one value that is checked once.

A text passes through the parts of a definition in this order:

| part | attributes | effect |
|---|---|---|
| added tokens | `added_tokens`, `added_ids` | are cut out of the text and become one id each |
| normalizer | `normalizer` | brings the rest into a Unicode normalization form |
| split pattern | `pattern` | divides the rest into pre-tokens |
| merges | `vocab`, `merges`, `ignore_merges` | join the bytes of a pre-token to tokens |
| post-processor | `post_processor` | adds ids for a model, if it is asked to |
| length settings | `length_settings` | truncate and pad, if they are asked to |

Added tokens that are `normalized` are found after the normalizer has run; see `AddedToken`.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from cs336_basics._support.arguments import check_is_iterable, checked_bool
from cs336_basics._support.errors import InputError, InputTypeError
from cs336_basics._support.lazy import LazyModule, np, npt
from cs336_basics._support.messages import short_repr
from cs336_basics._support.vocabularies import MAX_ID, explain_bad_id
from cs336_basics.splitting.patterns.split_sequences import without_prefix
from cs336_basics.splitting.splitter import Splitter
from cs336_basics.tokenizer.added_tokens import AddedToken, check_added_tokens
from cs336_basics.tokenizer.length_settings import LengthSettings
from cs336_basics.tokenizer.post_processor import PostProcessor, check_post_processor
from cs336_basics.tokenizer.words import Pair, Words, words_of

if TYPE_CHECKING:
    import hashlib
    import json
else:  # only for the digest
    hashlib, json = LazyModule("hashlib"), LazyModule("json")

MergeIds: TypeAlias = "npt.NDArray[np.uint32]"

TOKENIZER_FILE = "tokenizer.json"
"""Name of the file to which `Tokenizer.save` writes a definition."""

TRAINING_FILE = "training.json"
"""Name of the file to which `Tokenizer.save` writes how the tokenizer was made."""

ABSENT = -1
"""Placeholder for the id of a byte without a token."""


class TokenizerDefinition:
    """Everything that determines the ids of a text. Definitions are immutable and picklable.

    Args:
        vocab, merges, special_tokens, pattern, ignore_merges, normalizer: See `Tokenizer`.
        post_processor: Ids that `Tokenizer.__call__` adds, or None.
        added_ids: Ids of added tokens that must not have the id of the ordinary token with the same
            bytes. Text becomes the added token's id; merges and pre-tokens become the other.
        length_settings: Defaults for the truncation and padding by `Tokenizer.__call__`, or None.

    Attributes:
        words: The ordinary tokens, and the added tokens that share their ids; see `words.py`.
        more_tokens: Mapping of id -> token for the other added tokens.
        vocab: Mapping of id -> token, including added tokens.
        merges: The merges, as a list of pairs.
        ignore_merges, post_processor, length_settings: The arguments.
        splitter: `Splitter` for the pattern, the contents of all added tokens and the normalizer.
        added_tokens: All added tokens, in the order of `special_tokens`.
        added_ids: Mapping of content -> id of all added tokens.
        special_ids: Mapping of content -> id of the added tokens that are special.
        size: Highest id plus one.
        byte_ids: Id of each of the 256 bytes, or ABSENT if it has no token.
        absent_bytes: The bytes without a token.
        merge_ids: Ids of the left, right and joined tokens of each merge, shape (num_merges, 3).

    Raises:
        TypeError, ValueError: See `Tokenizer`.
    """

    def __init__(
        self,
        vocab: Mapping[int, bytes],
        merges: Iterable[Pair],
        special_tokens: Iterable[str | AddedToken] | None = None,
        pattern: str = "gpt2",
        ignore_merges: bool = False,
        normalizer: str | None = None,
        post_processor: PostProcessor | None = None,
        added_ids: Mapping[str, int] | None = None,
        length_settings: LengthSettings | None = None,
    ) -> None:
        check_is_iterable("merges", merges, "pairs of bytes")
        if not isinstance(vocab, Mapping):
            raise InputTypeError(
                f"must be a dict of id -> bytes, got {short_repr(vocab)}", argument="vocab"
            )
        added_tokens = check_added_tokens(special_tokens)
        splitter = Splitter(pattern, [token.content for token in added_tokens], normalizer)
        checked_bool("ignore_merges", ignore_merges)
        if not isinstance(length_settings, (LengthSettings, type(None))):
            raise InputTypeError(
                f"must be LengthSettings, got {short_repr(length_settings)}",
                argument="length_settings",
            )
        vocab, merges = dict(vocab), list(merges)
        own_ids = _checked_own_ids(dict(added_ids or {}), vocab, splitter.special_tokens)
        ordinary = vocab
        if own_ids:
            left_out = set(own_ids.values())
            ordinary = {i: token for i, token in vocab.items() if i not in left_out}
        words = words_of(ordinary, merges)
        self._set(
            words, own_ids, added_tokens, splitter, ignore_merges, post_processor, length_settings
        )
        # These are at hand, so `words` need not make them.
        self._tokens_of_words = ordinary
        if set(map(type, merges)) - {tuple}:  # lists cannot be dict keys
            merges = [(left, right) for left, right in merges]
        self.merges = merges

    @classmethod
    def of_words(
        cls,
        words: Words,
        own_ids: Mapping[str, int],
        added_tokens: Iterable[AddedToken],
        pattern: str,
        ignore_merges: bool,
        normalizer: str | None,
        post_processor: PostProcessor | None,
        length_settings: LengthSettings | None = None,
    ) -> TokenizerDefinition:
        """Return the definition of words that were read from a file and checked.

        Args:
            words: The words.
            own_ids: Ids of added tokens that have the same bytes as an ordinary token. They are
                not among the words.
            added_tokens: Added tokens.
            pattern, ignore_merges, normalizer, post_processor, length_settings: See the class.
        """
        added_tokens = check_added_tokens(added_tokens)
        splitter = Splitter(pattern, [token.content for token in added_tokens], normalizer)
        definition = cls.__new__(cls)
        definition._set(
            words, own_ids, added_tokens, splitter, ignore_merges, post_processor, length_settings
        )
        return definition

    def _set(
        self,
        words: Words,
        own_ids: Mapping[str, int],
        added_tokens: Iterable[AddedToken],
        splitter: Splitter,
        ignore_merges: bool,
        post_processor: PostProcessor | None,
        length_settings: LengthSettings | None,
    ) -> None:
        self.words = words
        self.added_tokens = tuple(added_tokens)
        self.splitter = splitter
        self.ignore_merges = ignore_merges
        self.length_settings = length_settings
        self._own_ids = dict(own_ids)
        self.more_tokens = {token_id: content.encode() for content, token_id in own_ids.items()}
        self.size = max(words.size, max(self.more_tokens, default=-1) + 1)
        self.added_ids: dict[str, int] = {}
        self._add_ids()
        self.post_processor = check_post_processor(post_processor, self.has_id)
        self.byte_ids = [words.get(bytes([byte]), ABSENT) for byte in range(256)]
        for content, token_id in self.added_ids.items():
            token = content.encode()
            if len(token) == 1 and self.byte_ids[token[0]] == ABSENT:
                self.byte_ids[token[0]] = token_id
        self.absent_bytes = frozenset(
            byte for byte, token_id in enumerate(self.byte_ids) if token_id == ABSENT
        )

    def has_id(self, token_id: int) -> bool:
        """Return whether a token has this id."""
        return token_id in self.more_tokens or self.words.has_id(token_id)

    @functools.cached_property
    def vocab(self) -> dict[int, bytes]:
        """Mapping of id -> token, including added tokens."""
        of_words = self._tokens_of_words
        return of_words | self.more_tokens if self.more_tokens else of_words

    @functools.cached_property
    def _tokens_of_words(self) -> dict[int, bytes]:
        return self.words.tokens()

    @functools.cached_property
    def merges(self) -> list[Pair]:
        """The merges, as a list of pairs."""
        return self.words.merges(self.vocab)

    def _ordinary_tokens(self) -> dict[int, bytes]:
        """Return the vocabulary without added tokens that have an id of their own."""
        own_ids = set(self._own_ids.values())
        if not own_ids:
            return self.vocab
        return {
            token_id: token for token_id, token in self.vocab.items() if token_id not in own_ids
        }

    @functools.cached_property
    def special_ids(self) -> dict[str, int]:
        """Mapping of content -> id of the added tokens that are special."""
        return {
            token.content: self.added_ids[token.content]
            for token in self.added_tokens
            if token.special
        }

    @property
    def ids_in_use(self) -> set[int]:
        """Ids that added tokens and other parts need, in addition to the ids of the merges."""
        ids = set(self.ids_of_added)
        if self.post_processor is not None:
            ids |= self.post_processor.added_ids
        pad_id = None if self.length_settings is None else self.length_settings.pad_id
        if pad_id is not None and self.has_id(pad_id):
            ids.add(pad_id)
        return ids

    @functools.cached_property
    def ids_of_added(self) -> frozenset[int]:
        """Ids of all added tokens, as a set."""
        return frozenset(self.added_ids.values())

    @functools.cached_property
    def ids_of_special(self) -> frozenset[int]:
        """Ids of the added tokens that are special, as a set."""
        return frozenset(self.special_ids.values())

    @functools.cached_property
    def all_special(self) -> frozenset[str]:
        """Contents of the added tokens that are special, as a set."""
        return frozenset(self.special_ids)

    @property
    def special_tokens(self) -> list[str]:
        """Contents of the added tokens that are special."""
        return list(self.special_ids)

    @property
    def pattern(self) -> str:
        """The split pattern: a name in PATTERNS or a regular expression."""
        return self.splitter.pattern

    @property
    def normalizer(self) -> str | None:
        """The normalization form of the text around the added tokens, or None."""
        return self.splitter.normalizer

    @functools.cached_property
    def split_pattern(self) -> str:
        """The split pattern without PREFIX at its start (see `split_sequences.py`).

        `Stages` add the space, so that the rest can be compiled.
        """
        return without_prefix(self.pattern)

    @property
    def adds_space(self) -> bool:
        """Whether a space is put before each text between added tokens that starts with none."""
        return self.split_pattern != self.pattern

    @property
    def has_stages(self) -> bool:
        """Whether more may happen before splitting than one search for tokens; see `stages.py`."""
        return (
            self.normalizer is not None
            or self.adds_space
            or not all(token.is_plain for token in self.added_tokens)
        )

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of the constructor."""
        return {
            "vocab": self.vocab,
            "merges": self.merges,
            "special_tokens": self.added_tokens,
            "pattern": self.pattern,
            "ignore_merges": self.ignore_merges,
            "normalizer": self.normalizer,
            "post_processor": self.post_processor,
            "added_ids": self._own_ids,
            "length_settings": self.length_settings,
        }

    def replaced(self, **arguments: Any) -> TokenizerDefinition:
        """Return a definition with some other arguments."""
        return TokenizerDefinition(**(self.arguments() | arguments))

    def with_special_tokens(
        self, special_tokens: Iterable[str | AddedToken]
    ) -> TokenizerDefinition:
        """Return a definition with more added tokens; see `Tokenizer.add_special_tokens`."""
        added = check_added_tokens(special_tokens)
        more = [token for token in added if token.content not in self.added_ids]
        tokens = [token.content.encode() for token in more]
        if any(
            len(token) == 1 or (self.ignore_merges and self.words.get(token) is not None)
            for token in tokens
        ):
            return self.replaced(special_tokens=[*self.added_tokens, *more])
        # The words keep their ids, so the parts that encode words are shared, not checked again.
        definition = TokenizerDefinition.__new__(TokenizerDefinition)
        parts = vars(definition)
        parts.update(vars(self))
        for name in (
            "vocab", "token_ids", "special_ids", "ids_of_added", "ids_of_special", "all_special",
            "digest",
        ):  # fmt: skip
            parts.pop(name, None)
        definition.added_tokens = (*self.added_tokens, *more)
        contents = [*self.splitter.special_tokens, *(token.content for token in more)]
        definition.splitter = Splitter(self.pattern, contents, self.normalizer)
        definition.added_ids = self.added_ids.copy()
        definition.more_tokens = self.more_tokens.copy()
        definition._add_ids()
        return definition

    def has_words_of(self, other: TokenizerDefinition) -> bool:
        """Return whether this is `other` with more added tokens that are not parts of words."""
        return self.words is other.words

    def _add_ids(self) -> None:
        """Look up the ids of the last added tokens, or give them the next ids."""
        for content in self.splitter.special_tokens[len(self.added_ids) :]:
            token = content.encode()
            token_id = self._own_ids.get(content, self.words.get(token))
            if token_id is None:
                if self.size > MAX_ID:
                    raise InputError(explain_bad_id(self.size, token), argument="vocab")
                token_id = self.size
                self.more_tokens[token_id] = token
                self.size += 1
            self.added_ids[content] = token_id

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TokenizerDefinition):
            return NotImplemented
        return self.arguments() == other.arguments()

    __hash__ = None  # type: ignore[assignment]

    @functools.cached_property
    def digest(self) -> str:
        """SHA-256, as 64 hexadecimal digits; see `Tokenizer.hash`."""
        ids = sorted(self.vocab)
        tokens = [self.vocab[token_id] for token_id in ids]
        pattern = self.splitter.expression.encode("utf-8", "surrogatepass")
        added_ids = sorted(self.ids_of_added)
        digest = hashlib.sha256()
        for numbers in (
            [len(pattern), len(ids), self.words.num_merges, len(added_ids), self.ignore_merges],
            ids,
            added_ids,
            list(map(len, tokens)),
            self.merge_ids[:, :2].ravel(),
        ):
            digest.update(np.asarray(numbers, "<u4").tobytes())
        digest.update(pattern)
        digest.update(b"".join(tokens))
        # A definition without these parts has the digest that it had before they existed.
        flags = sorted(token for token in self.added_tokens if not token.is_plain)
        added = self.post_processor
        templates = added[:2] if added is not None and added.changes_ids else None
        if flags or self.normalizer or templates:
            parts = [flags, self.normalizer, templates]
            digest.update(json.dumps(parts).encode())
        return digest.hexdigest()

    # The native encoder does not need the following mappings, so they are built on first use.

    @functools.cached_property
    def token_ids(self) -> dict[bytes, int]:
        """Mapping of token -> id; of two ids with the same bytes, the ordinary token's."""
        return {token: token_id for token_id, token in self._ordinary_tokens().items()}

    @functools.cached_property
    def pair_ranks(self) -> dict[tuple[int, int], int]:
        """Mapping of (left id, right id) -> rank, in the order of the ranks."""
        rows = self.words.merge_rows()
        return {(left, right): rank for rank, (left, right, _) in enumerate(rows)}

    @functools.cached_property
    def merged_ids(self) -> list[int]:
        """Id of the token that each merge produces, by rank."""
        return [joined for _, _, joined in self.words.merge_rows()]

    @functools.cached_property
    def merge_ids(self) -> MergeIds:
        """Ids of the left, right and joined tokens of each merge, shape (num_merges, 3)."""
        return np.array(self.words.merge_rows(), np.uint32).reshape(-1, 3)

    @functools.cached_property
    def whole_words(self) -> dict[bytes, int]:
        """Mapping of token -> id, for the tokens that `ignore_merges` applies to."""
        if not self.ignore_merges:
            return {}
        added = self.ids_of_added
        return {
            token: token_id for token, token_id in self.token_ids.items() if token_id not in added
        }

    # A pickle contains the tokens, sorted by id, and the merges as pairs of ids, so that equal
    # definitions have equal pickles in every process: the `datasets` library names cached results
    # by a pickle's hash.

    def __getstate__(self) -> dict[str, Any]:
        merges = self.merge_ids[:, :2].astype("<u4").tobytes()
        return self.arguments() | {"vocab": dict(sorted(self.vocab.items())), "merges": merges}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vocab = state["vocab"]
        pairs = np.frombuffer(state["merges"], "<u4").reshape(-1, 2).tolist()
        merges = [(vocab[left], vocab[right]) for left, right in pairs]
        self.__init__(**(state | {"merges": merges}))  # type: ignore[misc]


def _checked_own_ids(
    own_ids: dict[str, int], vocab: dict[int, bytes], added: Sequence[str]
) -> dict[str, int]:
    """Check the ids of added tokens, add them to `vocab`, and return the ids that are needed.

    An id is needed if an ordinary token has the same bytes.
    """
    if not own_ids:
        return {}
    known = frozenset(added)
    for content, token_id in own_ids.items():
        if content not in known:
            raise InputError(
                f"must contain only added tokens, got {short_repr(content)}", argument="added_ids"
            )
        if type(token_id) is not int or not 0 <= token_id <= MAX_ID:
            raise InputError(explain_bad_id(token_id, content), argument="added_ids")
        token = content.encode()
        if vocab.setdefault(token_id, token) != token:
            raise InputError(
                f"must agree with vocab, but id {token_id} is {short_repr(content)} here and "
                f"{short_repr(vocab[token_id])} there",
                argument="added_ids",
            )
    added_ids = set(own_ids.values())
    ordinary = {token for token_id, token in vocab.items() if token_id not in added_ids}
    return {
        content: token_id for content, token_id in own_ids.items() if content.encode() in ordinary
    }
