"""Hugging Face's `tokenizer.json`, in and out, without importing the `tokenizers` library.

What is written holds everything that `tokenizers` needs for the same ids: vocabulary, merges,
special tokens and split pattern. What is read is refused where `Tokenizer` cannot do the same as
the file says: a normalizer, byte fallback, dropout, an unknown pre-tokenizer and so on. Formats
checked against tokenizers 0.23.3 and transformers 5.23.0.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from cs336_basics._journal import opened
from cs336_basics._messages import short_repr
from cs336_basics._reading import parse_json, unique_keys
from cs336_basics.pretokenization.patterns import GPT2, pattern_name, resolve_pattern
from cs336_basics.tokenizer.byte_strings import character_to_byte, string_to_token, token_to_string
from cs336_basics.tokenizer.foreign_patterns import from_oniguruma, to_oniguruma
from cs336_basics.tokenizer.vocab_files import Pair
from cs336_basics.tokenizer.vocabulary import MAX_ID, TokenizerParts, explain_bad_id

TOKENIZER_FILE = "tokenizer.json"
CONFIG_FILE = "tokenizer_config.json"

# --------------------------------------------------------------------- out


def _pre_tokenizer(pattern: str) -> dict[str, Any]:
    """Return the pre-tokenizer that splits as our pattern does."""
    expression = resolve_pattern(pattern)
    if expression == GPT2:  # ByteLevel has it built in
        return _byte_level(use_regex=True)
    if pattern_name(pattern):
        split = {"behavior": "Isolated", "invert": False}
    else:  # what the pattern does not match is dropped, as ours is
        split = {"behavior": "Removed", "invert": True}
    return {
        "type": "Sequence",
        "pretokenizers": [
            {"type": "Split", "pattern": {"Regex": to_oniguruma(pattern)}, **split},
            _byte_level(use_regex=False),
        ],
    }


def _byte_level(use_regex: bool) -> dict[str, Any]:
    return {
        "type": "ByteLevel",
        "add_prefix_space": False,
        "trim_offsets": True,
        "use_regex": use_regex,
    }


def tokenizer_json(
    vocab: Mapping[int, bytes],
    merges: Sequence[Pair],
    special_tokens: Sequence[str],
    pattern: str,
) -> dict[str, Any]:
    """Return the content of a `tokenizer.json` that gives the same ids.

    Args:
        vocab: id -> token, special tokens included.
        merges: in the order of their ranks.
        special_tokens: which of the tokens are special.
        pattern: a name in PATTERNS or a regular expression.

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
        "pre_tokenizer": _pre_tokenizer(pattern),
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
            "ignore_merges": False,
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


def load_huggingface_tokenizer(path: str | os.PathLike[str]) -> TokenizerParts:
    """Read a `tokenizer.json`, or a directory that holds one.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: the file is malformed, or holds what `Tokenizer` does not do; names it.
    """
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
        return parse_tokenizer_json(content)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def parse_tokenizer_json(content: Any) -> TokenizerParts:
    """Return the parts of the tokenizer that the content of a `tokenizer.json` describes.

    Raises:
        ValueError: see `load_huggingface_tokenizer`.
    """
    if not isinstance(content, dict):
        raise ValueError(f"it holds a value of type {type(content).__name__}, not an object")
    model = _object(content, "model")
    for key, why in (
        ("normalizer", "the text would be changed before it is split"),
        ("truncation", "texts would be cut"),
        ("padding", "ids would be added"),
    ):
        if content.get(key) is not None:
            raise ValueError(
                f"it has a {key} ({_kind(content[key])}): {why}, which is not supported"
            )
    _check_byte_level(content.get("decoder"), "decoder")
    if content.get("post_processor") is not None:
        _check_byte_level(content["post_processor"], "post_processor")
    pattern = _pattern_of(content.get("pre_tokenizer"))
    special_tokens = _special_tokens(content.get("added_tokens"))
    vocab = _vocab(_object(model, "vocab"), special_tokens)
    _check_model(model, vocab)
    merges = [_merge(rank, merge) for rank, merge in enumerate(_list(model, "merges"))]
    return TokenizerParts(vocab, merges, list(special_tokens), pattern)


