"""The tokenizers of known model families behave the same here and in tokenizers.

Each built file has the components of a family's `tokenizer.json` and a small vocabulary, which
tokenizers trains with these components. Two real files are tested if CS336_TOKENIZERS names the
directory that contains them, compressed with xz.
"""

from __future__ import annotations

import base64
import json
import lzma
import os
import warnings
from pathlib import Path

import pytest

from cs336_basics.formats import check_tokenizer, export_tokenizer
from cs336_basics.formats.foreign_patterns import to_oniguruma
from cs336_basics.splitting.patterns.named_patterns import GPT2
from cs336_basics.tokenizer import Tokenizer
from tests.formats.exported import chosen_texts, random_texts
from tests.texts import TEXTS, long_text
from tests.tokenizer.examples import END

tokenizers = pytest.importorskip("tokenizers")


def byte_level(use_regex=True):
    # With trim_offsets, a post-processor leaves whitespace out of offsets. Tokenizer never does.
    return {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False,
            "use_regex": use_regex}  # fmt: skip


def sequence(*steps):
    return {"type": "Sequence", "pretokenizers": [*steps]}


def split(pattern, behavior="Isolated", invert=False):
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": behavior, "invert": invert}


def splits(*patterns):
    return sequence(*map(split, patterns), byte_level(use_regex=False))


def digits(individual):
    return {"type": "Digits", "individual_digits": individual}


def added(content, **flags):
    names = ("single_word", "lstrip", "rstrip", "normalized", "special")
    return {"content": content, **dict.fromkeys(names, False), **flags}


def template(single, pair, **ids):
    def pieces(names):
        return [
            {"Sequence" if name in "AB" else "SpecialToken": {"id": name, "type_id": 0}}
            for name in names
        ]

    return {
        "type": "TemplateProcessing", "single": pieces(single), "pair": pieces(pair),
        "special_tokens": {name: {"id": name, "ids": [number], "tokens": [name]}
                           for name, number in ids.items()},
    }  # fmt: skip


NFC = {"type": "NFC"}
SPECIAL = [added("<s>", special=True), added("</s>", special=True)]
SPACES = [added(" " * number, normalized=True) for number in range(24, 1, -1)]
MASK = added("<mask>", special=True, lstrip=True)
BLOOM = " ?[^(\\s|[.,!?…。，、।۔،])]+"
ROBERTA = {"type": "RobertaProcessing", "sep": ["</s>", 1], "cls": ["<s>", 0],
           "trim_offsets": False, "add_prefix_space": False}  # fmt: skip
