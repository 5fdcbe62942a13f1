"""Random `tokenizer.json` files, made of the components that this library reads."""

from __future__ import annotations

import random
import unicodedata
from typing import Any

from cs336_basics._support.byte_alphabet import byte_to_character
from tests.texts import TEXTS
from tests.tokenizer.test_reference import characters_without_differences, without_differences

WORDS = [
    *("<s>", "</s>", "<think>", "<|x|>", "  ", "    ", "\n\n", "ab", "a", "é", "e\u0301", "Å", "ﬁ"),
    *("The", "<mask>", "猫", "1", " a", "b ", "|>", "<|", "\u00a0", "X_"),
]
"""Contents of added tokens. Many of them overlap."""

FRAGMENTS = [
    *WORDS,
    *"abeTx <>|_1'.\n",
    *(" \t", "\r\n", "e\u0301", "\u212b", "ﬁn", "½", "²", "٣", "'s", " the", "The", "猫の"),
    *("\uff11\uff12\uff13", "12345", "---", "\u3000", "🎉", "ạ\u030a", "각"),
]

MERGES = ["a b", "Ġ a", "t h", "th e", "Ġ the", "Ġ Ġ", "ĠĠ ĠĠ", "Ã ©", "1 2", "Ċ Ċ", "- -", "i n",
          "ab ab", "Ġ T", "T h", "Ì ģ", "e Ìģ", "ç Į", "çĮ «"]  # fmt: skip

REGEXES = [r"\p{N}", r"\p{N}{1,3}", r"\p{L}+", r"[\r\n]", r"\s+", r"\s+(?!\S)|\s+", "a", "[一-龥]+",
           r" ?[^\s\p{L}\p{N}]+", r"[!-/:-@]+", r"\p{P}", r"\s?[A-Za-z]+", r"[^ ]+"]  # fmt: skip

BEHAVIORS = ["Isolated", "Contiguous", "MergedWithPrevious", "MergedWithNext", "Removed"]


def random_file(chooser: random.Random) -> dict[str, Any]:
    """Return the content of a random file."""
    vocab = {byte_to_character()[byte]: byte for byte in range(256)}
    merges = chooser.sample(MERGES, chooser.randint(0, len(MERGES)))
    merges = [merge for merge in MERGES if merge in merges]
    kept = []
    for merge in merges:
        if all(part in vocab for part in merge.split(" ")):
            vocab[merge.replace(" ", "")] = len(vocab)
            kept.append(merge)
    added = []
    for content in chooser.sample(WORDS, chooser.randint(0, 9)):
        if content in vocab and not content.isascii():
            continue  # a token of other bytes
        composed = unicodedata.normalize("NFC", content)
        if not composed.isascii() and set(composed) <= set(byte_to_character().values()):
            continue  # tokenizers decodes it to other bytes
        in_vocab = chooser.random() < 0.3
        if in_vocab and not added:
            vocab.setdefault(content, len(vocab))
        added.append(content)
    next_id = len(vocab)
    tokens = []
    for content in added:
        token_id = vocab.get(content)
        if token_id is None:
            token_id, next_id = next_id, next_id + 1
        else:
            next_id = max(next_id, token_id + 1)
        tokens.append(
            {"id": token_id, "content": content}
            | {
                flag: chooser.random() < 0.3
                for flag in ("single_word", "lstrip", "rstrip", "normalized", "special")
            }
        )
    ids = [token["id"] for token in tokens] or [0]
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": tokens,
        "normalizer": _normalizer(chooser),
        "pre_tokenizer": _pre_tokenizer(chooser),
        "post_processor": _post_processor(chooser, ids),
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True,
                    "use_regex": True},
        "model": {
            "type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
            "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False,
            "ignore_merges": chooser.random() < 0.3, "vocab": vocab, "merges": kept,
        },
    }  # fmt: skip


def random_text(chooser: random.Random) -> str:
    """Return a random text where added tokens, whitespace and scripts meet."""
    characters = characters_without_differences()
    if chooser.random() < 0.1:
        text = chooser.choice(list(TEXTS.values()))
        start = chooser.randrange(len(text) + 1)
        return without_differences(text[start : start + 60])
    return "".join(
        chooser.choice(FRAGMENTS) if chooser.random() < 0.9 else chooser.choice(characters)
        for _ in range(chooser.randint(0, 14))
    )


def _normalizer(chooser: random.Random) -> Any:
    forms = [{"type": form} for form in ("NFC", "NFD", "NFKC", "NFKD")]
    return chooser.choice(
        [None, None, *forms, {"type": "Sequence", "normalizers": chooser.sample(forms, 1)}]
    )


def _pre_tokenizer(chooser: random.Random) -> Any:
    def byte_level(use_regex: bool) -> dict[str, Any]:
        return {"type": "ByteLevel", "add_prefix_space": chooser.random() < 0.2,
                "trim_offsets": True, "use_regex": use_regex}  # fmt: skip

    def step() -> dict[str, Any]:
        kind = chooser.choice(["Digits", "Punctuation", *["Split"] * 3, "String", "Other"])
        if kind == "Other":
            kind = chooser.choice(
                ["Whitespace", "WhitespaceSplit", "BertPreTokenizer", "CharDelimiterSplit",
                 "FixedLength"]
            )  # fmt: skip
            if kind == "CharDelimiterSplit":
                return {"type": kind, "delimiter": chooser.choice(" _.a\n猫")}
            if kind == "FixedLength":
                return {"type": kind, "length": chooser.randint(1, 5)}
            return {"type": kind}
        if kind == "Digits":
            return {"type": "Digits", "individual_digits": chooser.random() < 0.5}
        if kind == "Punctuation":
            return {"type": "Punctuation", "behavior": chooser.choice(BEHAVIORS)}
        pattern = (
            {"Regex": chooser.choice(REGEXES)}
            if kind == "Split"
            else {"String": chooser.choice([" ", "a", "\n", ".", "|>"])}
        )
        return {"type": "Split", "pattern": pattern, "behavior": chooser.choice(BEHAVIORS),
                "invert": chooser.random() < 0.3}  # fmt: skip

    steps = [step() for _ in range(chooser.choice([0, 0, 1, 1, 2, 3]))]
    last = byte_level(chooser.random() < 0.6)
    return {"type": "Sequence", "pretokenizers": [*steps, last]} if steps else last


def _post_processor(chooser: random.Random, ids: list[int]) -> Any:
    def piece(name: str) -> dict[str, Any]:
        kind = "Sequence" if name in "AB" else "SpecialToken"
        return {kind: {"id": name, "type_id": 0}}

    byte_level = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": False,
                  "use_regex": True}  # fmt: skip
    template = {
        "type": "TemplateProcessing",
        "single": [*map(piece, chooser.choice(["A", "xA", "xAy", "Ay"]))],
        "pair": [*map(piece, chooser.choice(["AB", "xAyB", "xAyyBy", "BxA"]))],
        "special_tokens": {
            name: {"id": name, "ids": chooser.choices(ids, k=count), "tokens": [name] * count}
            for name, count in (("x", 1), ("y", chooser.randint(1, 2)))
        },
    }
    pair = {"sep": ["</s>", chooser.choice(ids)], "cls": ["<s>", chooser.choice(ids)]}
    roberta = {"type": "RobertaProcessing", **pair, "trim_offsets": False, "add_prefix_space": True}
    bert = {"type": "BertProcessing", **pair}
    one = chooser.choice([template, roberta, bert])
    return chooser.choice(
        [None, byte_level, one, {"type": "Sequence", "processors": [byte_level, one]}]
    )
