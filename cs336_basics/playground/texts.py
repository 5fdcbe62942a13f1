"""Tokens of a text and merges of a word, as objects for the page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cs336_basics._support.errors import InputError
from cs336_basics._support.validation import Checked, build, option
from cs336_basics._support.visible import code_points
from cs336_basics.bpe.reference import split_bytes
from cs336_basics.tokenizer import (
    TextPart,
    Tokenizer,
    merge_steps,
    parts_of,
    tokens_of,
    visible_parts,
)
from cs336_basics.tokenizer.description import described_parts, shown_text

MOST_TEXT = 100_000
"""Maximum length of a text in characters."""
MOST_TOKENS = 5_000
"""Maximum number of tokens of a text that the page shows. All tokens are counted."""
MOST_WORD = 200
"""Maximum length in characters of a text whose merges are shown."""


def load_tokenizer(name: str) -> Tokenizer:
    """Load a tokenizer from a directory or `tokenizer.json` file, or a tiktoken encoding by name.

    Raises:
        FileNotFoundError, ValueError, OSError, ImportError: See `Tokenizer.from_directory` and
            `Tokenizer.from_tiktoken`.
    """
    path = Path(name)
    if (path / "tokenizer.json").is_file() or path.suffix == ".json":
        return Tokenizer.from_pretrained(path)
    if path.exists() or not name.isidentifier():
        exported = any(path.glob("*.tiktoken"))
        return Tokenizer.from_tiktoken(path) if exported else Tokenizer.from_directory(path)
    return Tokenizer.from_tiktoken(name)


@dataclass(kw_only=True)
class TextRequest(Checked):
    """A text and the number of a tokenizer."""

    text: str = option("the text")
    tokenizer: int = option("number of the tokenizer in the list", 0, ge=0)


class Texts:
    """Answers requests about texts.

    Args:
        tokenizers: Tokenizers by the names that the page shows.
    """

    def __init__(self, tokenizers: Mapping[str, Tokenizer]) -> None:
        self._tokenizers = list(tokenizers.values())
        self.names = list(tokenizers)

    def _read(self, asked: Mapping[str, Any], longest: int) -> tuple[Tokenizer, str]:
        request = build(TextRequest, asked)
        if request.tokenizer >= len(self._tokenizers):
            raise InputError(
                f"must be below {len(self._tokenizers)}, got {request.tokenizer}",
                argument="tokenizer",
            )
        check_length(request.text, longest)
        return self._tokenizers[request.tokenizer], request.text

    def tokens(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """Return the tokens of a text."""
        tokenizer, text = self._read(asked, MOST_TEXT)
        tokens = tokens_of(tokenizer, text)
        return {
            "tokens": [
                {
                    **shown_token(tokenizer, token.id),
                    "special": token.is_special,
                    "first": token.starts_word,
                }
                for token in tokens[:MOST_TOKENS]
            ],
            "num_tokens": len(tokens),
            "num_words": sum(token.starts_word for token in tokens),
            "num_characters": len(text),
            "num_bytes": len(text.encode()),
        }

    def parts(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """Return the parts of a tokenizer, and what each of them does to a text."""
        tokenizer, text = self._read(asked, MOST_TEXT)
        parts = parts_of(tokenizer, text)
        return {
            "tokenizer": described_parts(tokenizer.definition),
            "parts": [
                {
                    "part": part.part,
                    "start": part.start,
                    "stop": part.stop,
                    "tokens": [shown_token(tokenizer, token_id) for token_id in part.ids],
                    "merges": _shown_merges(part),
                    "change": _shown_change(text, part) if part.part == "normalizer" else None,
                }
                for part in parts[:MOST_TOKENS]
            ],
            "num_parts": len(parts),
        }

    def merges(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """Return the merges of each pre-token of a short text.

        A step replaces the two tokens at `position` with `result`.
        """
        tokenizer, text = self._read(asked, MOST_WORD)
        words = []
        for word in merge_steps(tokenizer, text):
            steps = []
            for rank, position, symbols in word.steps:
                left, right = tokenizer.merges[rank]
                result = shown(symbols[position])
                pair = [shown(left), shown(right)]
                steps.append({"rank": rank, "position": position, "pair": pair, "result": result})
            symbols = split_bytes(word.word) if word.kind == "merged" else (word.word,)
            words.append(
                {
                    "word": shown(word.word),
                    "kind": word.kind,
                    "symbols": [shown(symbol) for symbol in symbols],
                    "steps": steps,
                    "tokens": [shown_token(tokenizer, token_id) for token_id in word.ids],
                }
            )
        return {"words": words}


def check_length(text: str, longest: int) -> None:
    """Raise ValueError if a text is too long for the page."""
    if len(text) > longest:
        raise InputError(f"the text must have at most {longest:,} characters, got {len(text):,}")


def _shown_merges(part: TextPart) -> str:
    if part.part != "split":
        return ""
    return "whole" if part.is_whole else str(part.num_merges)


def _shown_change(text: str, part: TextPart) -> list[Any]:
    """Return a run before and after normalization: printable text and code points of each."""
    runs = text[part.start : part.stop], part.result
    return [[shown_text(run), code_points(run)] for run in runs]


def shown(token: bytes) -> list[list[str]]:
    """Return the parts of a token as pairs of printable text and kind; see `visible_parts`."""
    return [list(part) for part in visible_parts(token)]


def shown_token(tokenizer: Tokenizer, token_id: int) -> dict[str, Any]:
    """Return a token as an object with its id, parts and bytes."""
    token = tokenizer.vocab[token_id]
    return {"id": token_id, "parts": shown(token), "bytes": token.hex(" ")}
