"""Convert the content of a `tokenizer.json` to a definition.

A file with a feature that `Tokenizer` does not have, such as byte fallback, dropout or an unknown
pre-tokenizer, is rejected. The caller can choose to ignore some of these features.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from cs336_basics._support.errors import InputError
from cs336_basics._support.messages import json_kind, short_repr
from cs336_basics._support.reading import parse_json
from cs336_basics._support.warnings import warn
from cs336_basics.formats.byte_strings import (
    add_token,
    merges_of_strings,
    strings_to_tokens,
    token_to_string,
    vocab_of_strings,
)
from cs336_basics.formats.foreign_patterns import FALCON
from cs336_basics.formats.huggingface.length_settings import length_settings_of
from cs336_basics.formats.huggingface.normalizers import normalizer_of
from cs336_basics.formats.huggingface.parts import kind_of, list_in, object_in, steps_of
from cs336_basics.formats.huggingface.post_processors import post_processor_of
from cs336_basics.formats.huggingface.pretokenizers import pattern_of
from cs336_basics.formats.recognition import check_is_tokenizer_json, check_model_type
from cs336_basics.splitting.patterns import split_program
from cs336_basics.splitting.patterns.named_patterns import pattern_name
from cs336_basics.splitting.patterns.split_sequences import changes_text
from cs336_basics.text import normalization
from cs336_basics.text.utf8 import UTF8_BYTES
from cs336_basics.tokenizer.added_tokens import AddedToken
from cs336_basics.tokenizer.definition import TokenizerDefinition
from cs336_basics.tokenizer.length_settings import LengthSettings
from cs336_basics.tokenizer.post_processor import PostProcessor
from cs336_basics.tokenizer.words import Pair, Words, words_of

if TYPE_CHECKING:
    from cs336_basics.formats._byte_strings import TokenizerFile

VERSION = "1.0"
"""`version` of all files of tokenizers."""

OWN_VERSION = "cs336_basics"
"""`version` of files that only this library can read."""

IGNORABLE = ("normalizer", "post_processor", *LengthSettings._fields)
"""Parts of the file that the caller can choose to ignore."""


class MistakeInFileError(Exception):
    """Raised if a compiled reader finds a mistake. It does not say which."""


def parse_own(content: dict[str, Any], own: bool) -> TokenizerDefinition:
    """Return the definition in a file with OWN_VERSION.

    Raises:
        ValueError: If the file is malformed, or `own` is false.
    """
    if not own:
        raise InputError("the file is not in Hugging Face's format", remedy="use from_directory")
    pattern: Any = content.get("pattern")
    special_tokens = [_own_added_token(item) for item in list_in(content, "special_tokens")]
    if not isinstance(pattern, str):
        raise InputError(f"pattern must be a string, got {short_repr(pattern)}")
    model = object_in(content, "model")
    added_ids = object_in(content, "added_ids") if "added_ids" in content else {}
    return TokenizerDefinition(
        vocab_of_strings(object_in(model, "vocab")),
        merges_of_strings(list_in(model, "merges"), "merge {}".format),
        special_tokens,
        pattern,
        _ignore_merges(model),
        content.get("normalizer"),
        _own_post_processor(content.get("post_processor")),
        added_ids,
        length_settings_of(content),
    )


def _own_added_token(item: Any) -> AddedToken:
    fields = {"content": item} if isinstance(item, str) else item
    if not isinstance(fields, dict) or not fields.keys() <= set(AddedToken._fields):
        raise InputError(f"special_tokens: {short_repr(item)} is not an added token")
    return added_token(fields)


def _own_post_processor(value: Any) -> PostProcessor | None:
    if value is None:
        return None
    if isinstance(value, list) and len(value) == 3:
        single, pair, source = value
        if isinstance(source, str) and source:
            return post_processor_of(parse_json(source.encode(), "post_processor"))
        if isinstance(single, list) and isinstance(pair, list):
            return PostProcessor(tuple(single), tuple(pair))
    raise InputError(f"post_processor must be templates of ids, got {short_repr(value)}")


def parse_tokenizer_json(
    content: Any, ignored: Sequence[str] = (), file: TokenizerFile | None = None
) -> TokenizerDefinition:
    """Convert the content of a `tokenizer.json` to a definition.

    Args:
        content: Content of the file.
        ignored: Keys of IGNORABLE.
        file: The vocabulary and the merges, if they are not in `content`.

    Raises:
        ValueError: If the file is malformed, or has a feature that `Tokenizer` does not have.
        MistakeInFileError: If `file` has a mistake. Pass all of the content to get its message.

    Warns:
        UserWarning: If the pre-tokenizer cannot be compiled.
    """
    if not isinstance(content, dict):
        raise InputError(f"the file must contain an object, got {json_kind(content)}")
    check_is_tokenizer_json(content)
    if content.get("version", VERSION) not in (None, VERSION):
        raise InputError(
            f"version {short_repr(content['version'])} of the format is unknown; tokenizers reads "
            f"and writes {VERSION!r}",
            remedy="install a newer version of this library",
        )
    model = object_in(content, "model")
    check_model_type(model)  # first, because all other advice depends on it
    length_settings = length_settings_of(content, ignored)
    normalizer = None if "normalizer" in ignored else normalizer_of(content.get("normalizer"))
    post_processor = (
        None if "post_processor" in ignored else post_processor_of(content.get("post_processor"))
    )
    _check_decoder(content.get("decoder"))
    pattern = pattern_of(content.get("pre_tokenizer"))
    added = _without_repetitions(list_in(content, "added_tokens", default=[]))
    added_tokens = [added_token(token) for token in added]
    strings = object_in(model, "vocab") if file is None else file
    ids = _ids_of(added, added_tokens, strings)
    own_ids = {
        text: token_id
        for text, token_id in ids.items()
        if (string := token_to_string(text.encode())) in strings and string not in ids
    }
    ignore_merges = _ignore_merges(model)
    _check_is_normalized(added_tokens, normalizer)
    _check_model(model)
    if file is None:
        words = _words_of(model, ids, own_ids)
    else:
        words = _words_of_file(file, ids, own_ids)
    _check_unknown_token(model, words)
    definition = TokenizerDefinition.of_words(
        words,
        own_ids,
        added_tokens,
        pattern,
        ignore_merges,
        normalizer,
        post_processor,
        length_settings,
    )
    if ignore_merges:
        check_always_found(added_tokens, normalizer, strings, lambda: definition.merges)
    if pattern == FALCON:
        _check_split_bytes(definition.merges, definition.whole_words)
    split = definition.split_pattern
    if pattern_name(split) is None and split_program.find_program(split) is None:
        reason = "cannot be compiled"
        if changes_text(split):
            reason = "drops text or adds spaces, so that decode does not restore the text"
        warn(f"the pre_tokenizer {reason}; this tokenizer splits text in Python, which is slow")
    return definition


def _words_of(model: dict[str, Any], ids: Mapping[str, int], own_ids: Mapping[str, int]) -> Words:
    """Return the tokens and merges of a model, and the added tokens without an id of their own."""
    strings = object_in(model, "vocab")
    vocab = vocab_of_strings({text: i for text, i in strings.items() if text not in ids})
    merges = merges_of_strings(list_in(model, "merges"), "merge {}".format)
    for text, token_id in ids.items():
        add_token(vocab, token_id, text.encode())
    for token_id in own_ids.values():
        del vocab[token_id]
    return words_of(vocab, merges)


def _words_of_file(file: TokenizerFile, ids: dict[str, int], own_ids: Mapping[str, int]) -> Words:
    """Return what `_words_of` returns, from a compiled reader."""
    words = file.words_with(ids, set(own_ids))
    taken = [*own_ids.values()]
    if words is None or len(set(taken)) < len(taken) or any(map(words.has_id, taken)):
        raise MistakeInFileError
    return words


def _check_decoder(decoder: Any) -> None:
    """Raise ValueError unless a decoder joins the bytes of the tokens, or is missing.

    Without a decoder, tokenizers joins the tokens with spaces, in the byte alphabet.
    """
    if decoder is None:
        return
    steps = steps_of(decoder, "decoders")
    for index, step in enumerate(steps):
        # After ByteLevel, there is only one piece of text, and Fuse has nothing to join.
        is_known = step.get("type") == "ByteLevel" or (index and step.get("type") == "Fuse")
        if not is_known:
            raise InputError(f"decoder must be ByteLevel, got {kind_of(step)}")


def added_token(token: Any) -> AddedToken:
    """Return an added token of a file, with its flags."""
    content = token.get("content") if isinstance(token, dict) else None
    if not isinstance(content, str) or not content:
        raise InputError(f"an added token must have a content and an id, got {short_repr(token)}")
    flags = {name: token[name] for name in AddedToken._fields[1:] if name in token}
    for name, value in flags.items():
        if not isinstance(value, bool):
            raise InputError(
                f"{name} of added token {short_repr(content)} must be true or false, got "
                f"{short_repr(value)}"
            )
    return AddedToken(content, **flags)


def _without_repetitions(added: list[Any]) -> list[Any]:
    """Leave out added tokens that repeat an earlier one, which tokenizers ignores."""
    first: dict[Any, Any] = {}
    return [
        item
        for item in added
        if not isinstance(item, dict)
        or not isinstance(content := item.get("content"), str)
        or first.setdefault(content, item) is item
        or first[content] != item
    ]


def _ids_of(
    added: list[Any], tokens: Sequence[AddedToken], strings: dict[str, Any] | TokenizerFile
) -> dict[str, int]:
    """Return a mapping of content -> id for the added tokens.

    tokenizers ignores the file's ids of added tokens. It gives each of them the id of the same
    string in the vocabulary, or the next free id, so other ids are rejected.
    """
    ids: dict[str, int] = {}
    next_id = len(strings)
    for item, (text, *_) in zip(added, tokens, strict=True):
        if type(item.get("id")) is not int:
            raise InputError(
                f"an added token must have a content and an id, got {short_repr(item)}"
            )
        if text in ids:
            raise InputError(f"added token {short_repr(text)} occurs twice")
        if text in strings and strings_to_tokens([text]) not in ([None], [text.encode()]):
            raise InputError(
                f"added token {short_repr(text)} is also the token of other bytes in the "
                "vocabulary, written in GPT-2's byte alphabet",
                remedy="remove it from added_tokens",
            )
        theirs = strings.get(text, next_id)
        if theirs != item["id"]:
            raise InputError(
                f"added token {short_repr(text)} has id {item['id']}, but tokenizers gives it id "
                f"{short_repr(theirs)}",
                remedy="load the file with tokenizers and save it again",
            )
        ids[text] = theirs
        next_id = max(next_id, theirs + 1)
    return ids


def _check_is_normalized(tokens: Iterable[AddedToken], normalizer: str | None) -> None:
    """Raise ValueError if an added token that is `normalized` is not written in normalized form.

    tokenizers decodes it to its normalized form, and then does not know that it is special.
    """
    if normalizer is None:
        return
    for token in tokens:
        form = normalization.normalized(token.content, normalizer)
        if token.normalized and form != token.content:
            raise InputError(
                f"added token {short_repr(token.content)} is 'normalized', so it must be written "
                f"in {normalizer}, as {short_repr(form)}"
            )


_MANY = 100


def check_always_found(
    tokens: Sequence[AddedToken],
    normalizer: str | None,
    strings: Container[str],
    merges: Callable[[], Iterable[Pair]],
) -> None:
    """Raise ValueError if a pre-token could be equal to an added token.

    With `ignore_merges`, tokenizers gives such a pre-token the id of the added token, if the
    vocabulary of its model contains it. `Tokenizer` does not.

    Args:
        tokens: The added tokens.
        normalizer: Normalization form.
        strings: The vocabulary of the model.
        merges: Function that returns the merges, which are rarely needed. The tokens that they
            produce need no `ignore_merges`.
    """
    # What is found, but is not a single word, stays in the text with the tokens in it.
    left = [token.content for token in tokens if token.single_word]
    merged: set[bytes] | None = None
    for token in tokens:
        if token.content not in strings:
            continue
        may_remain = (
            (normalizer is not None and not token.normalized)
            or len(left) > _MANY  # comparing them all would take too long
            or any(token.content in text for text in left)
        )
        as_bytes = token.content.encode()
        if not may_remain or len(as_bytes) == 1:
            continue
        if merged is None:  # rarely needed
            merged = set(map(b"".join, merges()))
        if as_bytes not in merged:
            raise InputError(
                f"added token {short_repr(token.content)} is also in the vocabulary of the model, "
                "and ignore_merges is true, so text that is not the added token could get its id",
                remedy="remove it from the model's vocab",
            )


_NOT_PLAIN = {
    "dropout": "merges would be left out at random",
    "continuing_subword_prefix": "tokens would have a prefix within words",
}
"""Settings of models that are not plain byte-pair encoding, with their effects. See also
`check_model_type`."""


def _check_model(model: dict[str, Any]) -> None:
    """Raise ValueError unless a model, which has passed `check_model_type`, is plain BPE."""
    for key, why in _NOT_PLAIN.items():
        if value := model.get(key):
            raise InputError(f"the model's {key} {short_repr(value)} is not supported: {why}")


def _check_unknown_token(model: dict[str, Any], words: Words) -> None:
    """Raise ValueError if the model has an unknown token and a byte of UTF-8 is missing."""
    if (value := model.get("unk_token")) and any(
        words.get(bytes([byte])) is None for byte in UTF8_BYTES
    ):
        raise InputError(
            f"the model's unk_token {short_repr(value)} is not supported: bytes without a token "
            "would be encoded as this token"
        )


def _ignore_merges(model: dict[str, Any]) -> bool:
    value = model.get("ignore_merges") or False
    if not isinstance(value, bool):
        raise InputError(f"ignore_merges must be true or false, got {short_repr(value)}")
    return value


_NUMERIC = bytes(byte for byte in range(0xA1, 0x100) if chr(byte).isnumeric())
"""The bytes above 127 that GPT-2's byte alphabet writes as numbers, such as U+00B2."""


def _check_split_bytes(merges: Sequence[Pair], whole_words: Mapping[bytes, int]) -> None:
    """Raise ValueError if cutting out numbers in the byte alphabet would change ids.

    Falcon's pre-tokenizer cuts out runs of the bytes in _NUMERIC, even within a character, because
    their characters in the byte alphabet are numbers. Without a token that joins one of them with
    another byte, this makes no difference.
    """
    for token in (*map(b"".join, merges), *whole_words):
        if 0 < len(token.translate(None, _NUMERIC)) < len(token):
            raise InputError(
                f"token {short_repr(token)} is not supported with the pre_tokenizer of Falcon, "
                "which would split it"
            )
