"""Read and write `tokenizer.json`, the format of Hugging Face's `tokenizers`, without that library.

`Tokenizer.save` writes this file, which contains the vocabulary, merges, special tokens and split
pattern. The format was checked with tokenizers 0.23.3 and transformers 5.23.0.

Other libraries would give different ids for some tokenizers, such as those without a token for
every byte. `save` writes such tokenizers with a different `version`, so that other libraries refuse
to read the file.

A file with a feature that `Tokenizer` does not have, such as a normalizer, byte fallback, dropout
or an unknown pre-tokenizer, is rejected. The caller can choose to ignore some of these features.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import cs336_basics
from cs336_basics._support.errors import Argument, InputError
from cs336_basics._support.files import atomic_writer, json_text, named_directory, write_json
from cs336_basics._support.messages import short_repr
from cs336_basics._support.reading import open_regular, parse_json, unique_keys
from cs336_basics._support.text import END_OF_TEXT
from cs336_basics.formats.byte_strings import (
    add_token,
    collection_paused,
    merges_of_strings,
    strings_of_vocab,
    strings_to_tokens,
    token_to_string,
    vocab_of_strings,
)
from cs336_basics.formats.huggingface.hub import find_or_download
from cs336_basics.formats.huggingface.pretokenizers import (
    kind_of,
    list_in,
    pattern_of,
    pre_tokenizer_of,
)
from cs336_basics.splitting.patterns.named_patterns import pattern_name, resolve_pattern
from cs336_basics.splitting.reference import unicode_version
from cs336_basics.splitting.splitter import check_special_tokens
from cs336_basics.tokenizer.definition import TOKENIZER_FILE, TokenizerDefinition

CONFIG_FILE = "tokenizer_config.json"
TRAINING_FILE = "training.json"

VERSION = "1.0"
OWN_VERSION = "cs336_basics"
"""`version` of files that only this library can read."""

# --------------------------------------------------------------------- out


def save_tokenizer(
    definition: TokenizerDefinition,
    directory: str | os.PathLike[str],
    training: Mapping[str, Any] | None = None,
) -> None:
    """Write tokenizer.json and training.json; see `Tokenizer.save`."""
    directory = named_directory(directory)
    try:
        content = tokenizer_json(definition)
        _check_comes_back(definition.pattern, content["pre_tokenizer"])
    except InputError as error:
        content = _own_json(definition, str(error))
    with atomic_writer(Path(directory, TOKENIZER_FILE), "w") as file:
        file.write(_as_text(content))
    provenance = {
        "tokenizer_hash": definition.digest,
        "library_version": cs336_basics.__version__,
        # The Unicode version determines which characters are letters.
        "unicode_version": unicode_version(),
    }
    write_json(os.path.join(directory, TRAINING_FILE), {**provenance, **(training or {})})


def files_of_tokenizer(directory: str | os.PathLike[str]) -> list[str]:
    """Return the paths of the files that `save_tokenizer` writes."""
    return [os.path.join(directory, name) for name in (TOKENIZER_FILE, TRAINING_FILE)]


def _as_text(content: dict[str, Any]) -> str:
    # Write one token per line. `indent` would make Python's encoder four times slower.
    return json.dumps(content, ensure_ascii=False, separators=(",\n", ": ")) + "\n"


def tokenizer_json(definition: TokenizerDefinition) -> dict[str, Any]:
    """Return the content of a `tokenizer.json` that gives the same ids with `tokenizers`.

    Raises:
        ValueError: If the format cannot represent the vocabulary (see `strings_of_vocab`) or the
            split pattern.
    """
    strings = strings_of_vocab(definition)
    return {
        "version": VERSION,
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {"id": strings[token], "content": token, **_ADDED_TOKEN}
            for token in definition.special_tokens
        ],
        "normalizer": None,
        "pre_tokenizer": pre_tokenizer_of(definition.pattern),
        "post_processor": None,
        "decoder": {
            "type": "ByteLevel",
            "add_prefix_space": True,
            "trim_offsets": True,
            "use_regex": True,
        },
        "model": _model_json(strings, definition),
    }


_ADDED_TOKEN = {
    "single_word": False,
    "lstrip": False,
    "rstrip": False,
    "normalized": False,
    "special": True,
}


def _model_json(strings: dict[str, int], definition: TokenizerDefinition) -> dict[str, Any]:
    return {
        "type": "BPE",
        "dropout": None,
        "unk_token": None,
        "continuing_subword_prefix": None,
        "end_of_word_suffix": None,
        "fuse_unk": False,
        "byte_fallback": False,
        "ignore_merges": definition.ignore_merges,
        "vocab": strings,
        # Strings take half as long to read as lists.
        "merges": [f"{token_to_string(a)} {token_to_string(b)}" for a, b in definition.merges],
    }


def _check_comes_back(pattern: str, pre_tokenizer: dict[str, Any]) -> None:
    """Raise ValueError if `pattern_of` rejects a pattern or returns a different spelling of it."""
    if resolve_pattern(pattern_of(pre_tokenizer)) != resolve_pattern(pattern):
        raise InputError(f"pattern {short_repr(pattern)} is another spelling of a known pattern")


def _own_json(definition: TokenizerDefinition, reason: str) -> dict[str, Any]:
    strings = {
        token_to_string(token): token_id for token_id, token in sorted(definition.vocab.items())
    }
    return {
        "version": OWN_VERSION,
        "why other libraries cannot read this": reason,
        "pattern": pattern_name(definition.pattern) or definition.pattern,
        "special_tokens": definition.special_tokens,
        "model": _model_json(strings, definition),
    }


def special_roles(
    definition: TokenizerDefinition, given: Mapping[str, str]
) -> dict[str, str | None]:
    """Return a mapping from each role to its special token or None.

    The default `eos_token` is `<|endoftext|>`, if the tokenizer has it. The default `pad_token` is
    the `eos_token`. Other roles default to None.

    Args:
        definition: Definition of the tokenizer.
        given: Mapping from roles, such as `"pad_token"`, to special tokens.

    Raises:
        ValueError: If a given token is not a special token of the tokenizer.
    """
    for role, token in given.items():
        if token not in definition.special_tokens:
            raise InputError(
                f"must be one of the special tokens {short_repr(definition.special_tokens)}, got "
                f"{short_repr(token)}",
                argument=role,
            )
    end = given.get("eos_token", END_OF_TEXT if END_OF_TEXT in definition.special_tokens else None)
    return {"bos_token": None, "unk_token": None, "eos_token": end, "pad_token": end, **given}


def contents(
    definition: TokenizerDefinition, context_length: int | None = None, **roles: str
) -> dict[str, str]:
    """Return a mapping of file name -> content for the files that `AutoTokenizer` loads.

    Args:
        definition: Definition of the tokenizer.
        context_length: Maximum number of tokens in a sequence. Defaults to no limit.
        roles: See `special_roles`.

    Raises:
        ValueError: See `tokenizer_json` and `special_roles`.
    """
    content = tokenizer_json(definition)
    config: dict[str, Any] = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "add_prefix_space": False,
        "clean_up_tokenization_spaces": False,
        **special_roles(definition, roles),
        "added_tokens_decoder": {
            str(token["id"]): {key: token[key] for key in ("content", *_ADDED_TOKEN)}
            for token in content["added_tokens"]
        },
    }
    if context_length is not None:
        config["model_max_length"] = context_length
    return {CONFIG_FILE: json_text(config), TOKENIZER_FILE: _as_text(content)}


# --------------------------------------------------------------------- in

IGNORABLE = {
    "normalizer": "the text would be changed before it is split",
    "post_processor": "it may add tokens to the text",
    "truncation": "texts would be truncated",
    "padding": "ids would be added",
}
"""Parts of the file that the caller can choose to ignore, with their effects."""


def load_from_hub(
    source: str | os.PathLike[str],
    revision: str | None = None,
    ignore: Iterable[str] = (),
    *,
    own: bool = False,
) -> TokenizerDefinition:
    """Read a `tokenizer.json` from a file, a directory or a repository on the hub.

    See `find_or_download` and `load_tokenizer_json`.
    """
    path = find_or_download(source, TOKENIZER_FILE, revision)
    return load_tokenizer_json(path, ignore, own=own)


@collection_paused()
def load_tokenizer_json(
    path: str | os.PathLike[str], ignore: Iterable[str] = (), *, own: bool = False
) -> TokenizerDefinition:
    """Read a `tokenizer.json`.

    Args:
        path: File, or the directory that contains it.
        ignore: Parts to ignore. Must be keys of IGNORABLE.
        own: Whether to accept files with OWN_VERSION.

    Raises:
        FileNotFoundError: If the file does not exist.
        ValueError: If the file is malformed, or has a feature that `Tokenizer` does not have.
    """
    ignored = [ignore] if isinstance(ignore, str) else list(ignore)
    for name in ignored:
        if name not in [*IGNORABLE]:
            raise InputError(
                f"must contain only {', '.join(IGNORABLE)}, got {short_repr(name)}",
                argument="ignore",
            )
    path = Path(path)
    if path.is_dir() or not path.exists():
        path = path / TOKENIZER_FILE
    if not path.exists():
        raise FileNotFoundError(
            f"{path} does not exist; create it with `python -m cs336_basics train-bpe`"
        )
    with open_regular(path) as file:
        content = parse_json(file.read(), path, unique_keys)
    try:
        if isinstance(content, dict) and content.get("version") == OWN_VERSION:
            return _parse_own(content, own)
        return parse_tokenizer_json(content, ignored)
    except InputError as error:
        raise InputError(str(error), place=os.fspath(path)) from None


def _parse_own(content: dict[str, Any], own: bool) -> TokenizerDefinition:
    """Return the definition in a file with OWN_VERSION."""
    if not own:
        raise InputError("the file is not in Hugging Face's format", remedy="use from_directory")
    pattern: Any = content.get("pattern")
    special_tokens = list_in(content, "special_tokens")
    if not all(isinstance(text, str) for text in (pattern, *special_tokens)):
        raise InputError(
            f"pattern and special_tokens must be strings, got {short_repr(pattern)} and "
            f"{short_repr(special_tokens)}"
        )
    model = _object(content, "model")
    vocab = vocab_of_strings(_object(model, "vocab"))
    merges = merges_of_strings(list_in(model, "merges"), "merge {}".format)
    return TokenizerDefinition(vocab, merges, special_tokens, pattern, _ignore_merges(model))


def parse_tokenizer_json(content: Any, ignored: Sequence[str] = ()) -> TokenizerDefinition:
    """Convert the content of a `tokenizer.json` to a definition.

    Raises:
        ValueError: See `load_tokenizer_json`.
    """
    if not isinstance(content, dict):
        raise InputError(f"the file must contain an object, got a {type(content).__name__}")
    model = _object(content, "model")
    for key, why in IGNORABLE.items():
        if key not in ignored and not _does_nothing(key, content.get(key)):
            raise InputError(
                f"{key} {kind_of(content[key])} is not supported: {why}",
                remedy=("pass ", Argument("ignore", [key]), " to load the tokenizer without it"),
            )
    decoder = content.get("decoder")
    if not isinstance(decoder, dict) or decoder.get("type") != "ByteLevel":
        raise InputError(f"decoder must be ByteLevel, got {kind_of(decoder)}")
    pattern = pattern_of(content.get("pre_tokenizer"))
    special_tokens = _special_tokens(list_in(content, "added_tokens", default=[]))
    strings = _object(model, "vocab")
    next_id = len(strings)  # tokenizers ignores the file's ids and numbers the added tokens itself
    for token, token_id in special_tokens.items():
        if token in strings and strings_to_tokens([token]) not in ([None], [token.encode()]):
            raise InputError(
                f"added token {short_repr(token)} is also the token of other bytes in the "
                "vocabulary, written in GPT-2's byte alphabet",
                remedy="remove it from added_tokens",
            )
        theirs = strings.pop(token, next_id)
        if theirs != token_id:
            raise InputError(
                f"added token {short_repr(token)} has id {token_id}, but tokenizers gives it id "
                f"{short_repr(theirs)}",
                remedy="load the file with tokenizers and save it again",
            )
        next_id = max(next_id, token_id + 1)
    vocab = vocab_of_strings(strings)
    for token, token_id in special_tokens.items():
        add_token(vocab, token_id, token.encode())
    _check_model(model, vocab)
    merges = merges_of_strings(list_in(model, "merges"), "merge {}".format)
    return TokenizerDefinition(vocab, merges, list(special_tokens), pattern, _ignore_merges(model))


def _does_nothing(key: str, part: Any) -> bool:
    """Return whether a part of the file changes neither text nor ids. `key` is in IGNORABLE."""
    if not isinstance(part, dict):
        return part is None
    if key == "normalizer":
        return part.get("type") == "Sequence" and part.get("normalizers") == []
    if key != "post_processor":
        return False
    steps = list_in(part, "processors") if part.get("type") == "Sequence" else [part]
    return all(isinstance(step, dict) and _adds_nothing(step) for step in steps)


def _adds_nothing(post_processor: dict[str, Any]) -> bool:
    """Return whether a post-processor leaves the ids of a text unchanged."""
    if post_processor.get("type") == "TemplateProcessing":
        single = post_processor.get("single")  # a Sequence for the text, plus special tokens
        if not isinstance(single, list) or len(single) != 1:
            return False
        return isinstance(single[0], dict) and list(single[0]) == ["Sequence"]
    return post_processor.get("type") == "ByteLevel"  # changes only offsets


_NOT_PLAIN = {
    "dropout": "merges would be left out at random",
    "continuing_subword_prefix": "tokens would have a prefix within words",
    "end_of_word_suffix": "tokens would have a suffix at the end of words",
    "byte_fallback": "tokens would not be in GPT-2's byte alphabet",
    "unk_token": "bytes without a token would be encoded as this token",
}
"""Settings of models that are not plain byte-pair encoding, with their effects."""


def _check_model(model: dict[str, Any], vocab: Mapping[int, bytes]) -> None:
    """Raise ValueError unless a model is plain byte-pair encoding."""
    if model.get("type", "BPE") != "BPE":
        raise InputError(f"the model's type must be BPE, got {short_repr(model['type'])}")
    has_all_bytes = {bytes([byte]) for byte in range(256)}.issubset(vocab.values())
    for key, why in _NOT_PLAIN.items():
        value = model.get(key)
        if value and not (key == "unk_token" and has_all_bytes):
            raise InputError(f"the model's {key} {short_repr(value)} is not supported: {why}")


def _special_tokens(added: list[Any]) -> dict[str, int]:
    """Return a mapping of content -> id for the added tokens. All become special tokens."""
    found: dict[str, int] = {}
    normalized: dict[bool, list[str]] = {False: [], True: []}
    for token in added:
        content = token.get("content") if isinstance(token, dict) else None
        if not isinstance(content, str) or not content or type(token.get("id")) is not int:
            raise InputError(
                f"an added token must have a content and an id, got {short_repr(token)}"
            )
        for key in ("single_word", "lstrip", "rstrip"):
            if token.get(key):
                raise InputError(
                    f"added token {short_repr(content)} has {key}, which is not supported"
                )
        if content in found:
            raise InputError(f"added token {short_repr(content)} occurs twice")
        found[content] = token["id"]
        normalized[bool(token.get("normalized", False))].append(content)
    check_special_tokens(list(found))
    _check_overlaps(normalized[False], normalized[True])
    return found


_MAX_COMPARISONS = 1_000_000


def _check_overlaps(first: Sequence[str], second: Sequence[str]) -> None:
    """Reject two added tokens that may overlap in a text if only one of them is 'normalized'.

    tokenizers looks for 'normalized' tokens after all other tokens; Tokenizer always finds the
    leftmost token.

    Raises:
        ValueError: If two tokens may overlap, or there are too many to compare.
    """
    if sum(map(len, first)) * len(second) + sum(map(len, second)) * len(first) > _MAX_COMPARISONS:
        raise InputError(
            f"{len(first):,} added tokens are not 'normalized' and {len(second):,} are, which is "
            "too many to compare",
            remedy="make all or none of them 'normalized'",
        )
    for one in first:
        for other in second:
            if _may_overlap(one, other):
                raise InputError(
                    f"added tokens {short_repr(one)} and {short_repr(other)} may overlap, but only "
                    "the second is 'normalized', so the ids could differ"
                )


def _may_overlap(a: str, b: str) -> bool:
    """Return whether occurrences of two strings can overlap."""
    return (
        a in b
        or b in a
        or any(a.endswith(b[:n]) or b.endswith(a[:n]) for n in range(1, min(len(a), len(b))))
    )


def _ignore_merges(model: dict[str, Any]) -> bool:
    value = model.get("ignore_merges") or False
    if not isinstance(value, bool):
        raise InputError(f"ignore_merges must be true or false, got {short_repr(value)}")
    return value


def _object(parent: dict[str, Any], key: str) -> dict[str, Any]:
    value = parent.get(key)
    if not isinstance(value, dict):
        raise InputError(f"{key!r} must be an object, got {short_repr(value)}")
    return value


def runtime(directory: Path) -> tuple[str, Callable[[str], list[int]]]:
    """Load the files with transformers or tokenizers.

    Returns:
        The name of the library used, and its encode function.

    Raises:
        ImportError: If neither library is installed.
    """
    try:
        import transformers
    except ImportError:
        import tokenizers

        theirs = tokenizers.Tokenizer.from_file(str(directory / TOKENIZER_FILE))
        return f"tokenizers {tokenizers.__version__}", lambda text: theirs.encode(text).ids
    auto = transformers.AutoTokenizer.from_pretrained(str(directory), local_files_only=True)
    # With verbose=False, transformers does not warn about texts longer than the context.
    return (
        f"transformers {transformers.__version__}",
        lambda text: auto(text, verbose=False)["input_ids"],
    )
