"""Translate a `tokenizer.json`'s post_processor to templates of ids, and back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from cs336_basics._support.errors import Argument, InputError
from cs336_basics._support.messages import short_repr
from cs336_basics._support.vocabularies import MAX_ID
from cs336_basics.formats.huggingface.parts import kind_of, list_in, steps_of
from cs336_basics.tokenizer.post_processor import PostProcessor, Template

MAX_TEMPLATE = 1000
"""Maximum number of items in a template. A file may repeat a token that stands for many ids."""


def post_processor_of(content: Any) -> PostProcessor | None:
    """Return the templates of a post-processor, which keep its JSON.

    Raises:
        ValueError: If the post-processor is malformed or of an unknown kind.
    """
    if content is None:
        return None
    source = json.dumps(content, ensure_ascii=False)
    return PostProcessor(_template(content, "A"), _template(content, "AB"), source)


def post_processor_json(
    post_processor: PostProcessor | None, vocab: Mapping[int, bytes]
) -> dict[str, Any] | None:
    """Return the JSON of a post-processor: as it was read, or as a TemplateProcessing."""
    if post_processor is None:
        return None
    if post_processor.source:
        content: dict[str, Any] = json.loads(post_processor.source)
        return content
    names = {
        token_id: vocab[token_id].decode("utf-8", "replace")
        for token_id in sorted(post_processor.added_ids)
    }

    def pieces(template: Template) -> list[dict[str, Any]]:
        return [
            {"Sequence": {"id": item, "type_id": int(item == "B")}}
            if isinstance(item, str)
            else {"SpecialToken": {"id": names[item], "type_id": int("B" in template[:index])}}
            for index, item in enumerate(template)
        ]

    return {
        "type": "TemplateProcessing",
        "single": pieces(post_processor.single),
        "pair": pieces(post_processor.pair),
        "special_tokens": {
            name: {"id": name, "ids": [token_id], "tokens": [name]}
            for token_id, name in names.items()
        },
    }


def _template(content: Any, texts: str) -> Template:
    """Return the template that a post-processor applies to one text ("A") or to two ("AB").

    In tokenizers, each step changes a list of encodings, which are joined at the end.
    """
    parts: list[Template] = [(text,) for text in texts]
    is_changed = False
    for step in steps_of(content, "processors"):
        kind = step.get("type")
        if kind == "ByteLevel":  # changes only offsets
            continue
        if kind == "TemplateProcessing":
            if is_changed:
                raise InputError(
                    "post_processor TemplateProcessing after another post-processor is not "
                    "supported"
                )
            parts = _filled(step, "single" if texts == "A" else "pair")
        elif kind in ("RobertaProcessing", "BertProcessing"):
            start, end = (_token_id(step, key) for key in ("cls", "sep"))
            later: Template = (end,) if kind == "RobertaProcessing" else ()
            parts = [
                (*((start,) if index == 0 else later), *part, end)
                for index, part in enumerate(parts)
            ]
        else:
            raise InputError(
                f"post_processor {kind_of(step)} is not supported: it may add tokens to the text",
                remedy=(
                    "pass ",
                    Argument("ignore", ["post_processor"]),
                    " to load the tokenizer without it",
                ),
            )
        is_changed = True
    template = tuple(item for part in parts for item in part)
    if len(template) > MAX_TEMPLATE:
        raise _too_long()
    return template


def _too_long() -> InputError:
    return InputError(f"a post_processor may add at most {MAX_TEMPLATE:,} ids")


def _filled(step: dict[str, Any], key: str) -> list[Template]:
    """Return the pieces of a template, with the ids of its special tokens."""
    texts = "A" if key == "single" else "AB"
    tokens = step.get("special_tokens")
    tokens = tokens if isinstance(tokens, dict) else {}
    pieces = list_in(step, key)
    found: list[Template] = []
    length = 0
    for piece in pieces:
        (kind, value), *more = piece.items() if isinstance(piece, dict) and piece else [("", None)]
        name = value.get("id") if isinstance(value, dict) else None
        if kind == "Sequence" and name in ("A", "B") and name in texts and not more:
            found.append((name,))
        elif kind == "SpecialToken" and isinstance(name, str) and name in tokens and not more:
            token = tokens[name]
            ids = list_in(token, "ids") if isinstance(token, dict) else [None]
            found.append(tuple(map(_checked_id, ids)))
        else:
            raise InputError(f"post_processor: unknown piece {short_repr(piece)} in a template")
        length += len(found[-1])
        if length > MAX_TEMPLATE:
            raise _too_long()
    if missing := set(texts) - {item for part in found for item in part if isinstance(item, str)}:
        raise InputError(f"post_processor: the template {key!r} leaves out text {min(missing)}")
    return found


def _token_id(step: dict[str, Any], key: str) -> int:
    """Return the id of a token that is stored as [text, id]."""
    value = step.get(key)
    if not isinstance(value, list) or len(value) != 2:
        raise InputError(f"post_processor: {key!r} must be [token, id], got {short_repr(value)}")
    return _checked_id(value[1])


def _checked_id(value: Any) -> int:
    if type(value) is not int or not 0 <= value <= MAX_ID:
        raise InputError(f"post_processor: {short_repr(value)} is not an id")
    return value