def _check_model(model: dict[str, Any], vocab: Mapping[int, bytes]) -> None:
    """Refuse a model that is not plain byte-pair encoding."""
    if model.get("type", "BPE") != "BPE":
        raise ValueError(f"its model is {short_repr(model['type'])}: only BPE can be loaded")
    reasons = {
        "dropout": "merges would be left out at random",
        "continuing_subword_prefix": "tokens would have a prefix within words",
        "end_of_word_suffix": "tokens would have a suffix at the end of words",
        "byte_fallback": "its tokens are not written in GPT-2's byte alphabet",
        "ignore_merges": "a word in the vocabulary would be taken whole, whatever the merges",
    }
    if not {bytes([byte]) for byte in range(256)}.issubset(vocab.values()):
        reasons["unk_token"] = "bytes that the vocabulary lacks would get this token"
    for key, why in reasons.items():
        value = model.get(key)
        if value is not None and value not in (False, "", 0):
            raise ValueError(
                f"its model has {key} {short_repr(value)}: {why}, which is not supported"
            )


def _pattern_of(pre_tokenizer: Any) -> str:
    """Return the split pattern of a pre-tokenizer."""
    unknown = (
        f"its pre_tokenizer ({_kind(pre_tokenizer)}) is unknown: ByteLevel, or a Sequence of one "
        "Split and ByteLevel, can be loaded"
    )
    steps = [pre_tokenizer]
    if isinstance(pre_tokenizer, dict) and pre_tokenizer.get("type") == "Sequence":
        steps = _list(pre_tokenizer, "pretokenizers")
    if len(steps) not in (1, 2) or not all(isinstance(step, dict) for step in steps):
        raise ValueError(unknown)
    *splits, last = steps
    if last.get("type") != "ByteLevel":
        raise ValueError(unknown)
    if last.get("add_prefix_space"):
        raise ValueError("its pre_tokenizer adds a space before the text, which is not supported")
    uses_gpt2 = last.get("use_regex", True)
    if not splits:
        if not uses_gpt2:
            raise ValueError("its pre_tokenizer does not split text at all, which is not supported")
        return "gpt2"
    if uses_gpt2:
        raise ValueError("its pre_tokenizer splits twice, which is not supported")
    return _pattern_of_split(splits[0], unknown)


def _pattern_of_split(split: dict[str, Any], unknown: str) -> str:
    pattern = split.get("pattern")
    if split.get("type") != "Split" or not isinstance(pattern, dict) or len(pattern) != 1:
        raise ValueError(unknown)
    expression = pattern.get("Regex")
    how = (split.get("behavior"), split.get("invert", False))
    if not isinstance(expression, str) or how not in (("Isolated", False), ("Removed", True)):
        raise ValueError(
            f"its pre_tokenizer splits at {short_repr(pattern)} with behavior "
            f"{short_repr(how[0])}, invert {short_repr(how[1])}: a Regex that is Isolated, or "
            "Removed and inverted, can be loaded"
        )
    return from_oniguruma(expression, keeps_rest=how[0] == "Isolated")


def _check_byte_level(value: Any, key: str) -> None:
    if not isinstance(value, dict) or value.get("type") != "ByteLevel":
        adds = " and may add tokens" if key == "post_processor" else ""
        raise ValueError(f"its {key} is {_kind(value)}{adds}: only ByteLevel can be loaded")


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


def _list(parent: dict[str, Any], key: str) -> list[Any]:
    value = parent.get(key)
    if not isinstance(value, list):
        raise ValueError(f"its {key!r} is {short_repr(value)}, not a list")
    return value


def _kind(value: Any) -> str:
    """Return the type that a part of the file names, for messages."""
    return short_repr(value.get("type")) if isinstance(value, dict) else short_repr(value)
