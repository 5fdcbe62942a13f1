"""Write `tokenizer.json`, the format of Hugging Face's `tokenizers`, without that library.

`Tokenizer.save` writes this file, which contains everything that determines ids. The format was
checked with tokenizers 0.23.3 and transformers 5.23.0.

Other libraries would give different ids for some tokenizers, such as those without a token for
every byte. `save` writes such tokenizers with a different `version`, so that other libraries refuse
to read the file.

`loading.py` reads the file.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import cs336_basics
from cs336_basics._support.errors import InputError, InputTypeError
from cs336_basics._support.files import atomic_writer, json_text, named_directory
from cs336_basics._support.messages import short_reason, short_repr
from cs336_basics._support.paths import existing_directory
from cs336_basics._support.text import END_OF_TEXT
from cs336_basics.formats.byte_strings import strings_of_vocab, token_to_string
from cs336_basics.formats.huggingface.kept_files import CONFIG_FILE, files_to_keep
from cs336_basics.formats.huggingface.normalizers import normalizer_json
from cs336_basics.formats.huggingface.parsing import (
    OWN_VERSION,
    VERSION,
    check_always_found,
)
from cs336_basics.formats.huggingface.post_processors import post_processor_json
from cs336_basics.formats.huggingface.pretokenizers import pattern_of, pre_tokenizer_of
from cs336_basics.splitting.patterns.named_patterns import pattern_name, resolve_pattern
from cs336_basics.splitting.reference import unicode_version
from cs336_basics.tokenizer.definition import (
    TOKENIZER_FILE,
    TRAINING_FILE,
    TokenizerDefinition,
)
from cs336_basics.tokenizer.length_settings import LengthSettings

if TYPE_CHECKING:
    from cs336_basics.formats.agreement import Runtime
    from cs336_basics.tokenizer import Tokenizer


def save_tokenizer(
    tokenizer: Tokenizer,
    directory: str | os.PathLike[str],
    training: Mapping[str, Any] | None = None,
    keep_files: bool = False,
) -> None:
    """Write tokenizer.json, training.json and the files to keep; see `Tokenizer.save`."""
    definition = tokenizer.definition
    directory = named_directory(directory)
    record = _record(definition, training)
    kept = files_to_keep(tokenizer.loaded_from) if keep_files else {}
    existing = existing_directory(directory)
    if kept and existing is not None and Path(existing) == tokenizer.loaded_from:
        kept = {}  # they are there
    try:
        content = tokenizer_json(definition)
        _check_comes_back(definition.pattern, content["pre_tokenizer"])
    except InputError as error:
        content = _own_json(definition, str(error))
    with atomic_writer(Path(directory, TOKENIZER_FILE), "w") as file:
        file.write(_as_text(content))
    with atomic_writer(Path(directory, TRAINING_FILE), "w") as file:
        file.write(record)
    for name, data in kept.items():
        with atomic_writer(Path(directory, name)) as file:
            file.write(data)


def _record(definition: TokenizerDefinition, training: Mapping[str, Any] | None) -> str:
    """Return the content of training.json."""
    provenance = {
        "tokenizer_hash": definition.digest,
        "library_version": cs336_basics.__version__,
        # The Unicode version determines which characters are letters.
        "unicode_version": unicode_version(),
    }
    if training is None:
        return json_text(provenance)
    if not isinstance(training, Mapping):
        raise InputTypeError(f"must be a dict, got {short_repr(training)}", argument="training")
    try:
        return json_text({**provenance, **training})
    except (TypeError, ValueError) as error:  # ValueError: it contains itself
        raise InputTypeError(
            f"must contain only JSON values: {short_reason(error)}", argument="training"
        ) from None


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
    if definition.ignore_merges:
        strings = _without_last_added_tokens(strings, definition)
        check_always_found(
            definition.added_tokens, definition.normalizer, strings, lambda: definition.merges
        )
    return {
        "version": VERSION,
        **(definition.length_settings or LengthSettings())._asdict(),
        "added_tokens": [
            {
                "id": definition.added_ids[token.content],
                "content": token.content,
                **{flag: getattr(token, flag) for flag in _FLAGS},
            }
            for token in definition.added_tokens
        ],
        "normalizer": normalizer_json(definition.normalizer),
        "pre_tokenizer": pre_tokenizer_of(definition.pattern),
        "post_processor": post_processor_json(definition.post_processor, definition.vocab),
        "decoder": {
            "type": "ByteLevel",
            "add_prefix_space": True,
            "trim_offsets": True,
            "use_regex": True,
        },
        "model": _model_json(strings, definition),
    }


def _without_last_added_tokens(
    strings: dict[str, int], definition: TokenizerDefinition
) -> dict[str, int]:
    """Leave out added tokens that get their ids from tokenizers itself, after the others."""
    needed = {token for pair in definition.merges for token in (*pair, b"".join(pair))}
    last: set[str] = set()
    next_id = definition.size
    for text, token_id in reversed(definition.added_ids.items()):
        token = text.encode()
        if token_id != next_id - 1 or token in needed or len(token) == 1:
            break
        last.add(text)
        next_id -= 1
    if len(strings) - len(last) != next_id:  # there is an unused id, which tokenizers would use
        return strings
    return {text: token_id for text, token_id in strings.items() if text not in last}


_FLAGS = ("single_word", "lstrip", "rstrip", "normalized", "special")


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
    arguments = definition.arguments()
    own_ids = arguments["added_ids"]
    strings = {
        token_to_string(token): token_id
        for token_id, token in sorted(definition.vocab.items())
        if token_id not in own_ids.values()  # another id has the same bytes
    }
    content = {
        "version": OWN_VERSION,
        "why other libraries cannot read this": reason,
        "pattern": pattern_name(definition.pattern) or definition.pattern,
        "special_tokens": [
            token.content if token.is_plain else token._asdict()
            for token in definition.added_tokens
        ],
        "added_ids": own_ids,
        "normalizer": definition.normalizer,
        "post_processor": definition.post_processor,
        **(definition.length_settings or LengthSettings())._asdict(),
    }
    # Files without the newer parts stay as they were.
    return {
        **{key: value for key, value in content.items() if value not in (None, {})},
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
    definition: TokenizerDefinition,
    kept: Mapping[str, bytes],
    context_length: int | None = None,
    chat_template: str | None = None,
    **roles: str,
) -> dict[str, str | bytes]:
    """Return a mapping of file name -> content for the files that `AutoTokenizer` loads.

    Args:
        definition: Definition of the tokenizer.
        kept: Files to keep. They replace files of the same names.
        context_length: Maximum number of tokens in a sequence. Defaults to no limit.
        chat_template: Template of a conversation, in Jinja. Omitted if there are files to keep,
            which may have another one.
        roles: See `special_roles`.

    Raises:
        ValueError: See `tokenizer_json` and `special_roles`.
    """
    content = tokenizer_json(definition)
    config: dict[str, Any] = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "add_prefix_space": False,
        "clean_up_tokenization_spaces": False,
        # Generation continues a text at its end, so a batch must be padded at the start.
        "padding_side": "left",
        **special_roles(definition, roles),
        "added_tokens_decoder": {
            str(token["id"]): {key: token[key] for key in ("content", *_FLAGS)}
            for token in content["added_tokens"]
        },
    }
    if context_length is not None:
        config["model_max_length"] = context_length
    if chat_template is not None and not kept:
        config["chat_template"] = chat_template
    return {CONFIG_FILE: json_text(config), TOKENIZER_FILE: _as_text(content), **kept}


def runtime(directory: Path) -> Runtime:
    """Load the files with transformers or tokenizers.

    Raises:
        ImportError: If neither library is installed.
    """
    from cs336_basics.formats.agreement import Runtime

    try:
        import transformers
    except ImportError:
        import tokenizers

        theirs = tokenizers.Tokenizer.from_file(str(directory / TOKENIZER_FILE))
        theirs.no_truncation()
        theirs.no_padding()
        return Runtime(
            f"tokenizers {tokenizers.__version__}",
            lambda text: theirs.encode(text, add_special_tokens=False).ids,
            lambda ids, skip: str(theirs.decode(ids, skip_special_tokens=skip)),
        )
    auto = transformers.AutoTokenizer.from_pretrained(str(directory), local_files_only=True)
    # With verbose=False, transformers does not warn about texts longer than the context.
    return Runtime(
        f"transformers {transformers.__version__}",
        lambda text: auto(text, verbose=False, add_special_tokens=False)["input_ids"],
        lambda ids, skip: str(auto.decode(list(ids), skip_special_tokens=skip)),
    )
