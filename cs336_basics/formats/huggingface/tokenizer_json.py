"""Hugging Face's `tokenizer.json`, in and out, without importing the `tokenizers` library.

What is written holds everything that `tokenizers` needs for the same ids: vocabulary, merges,
special tokens and split pattern. What is read is refused where `Tokenizer` cannot do the same as
the file says: a normalizer, byte fallback, dropout, an unknown pre-tokenizer and so on; some of
that can be ignored on request. Formats checked against tokenizers 0.23.3 and transformers 5.23.0.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from cs336_basics._support.journal import opened
from cs336_basics._support.messages import short_repr
from cs336_basics._support.reading import parse_json, unique_keys
from cs336_basics.formats.gpt2.byte_strings import (
    character_to_byte,
    string_to_token,
    token_to_string,
)
from cs336_basics.formats.gpt2.vocab_files import Pair
from cs336_basics.formats.huggingface.pretokenizers import (
    kind_of,
    list_in,
    pattern_of,
    pre_tokenizer_of,
)
from cs336_basics.pretokenization.splitter import check_special_tokens
from cs336_basics.tokenizer.vocabulary import MAX_ID, TokenizerParts, explain_bad_id

TOKENIZER_FILE = "tokenizer.json"
CONFIG_FILE = "tokenizer_config.json"

# --------------------------------------------------------------------- out


def tokenizer_json(
    vocab: Mapping[int, bytes],
    merges: Sequence[Pair],
    special_tokens: Sequence[str],
    pattern: str,
    ignore_merges: bool = False,
) -> dict[str, Any]:
    """Return the content of a `tokenizer.json` that gives the same ids.

    Args:
        vocab: id -> token, special tokens included.
        merges: in the order of their ranks.
        special_tokens: which of the tokens are special.
        pattern: a name in PATTERNS or a regular expression.
        ignore_merges: see `Tokenizer`.

    Raises:
        ValueError: the format cannot represent the tokenizer; says which token or pattern. A byte
            is missing; a special token is written like an ordinary token, or would be decoded to
            other text; the pattern has other syntax.
    """
    strings = token_strings(vocab, merges, special_tokens)
    check_has_all_bytes(vocab)
    added = [
        {"id": strings[token], "content": token, **_ADDED_TOKEN}
        for token in sorted(special_tokens, key=lambda token: strings[token])
    ]
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "normalizer": None,
        "pre_tokenizer": pre_tokenizer_of(pattern),
        "post_processor": None,
        "decoder": {
            "type": "ByteLevel",
            "add_prefix_space": True,
            "trim_offsets": True,
            "use_regex": True,
        },
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": ignore_merges,
            "vocab": strings,
            "merges": [[token_to_string(a), token_to_string(b)] for a, b in merges],
        },
    }


_ADDED_TOKEN = {
    "single_word": False,
    "lstrip": False,
    "rstrip": False,
    "normalized": False,
    "special": True,
}


def token_strings(
    vocab: Mapping[int, bytes], merges: Iterable[Pair], special_tokens: Iterable[str]
) -> dict[str, int]:
    """Return string -> id: special tokens as they are, the others in GPT-2's byte alphabet.

    Raises:
        ValueError: a special token that would be decoded to other text, is written like an ordinary
            token, or is also a byte or a token of a merge, which is written otherwise; names it.
    """
    special_bytes = {token.encode(): token for token in special_tokens}
    for token, special in special_bytes.items():
        _check_special(special, token)
    ordinary = {token for pair in merges for token in (*pair, b"".join(pair))}
    strings: dict[str, int] = {}
    for token_id in sorted(vocab):
        token = vocab[token_id]
        string = special_bytes.get(token) or token_to_string(token)
        if string != token_to_string(token) and (token in ordinary or len(token) == 1):
            raise ValueError(
                f"special token {short_repr(string)} cannot be exported: it is also a token of "
                "ordinary text, which is written in another way"
            )
        if string in strings:
            raise ValueError(
                f"ids {strings[string]} and {token_id} are both written as {short_repr(string)}: a "
                "special token may not look like an ordinary token in GPT-2's byte alphabet"
            )
        strings[string] = token_id
    return strings


def _check_special(string: str, token: bytes) -> None:
    """Refuse a special token that would be decoded to other bytes.

    Decoders take any token whose characters are all in GPT-2's byte alphabet for bytes.
    """
    to_byte = character_to_byte()
    if all(c in to_byte for c in string) and string_to_token(string) != token:
        changed = next(c for c in string if bytes([to_byte[c]]) != c.encode())
        raise ValueError(
            f"special token {short_repr(string)} cannot be exported: its character {changed!r} "
            "would be decoded as a byte"
        )


def check_has_all_bytes(vocab: Mapping[int, bytes]) -> None:
    """Refuse a vocabulary that lacks a byte, which other libraries drop or fail on.

    Raises:
        ValueError: names the byte.
    """
    tokens = set(vocab.values())
    for byte in range(256):
        if bytes([byte]) not in tokens:
            raise ValueError(
                f"the vocabulary has no token for byte {byte:#04x}: only vocabularies with all "
                "256 bytes can be exported"
            )


def tokenizer_config(
    content: Mapping[str, Any], *, context_length: int | None = None, end_of_text: str | None = None
) -> dict[str, Any]:
    """Return the content of a `tokenizer_config.json`, which AutoTokenizer needs as well.

    Args:
        content: what `tokenizer_json` returned.
        context_length: the longest sequence of the model, in tokens; None: not limited.
        end_of_text: the special token that ends a text; also used for padding.
    """
    config: dict[str, Any] = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "add_prefix_space": False,
        "clean_up_tokenization_spaces": False,
        "bos_token": None,
        "unk_token": None,
        "eos_token": end_of_text,
        "pad_token": end_of_text,
        "added_tokens_decoder": {
            str(token["id"]): {key: token[key] for key in ("content", *_ADDED_TOKEN)}
            for token in content["added_tokens"]
        },
    }
    if context_length is not None:
        config["model_max_length"] = context_length
    return config


# --------------------------------------------------------------------- in

IGNORABLE = {
    "normalizer": "the text would be changed before it is split",
    "post_processor": "it may add tokens to a text",
    "truncation": "texts would be cut",
    "padding": "ids would be added",
}
"""Parts of the file that can be ignored on request, and what they do."""


def load_huggingface_tokenizer(
    path: str | os.PathLike[str], ignore: Iterable[str] = ()
) -> TokenizerParts:
    """Read a `tokenizer.json`, or a directory that holds one.

    Args:
        path: the file or directory.
        ignore: names in IGNORABLE.

    Raises:
        FileNotFoundError: there is no such file.
        TypeError: `ignore` is a str, or not iterable.
        ValueError: the file is malformed, or holds what `Tokenizer` does not do; names it.
    """
    ignored = _checked_ignorable(ignore)
    path = Path(path)
    if path.is_dir():
        path = path / TOKENIZER_FILE
        if not path.exists():
            raise FileNotFoundError(
                f"{path} does not exist: name a directory that holds it (vocab.json and merges.txt "
                "are read by from_gpt2)"
            )
    with opened(path) as file:
        content = parse_json(file.read(), path, unique_keys)
    try:
        return parse_tokenizer_json(content, ignored)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _checked_ignorable(ignore: Iterable[str]) -> frozenset[str]:
    if isinstance(ignore, (str, bytes)) or not isinstance(ignore, Iterable):
        raise TypeError(f"ignore is {short_repr(ignore)}: pass a list, such as ['normalizer']")
    names = list(ignore)
    for name in names:
        if not isinstance(name, str) or name not in IGNORABLE:
            raise ValueError(
                f"ignore has {short_repr(name)}: only {', '.join(IGNORABLE)} can be ignored"
            )
    return frozenset(names)


def parse_tokenizer_json(content: Any, ignored: frozenset[str] = frozenset()) -> TokenizerParts:
    """Return the parts of the tokenizer that the content of a `tokenizer.json` describes.

    Raises:
        ValueError: see `load_huggingface_tokenizer`.
    """
    if not isinstance(content, dict):
        raise ValueError(f"it holds a value of type {type(content).__name__}, not an object")
    model = _object(content, "model")
    for key, why in IGNORABLE.items():
        if key not in ignored and not _does_nothing(key, content.get(key)):
            raise ValueError(
                f"it has a {key} ({kind_of(content[key])}): {why}, which is not supported; to load "
                f"the tokenizer without it, pass ignore=[{key!r}]"
            )
    decoder = content.get("decoder")
    if not isinstance(decoder, dict) or decoder.get("type") != "ByteLevel":
        raise ValueError(f"its decoder is {kind_of(decoder)}: only ByteLevel can be loaded")
    pattern = pattern_of(content.get("pre_tokenizer"))
    special_tokens = _special_tokens(content.get("added_tokens"))
    vocab = _vocab(_object(model, "vocab"), special_tokens)
    _check_model(model, vocab)
    merges = [_merge(rank, merge) for rank, merge in enumerate(list_in(model, "merges"))]
    ignore_merges = bool(model.get("ignore_merges"))
    return TokenizerParts(vocab, merges, list(special_tokens), pattern, ignore_merges)


def _does_nothing(key: str, part: Any) -> bool:
    """Return whether a part of the file, one of IGNORABLE, changes neither text nor ids."""
    if not isinstance(part, dict):
        return part is None
    if key == "normalizer":
        return part.get("type") == "Sequence" and part.get("normalizers") == []
    if key != "post_processor":
        return False
    steps = list_in(part, "processors") if part.get("type") == "Sequence" else [part]
    return all(isinstance(step, dict) and _adds_nothing(step) for step in steps)


def _adds_nothing(post_processor: dict[str, Any]) -> bool:
    """Return whether a post-processor leaves the ids of a text as they are."""
    if post_processor.get("type") == "TemplateProcessing":
        single = post_processor.get("single")  # the text, a Sequence, and special tokens
        if not isinstance(single, list) or len(single) != 1:
            return False
        return isinstance(single[0], dict) and list(single[0]) == ["Sequence"]
    return post_processor.get("type") == "ByteLevel"  # which changes offsets


def _check_model(model: dict[str, Any], vocab: Mapping[int, bytes]) -> None:
    """Refuse a model that is not plain byte-pair encoding."""
    if model.get("type", "BPE") != "BPE":
        raise ValueError(f"its model is {short_repr(model['type'])}: only BPE can be loaded")
    reasons = {
        "dropout": "merges would be left out at random",
        "continuing_subword_prefix": "tokens would have a prefix within words",
        "end_of_word_suffix": "tokens would have a suffix at the end of words",
        "byte_fallback": "its tokens are not written in GPT-2's byte alphabet",
    }
    if not {bytes([byte]) for byte in range(256)}.issubset(vocab.values()):
        reasons["unk_token"] = "bytes that the vocabulary lacks would get this token"
    if model.get("ignore_merges") not in (None, False, True):
        raise ValueError(
            f"its model has ignore_merges {short_repr(model['ignore_merges'])}, neither true nor "
            "false"
        )
    for key, why in reasons.items():
        value = model.get(key)
        if value is not None and value not in (False, "", 0):
            raise ValueError(
                f"its model has {key} {short_repr(value)}: {why}, which is not supported"
            )


def _special_tokens(added: Any) -> dict[str, int]:
    """Return the added tokens, content -> id, which our encoder treats as special tokens."""
    if not isinstance(added, list) and added is not None:
        raise ValueError(f"its 'added_tokens' is {short_repr(added)}, not a list")
    found: dict[str, int] = {}
    normalized: dict[bool, list[str]] = {False: [], True: []}
    for token in added or []:
        content = token.get("content") if isinstance(token, dict) else None
        if not isinstance(content, str) or not content or type(token.get("id")) is not int:
            raise ValueError(f"added token {short_repr(token)} needs a content and an id")
        for key in ("single_word", "lstrip", "rstrip"):
            if token.get(key):
                raise ValueError(
                    f"added token {short_repr(content)} has {key}, which is not supported"
                )
        if content in found:
            raise ValueError(f"added token {short_repr(content)} occurs twice")
        found[content] = token["id"]
        normalized[bool(token.get("normalized", False))].append(content)
    check_special_tokens(list(found))
    _check_overlaps(normalized[False], normalized[True])
    return found


_MAX_COMPARISONS = 1_000_000


def _check_overlaps(first: Sequence[str], second: Sequence[str]) -> None:
    """Refuse tokens that would compete: those that are 'normalized' are looked for later.

    Here they are all equal, and the first in the text wins.

    Raises:
        ValueError: two tokens may overlap in a text, or there are too many to tell.
    """
    if sum(map(len, first)) * len(second) + sum(map(len, second)) * len(first) > _MAX_COMPARISONS:
        raise ValueError(
            f"{len(first):,} added tokens are not 'normalized' and {len(second):,} are, which is "
            "too many to tell whether they overlap: make all of them the same"
        )
    for one in first:
        for other in second:
            if _may_overlap(one, other):
                raise ValueError(
                    f"added tokens {short_repr(one)} and {short_repr(other)} overlap, and only the "
                    "second is 'normalized': which of them wins differs here"
                )


def _may_overlap(a: str, b: str) -> bool:
    """Return whether an occurrence of one may share characters with one of the other."""
    return (
        a in b
        or b in a
        or any(a.endswith(b[:n]) or b.endswith(a[:n]) for n in range(1, min(len(a), len(b))))
    )


def _vocab(strings: dict[str, Any], special_tokens: dict[str, int]) -> dict[int, bytes]:
    vocab: dict[int, bytes] = {}
    for string, token_id in {**strings, **special_tokens}.items():
        if type(token_id) is not int:
            raise ValueError(
                f"the id of token {short_repr(string)} is {short_repr(token_id)}, not an integer"
            )
        if not 0 <= token_id <= MAX_ID:
            raise ValueError(explain_bad_id(token_id, string))
        if strings.get(string, token_id) != token_id:
            raise ValueError(
                f"{short_repr(string)} has the id {short_repr(strings[string])} in the vocabulary "
                f"and {token_id} as an added token"
            )
        token = string.encode() if string in special_tokens else _token(string, "token")
        if token_id in vocab:
            raise ValueError(
                f"{short_repr(vocab[token_id])} and {short_repr(token)} have the same id {token_id}"
            )
        vocab[token_id] = token
    return vocab


def _merge(rank: int, merge: Any) -> Pair:
    strings = merge.split(" ") if isinstance(merge, str) else merge
    if (
        not isinstance(strings, list)
        or len(strings) != 2
        or not all(isinstance(string, str) for string in strings)
    ):
        raise ValueError(f"merge {rank} is {short_repr(merge)}, not a pair of tokens")
    left, right = strings
    return _token(left, f"merge {rank}:"), _token(right, f"merge {rank}:")


def _token(string: str, what: str) -> bytes:
    try:
        return string_to_token(string)
    except KeyError as error:
        raise ValueError(
            f"{what} {short_repr(string)} has the character {error.args[0]!r}, which is not in "
            "GPT-2's byte alphabet"
        ) from None


def _object(parent: dict[str, Any], key: str) -> dict[str, Any]:
    value = parent.get(key)
    if not isinstance(value, dict):
        raise ValueError(f"its {key!r} is {short_repr(value)}, not an object")
    return value