V3 = [
    r"\p{N}{1,3}",
    "[一-龥\u3040-ゟ゠-ヿ]+",
    r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"""
    r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
]
V2 = [
    r"[\r\n]",
    r"\s?[A-Za-zµÀ-ÖØ-öø-ƺ]+",
    "\\s?[!-/:-~！-／：-～‘-‟\u3000-。]+",
    r"\s+$",
    "[一-龥ࠀ-一가-\ud7ff]+",
]

# name: pre_tokenizer, normalizer, post_processor, added tokens
FAMILIES = {
    "GPT-2": (byte_level(), None, byte_level(), [added(END, special=True)]),
    "RoBERTa": (byte_level(), None, ROBERTA, [*SPECIAL, MASK]),
    "GPT-NeoX, Pythia, OLMo": (byte_level(), NFC, byte_level(), [*SPECIAL, *SPACES]),
    "CodeGen": (byte_level(), None, byte_level(), [added(END, special=True), *SPACES]),
    "StarCoder, SmolLM": (sequence(digits(True), byte_level()), None, None, SPECIAL),
    "Command-R": (sequence(digits(True), byte_level()), NFC, template("sA", "sAsB", s=0), SPECIAL),
    "Falcon": (
        sequence({"type": "Punctuation", "behavior": "Contiguous"}, byte_level(), digits(False),
                 split("[0-9][0-9][0-9]")),
        None, None, SPECIAL,
    ),
    "BLOOM": (splits(BLOOM), None, byte_level(), SPECIAL),
    "Llama 3": (
        splits(to_oniguruma("llama3")), None,
        {"type": "Sequence", "processors": [byte_level(), template("sA", "sAsB", s=0)]},
        SPECIAL,
    ),
    "Llama 4, gpt-oss": (splits(to_oniguruma("o200k")), None, None, SPECIAL),
    "Qwen 2 and 3": (
        splits(to_oniguruma("qwen2")), NFC, byte_level(),
        [*SPECIAL, added("<think>"), added("</think>")],
    ),
    "Phi-4": (
        sequence(split(to_oniguruma("llama3"), "Removed", True), byte_level(False)), None, None,
        [added("<|im_start|>", special=True, lstrip=True, rstrip=True), *SPECIAL],
    ),
    "DeepSeek V3": (splits(*V3), None, template("sA", "sAsB", s=0),
                    [*SPECIAL, added("｜DSML｜", normalized=True),
                     added("<｜/table>｜", special=True)]),
    "DeepSeek V2": (
        sequence(*map(split, V2), digits(True), byte_level(False)), None, None, SPECIAL,
    ),
    "ModernBERT": (byte_level(), NFC, template("sAt", "sAtBt", s=0, t=1),
                   [*SPECIAL, added("[MASK]", special=True, lstrip=True), *SPACES[:5]]),
}  # fmt: skip

CAPITALS, SMALL = r"\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}", r"\p{Ll}\p{Lm}\p{Lo}\p{M}"
LETTERS = r"[^\r\n\p{L}\p{N}]?"
NEMOTRON = (
    rf"{LETTERS}[{CAPITALS}]*[{SMALL}]+|{LETTERS}[{CAPITALS}]+[{SMALL}]*|\p{{N}}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
EXAONE = (
    rf"(?i:'s|'t|'re|'ve|'m|'ll|'d)|{LETTERS}(?:\p{{L}}\p{{M}}*(?: \p{{L}}\p{{M}}*)*)+|\p{{N}}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]?|\s*[\r\n]|\s+(?!\S)|\s+"
)
WITH_SIMILAR_PARTS = {
    "Whisper": (byte_level(), None, template("stA", "stAstB", s=0, t=1),
                [*SPECIAL, *(added(f"<|{i / 50:.2f}|>") for i in range(100))]),
    "Mistral": (splits(to_oniguruma("o200k")), None, template("sA", "sAB", s=0),
                [*SPECIAL, added("[INST]", special=True), added("[/INST]", special=True)]),
    "OLMo 2": (byte_level(), NFC, byte_level(),
               [added("|||IP_ADDRESS|||", normalized=True), *SPACES, added(END, special=True)]),
    "GPT-J": (byte_level(), None, byte_level(),
              [added(END, special=True, normalized=True),
               *(added(f"<|extratoken_{i}|>", normalized=True) for i in range(1, 20))]),
    "Phi-2": (byte_level(), None, byte_level(),
              [added(END, special=True),
               *(added(blank * n) for blank in " \t" for n in range(31, 1, -1))]),
    "SmolLM3": (splits(to_oniguruma("llama3")), None, None,
                [*SPECIAL, added("<think>"), added("<|im_start|>", special=True)]),
    "Falcon 3": (sequence(digits(True), byte_level()), None, None,
                 [*SPECIAL, added("<|assistant|>", special=True, normalized=True)]),
    "DeepSeek R1": (splits(*V3), None,
                    template("sA", "sAsB", s=0),
                    [*SPECIAL, added("<｜User｜>", normalized=True),
                     added("<think>", normalized=True)]),
    "Nemotron": (splits(NEMOTRON), None, template("sA", "sAsB", s=0), SPECIAL),
    "EXAONE": (splits(EXAONE), NFC, byte_level(), [*SPECIAL, added("[|user|]", special=True)]),
}  # fmt: skip
"""Families whose parts occur in the families above, in other combinations."""


def built(name, directory):
    """Write the file of a family, and return its path."""
    found = (FAMILIES | WITH_SIMILAR_PARTS)[name]
    pre_tokenizer, normalizer, post_processor, tokens = found
    content = {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": [],
        "normalizer": normalizer, "pre_tokenizer": pre_tokenizer, "post_processor": None,
        "decoder": byte_level(),
        "model": {"type": "BPE", "vocab": {}, "merges": []},
    }  # fmt: skip
    theirs = tokenizers.Tokenizer.from_str(json.dumps(content))
    names = ("<s>", "</s>") if tokens[0] in SPECIAL else ()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=900,
        show_progress=False,
        special_tokens=[tokenizers.AddedToken(name, special=True) for name in names],
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
    )
    theirs.train_from_iterator([*TEXTS.values(), long_text(1, 20_000)], trainer)
    for token in tokens:
        flags = dict(token)
        theirs.add_tokens([tokenizers.AddedToken(flags.pop("content"), **flags)])
    content = json.loads(theirs.to_str())
    content["post_processor"] = post_processor
    path = directory / "tokenizer.json"
    path.write_text(json.dumps(content), "utf-8")
    return path


def texts(number=150):
    code = "def f(x):\n    if x:\n\treturn  [1234, 56]   # 7\n\n\n        pass\n"
    return [*chosen_texts(), *random_texts(11, number), code, f"a<s>b</s> <mask> c{END}  ",
            "e\u0301",
            "<think>\n x</think>｜DSML｜<｜/table>｜ [MASK]\t <|im_start|> \n"]  # fmt: skip


def assert_same(ours, theirs, some_texts):
    for text in some_texts:
        expected = theirs.encode(text, add_special_tokens=False)
        ids, offsets = ours.encode_with_offsets(text)
        assert ids == expected.ids, text
        assert offsets == expected.offsets, text
        assert ours.encode(text) == ids, text
        for skip in (False, True):
            decoded = theirs.decode(ids, skip_special_tokens=skip)
            assert ours.decode(ids, skip_special_tokens=skip) == decoded, text
        assert ours(text)["input_ids"] == theirs.encode(text).ids
        assert ours(text, "b c")["input_ids"] == theirs.encode(text, "b c").ids


SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in WITH_SIMILAR_PARTS]


@pytest.mark.parametrize("number", [50, pytest.param(150, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", [*FAMILIES, *SLOW])
def test_a_family_behaves_the_same_here_and_when_it_is_saved_again(tmp_path, name, number):
    path = built(name, tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ours = Tokenizer.from_pretrained(path)
        ours.save(tmp_path / "saved")
        again = Tokenizer.from_pretrained(tmp_path / "saved")
    assert ours.splitter.has_scanner
    assert (again.definition, again.hash()) == (ours.definition, ours.hash())
    read = json.loads(path.read_text("utf-8"))
    written = json.loads((tmp_path / "saved" / "tokenizer.json").read_text("utf-8"))
    for part in ("added_tokens", "normalizer", "post_processor"):
        assert written[part] == read[part]
    for file in (path, tmp_path / "saved" / "tokenizer.json"):
        assert_same(ours, tokenizers.Tokenizer.from_file(str(file)), texts(number))


def test_an_export_is_checked_with_transformers(tmp_path):
    pytest.importorskip("transformers")
    for name in ("Qwen 2 and 3", "Llama 3", "CodeGen", "RoBERTa"):
        directory = tmp_path / name
        directory.mkdir()
        ours = Tokenizer.from_pretrained(built(name, directory))
        export_tokenizer(ours, "huggingface", directory / "out")
        assert check_tokenizer(ours, "huggingface", directory / "out").lines
        config = json.loads((directory / "out" / "tokenizer_config.json").read_text("utf-8"))
        for token in ours.definition.added_tokens:
            written = config["added_tokens_decoder"][str(ours.definition.added_ids[token.content])]
            assert written == token._asdict()


def test_a_falcon_file_with_tokens_that_its_numbers_would_split_is_refused(tmp_path):
    path = built("Falcon", tmp_path)
    content = json.loads(path.read_text("utf-8"))
    content["model"]["vocab"]["Â²"] = len(content["model"]["vocab"])  # the bytes of a superscript
    content["model"]["merges"].append(["Â", "²"])
    path.write_text(json.dumps(content), "utf-8")
    with pytest.raises(ValueError, match="Falcon"):
        Tokenizer.from_pretrained(path)


def test_the_pattern_of_kimi_intersects_sets():
    tiktoken = pytest.importorskip("tiktoken")
    mark = r"&&[^\p{Han}]"
    upper, lower = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}"
    start, end = r"[^\r\n\p{L}\p{N}]?", r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    pattern = (
        rf"[\p{{Han}}]+|{start}{upper}{mark}]*{lower}{mark}]+{end}"
        rf"|{start}{upper}{mark}]+{lower}{mark}]*{end}"
        r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    )
    ranks = {bytes([byte]): byte for byte in range(256)}
    for token in (b"th", b"the", b" t", b"he", "猫".encode()[:2], "猫".encode(), b"12", b"  "):
        ranks[token] = len(ranks)
    encoding = tiktoken.Encoding("kimi", pat_str=pattern, mergeable_ranks=ranks, special_tokens={})
    ours = Tokenizer.from_tiktoken(encoding)
    assert ours.splitter.has_scanner
    for text in [*texts(), "漢字HTMLの猫abc猫's猫X"]:
        assert ours.encode(text) == encoding.encode(text)


# ------------------------------------------------------------------ real files


def real_file(name, directory):
    """Return the path of an uncompressed real file, or skip the test."""
    path = Path(os.environ.get("CS336_TOKENIZERS", ""), name + ".xz")
    if not path.is_file():
        pytest.skip(f"needs {path.name}: set CS336_TOKENIZERS to its directory")
    (directory / name).write_bytes(lzma.decompress(path.read_bytes()))
    return directory / name


def test_the_real_file_of_gpt_neox(tmp_path):
    path = real_file("neox_20b_tokenizer.json", tmp_path)
    ours, theirs = Tokenizer.from_pretrained(path), tokenizers.Tokenizer.from_file(str(path))
    ours.save(tmp_path / "saved")
    again = tokenizers.Tokenizer.from_file(str(tmp_path / "saved" / "tokenizer.json"))
    for other in (theirs, again):
        other.post_processor = tokenizers.processors.ByteLevel(trim_offsets=False)
        assert_same(ours, other, texts())


def test_the_real_file_of_whisper(tmp_path):
    tiktoken = pytest.importorskip("tiktoken")
    path = real_file("whisper_multilingual.tiktoken", tmp_path)
    ours = Tokenizer.from_tiktoken(path, {END: 50257}, pattern="gpt2")
    ranks = dict(map(bytes.split, path.read_bytes().splitlines()))
    ranks = {base64.b64decode(token): int(rank) for token, rank in ranks.items()}
    encoding = tiktoken.Encoding(
        "whisper", pat_str=GPT2, mergeable_ranks=ranks, special_tokens={END: 50257}
    )
    for text in texts():
        assert ours.encode(text) == encoding.encode(text, allowed_special="all")
