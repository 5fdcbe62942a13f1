"""A tokenizer.json file gives the same ids here and in tokenizers, or is rejected."""

from __future__ import annotations

import copy
import itertools
import json
import os
import random
import sys
import time
import unicodedata
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cs336_basics._support.errors import InputError, MissingFileError
from cs336_basics.formats import check_tokenizer, export_tokenizer
from cs336_basics.formats.huggingface.parsing import parse_tokenizer_json
from cs336_basics.formats.huggingface.tokenizer_json import tokenizer_json
from cs336_basics.tokenizer import Tokenizer
from cs336_basics.tokenizer.length_settings import LengthSettings
from tests.errors import rejects
from tests.formats.exported import PATTERNS, chosen_texts, random_texts, trained
from tests.tokenizer.examples import (
    BYTES,
    COURSE_MERGES,
    COURSE_VOCAB,
    END,
    TRAINING_TEXT,
    byte_tokenizer,
    edited_merges,
    small_tokenizer,
)
from tests.tokenizer.test_reference import characters_without_differences

tokenizers = pytest.importorskip("tokenizers")

EVERY_PATTERN = pytest.mark.parametrize("pattern", PATTERNS)

# ------------------------------------------------------------------ saved

# Tokenizers that have the same ids in other libraries (PORTABLE), and all others (OWN).
PORTABLE = {
    **{pattern: lambda pattern=pattern: trained(pattern) for pattern in PATTERNS},
    "no special tokens": lambda: byte_tokenizer(merges=[(b"a", b"b")]),
    "special tokens in any order": lambda: byte_tokenizer("b", "a", "<c>", "<b>"),
    "gaps": lambda: Tokenizer(
        {**{byte + (byte >= 100) * 7: bytes([byte]) for byte in range(256)},
         300: b"th", 500: END.encode(), 1000: b"the", (1 << 32) - 1: b"an"},
        [(b"t", b"h"), (b"th", b"e"), (b"a", b"n")], [END],
    ),
    "ignore_merges": lambda: Tokenizer({**BYTES, 256: b"ab"}, [], [END], ignore_merges=True),
    "merges in any order": lambda: Tokenizer(
        {**{i + 1000: token for i, token in BYTES.items()}, 0: b"ab", 1: b"bc", 2: b"abc"},
        [(b"ab", b"c"), (b"b", b"c"), (b"a", b"bc"), (b"a", b"b")],
    ),
}  # fmt: skip
OWN = {
    "the example from the course": lambda: Tokenizer(COURSE_VOCAB, COURSE_MERGES, [END]),
    "no tokens": lambda: Tokenizer({}, []),
    "a pattern of Python's regex": lambda: byte_tokenizer(pattern=r"\w+|\W"),
    "a pattern with an anchor": lambda: byte_tokenizer(pattern=r"[^ ]+|\s+$"),
    "another spelling of GPT-2's pattern": lambda: byte_tokenizer(
        pattern=r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
    ),
    "a special token that looks like bytes": lambda: byte_tokenizer("<é>"),
    "a special token that looks like a token": lambda: byte_tokenizer("Ġt", merges=[(b" ", b"t")]),
    "a special token that a merge makes": lambda: byte_tokenizer(" t", merges=[(b" ", b"t")]),
    "a special token that is a byte": lambda: byte_tokenizer(" ", "\n"),
}


def assert_comes_back(tokenizer, directory):
    tokenizer.save(directory)
    again = Tokenizer.from_directory(directory)
    assert again.definition == tokenizer.definition
    assert again.hash() == tokenizer.hash()
    assert Tokenizer.from_pretrained(directory).definition == tokenizer.definition
    return json.loads((Path(directory) / "tokenizer.json").read_text("utf-8"))


@pytest.mark.parametrize("name", PORTABLE)
def test_a_saved_tokenizer_can_be_read_here_and_by_tokenizers(tmp_path, name):
    ours = PORTABLE[name]()
    assert_comes_back(ours, tmp_path)
    assert Tokenizer.from_huggingface(tmp_path).hash() == ours.hash()
    theirs = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    for text in [*chosen_texts(), f"then the{END} ab bc abc<c><b>"]:
        assert_equal(ours, theirs, text)


@pytest.mark.parametrize("name", OWN)
def test_other_libraries_refuse_a_file_that_only_we_can_read(tmp_path, name):
    ours = OWN[name]()
    assert_comes_back(ours, tmp_path)
    with pytest.raises(Exception, match="version"):
        tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    with rejects(None, "from_directory"):
        Tokenizer.from_huggingface(tmp_path)
    if "another spelling" not in name:  # such a tokenizer is exported, but changes on import
        with pytest.raises(InputError):
            export_tokenizer(ours, "huggingface", tmp_path / "out")
        assert not (tmp_path / "out").exists()


@given(
    tokens=st.lists(st.binary(min_size=1, max_size=3), unique=True, max_size=9),
    special=st.lists(st.sampled_from([*"aéĠ \n", "ab", "Ġt", "Ã©", "<|x|>"]), unique=True),
    all_bytes=st.booleans(),
    data=st.data(),
)
@settings(max_examples=60, deadline=None)
def test_any_tokenizer_can_be_saved_and_read(tmp_path_factory, tokens, special, all_bytes, data):
    tokens = list(dict.fromkeys([*(BYTES.values() if all_bytes else ()), *tokens]))
    pairs = [
        (token[:cut], token[cut:])
        for token in tokens for cut in range(1, len(token))
        if token[:cut] in tokens and token[cut:] in tokens
    ]  # fmt: skip
    merges = data.draw(st.permutations(pairs))
    vocab = {3 * index + 1: token for index, token in enumerate(tokens)}
    tokenizer = Tokenizer(vocab, merges, special, ignore_merges=data.draw(st.booleans()))
    assert_comes_back(tokenizer, tmp_path_factory.mktemp("saved"))


def test_training_json_is_written_and_never_read(tmp_path):
    tokenizer = small_tokenizer()
    tokenizer.save(tmp_path / "new" / "folder", {"corpus": "stories"})
    path = tmp_path / "new" / "folder" / "training.json"
    training = json.loads(path.read_text("utf-8"))
    assert training["corpus"] == "stories"
    assert training["tokenizer_hash"] == tokenizer.hash()
    assert sorted(os.listdir(path.parent)) == ["tokenizer.json", "training.json"]
    path.write_text("{")
    assert Tokenizer.from_directory(path.parent).hash() == tokenizer.hash()
    path.unlink()
    file = path.with_name("tokenizer.json")
    assert Tokenizer.from_directory(file).hash() == tokenizer.hash()


@pytest.mark.parametrize("training", [True, [1], {"a": {1, 2}}, {"a": np.int64(3)}, {(1, 2): 3}])
def test_a_training_record_that_json_cannot_represent_leaves_no_files(tmp_path, training):
    with rejects("training"):
        trained("gpt2").save(tmp_path / "new", training)
    assert not (tmp_path / "new").exists()


def test_a_directory_without_a_tokenizer_is_refused_with_advice(tmp_path):
    for load in (Tokenizer.from_directory, Tokenizer.from_huggingface):
        with rejects(None, tmp_path, "train-bpe", kind=MissingFileError):
            load(tmp_path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="POSIX only")
def test_a_fifo_is_refused(tmp_path):
    os.mkfifo(tmp_path / "tokenizer.json")  # opening it could wait forever for a writer
    for use in (Tokenizer.from_directory, small_tokenizer().save):
        with rejects(None, "tokenizer.json"):
            use(tmp_path)


BAD_OWN = [
    ("pattern", None),
    ("pattern", "("),
    ("special_tokens", END),
    ("special_tokens", [1]),
    ("special_tokens", [""]),
    ("model", None),
    ("model.vocab.a", -1),
    ("model.merges", [["a", "zz"]]),
    ("model.ignore_merges", "no"),
]


@pytest.mark.parametrize(("path", "value"), BAD_OWN)
def test_a_damaged_file_that_only_we_can_read_is_refused(tmp_path, path, value):
    Tokenizer({0: b"a", 1: b"b", 2: b"ab"}, [(b"a", b"b")], [END]).save(tmp_path)
    file = tmp_path / "tokenizer.json"
    file.write_text(json.dumps(edited(json.loads(file.read_text("utf-8")), path, value)), "utf-8")
    with rejects(None, place=tmp_path):
        Tokenizer.from_directory(tmp_path)


# ------------------------------------------------------------------ exported


def content_of(tokenizer):
    return tokenizer_json(tokenizer.definition)


def loaded(tokenizer, directory):
    export_tokenizer(tokenizer, "huggingface", directory)
    return tokenizers.Tokenizer.from_file(str(directory / "tokenizer.json"))


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """Return a dict that maps each pattern's name to our tokenizer and the exported tokenizer."""
    return {
        name: (trained(name), loaded(trained(name), tmp_path_factory.mktemp("export") / name))
        for name in PATTERNS
    }


def assert_equal(ours, theirs, text):
    ids, offsets = ours.encode_with_offsets(text)
    found = theirs.encode(text)
    assert found.ids == ids, text
    assert found.offsets == offsets, text
    assert theirs.decode(ids, skip_special_tokens=False) == ours.decode(ids), text


@EVERY_PATTERN
def test_random_texts_have_equal_ids_text_and_offsets(exported, pattern):
    for text in random_texts(0, 200):
        assert_equal(*exported[pattern], text)


@pytest.mark.parametrize("step", [331, pytest.param(7, marks=pytest.mark.slow)])
@EVERY_PATTERN
def test_characters_have_equal_ids_in_every_context(exported, pattern, step):
    ours, theirs = exported[pattern]
    # Put each character before and after an apostrophe, a letter, a number, whitespace and
    # punctuation.
    characters = characters_without_differences()[::step]
    for start in range(0, len(characters), 4096):
        part = characters[start : start + 4096]
        text = "".join(f"'{c}s 's{c}1{c}\n{c}." for c in part)
        assert theirs.encode(text).ids == ours.encode(text)


def test_autotokenizer_has_the_special_tokens_and_decodes_the_ids(tmp_path):
    transformers = pytest.importorskip("transformers")
    for number, tokenizer in enumerate((trained("gpt2"), byte_tokenizer())):
        directory = tmp_path / str(number)
        export_tokenizer(tokenizer, "huggingface", directory)
        theirs = transformers.AutoTokenizer.from_pretrained(directory, local_files_only=True)
        end = END if tokenizer.special_tokens else None
        assert (theirs.eos_token, theirs.pad_token, theirs.bos_token) == (end, end, None)
        assert theirs.eos_token_id == tokenizer.token_to_id(END)
        assert theirs.is_fast
        assert len(theirs) == tokenizer.vocab_size
        for text in chosen_texts():
            assert theirs.decode(tokenizer.encode(text)) == text


def test_the_check_uses_tokenizers_if_transformers_is_not_installed(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    export_tokenizer(trained("gpt2"), "huggingface", tmp_path)
    agreement = check_tokenizer(trained("gpt2"), "huggingface", tmp_path)
    assert agreement.runtime == f"tokenizers {tokenizers.__version__}"
    assert agreement.lines[0].startswith("ids equal on 25 texts, ")


# ------------------------------------------------------------------ read


def changed(path, value, pattern="gpt2"):
    """Return the content of an export with a changed value at a path such as model.dropout."""
    return edited(copy.deepcopy(content_of(trained(pattern))), path, value)


def edited(content, path, value):
    *parents, key = path.split(".")
    part = content
    for parent in parents:
        part = part[int(parent) if parent.isdigit() else parent]
    if value is KeyError:
        del part[key]
    else:
        part[int(key) if key.isdigit() else key] = value
    return content


def saved(content, directory):
    path = directory / "tokenizer.json"
    path.write_text(json.dumps(content), "utf-8")
    return path


# Tokenizers read from a file give the same ids here and in the `tokenizers` library.


def test_a_tokenizer_trained_by_tokenizers_gives_the_same_ids(tmp_path):
    theirs = tokenizers.Tokenizer(tokenizers.models.BPE())
    theirs.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    theirs.decoder = tokenizers.decoders.ByteLevel()
    theirs.post_processor = tokenizers.processors.ByteLevel(trim_offsets=False)
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=600,
        special_tokens=[END, "<pad>", "<|im start|>"],
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    theirs.train_from_iterator(TRAINING_TEXT.splitlines(True), trainer)
    theirs.save(str(tmp_path / "tokenizer.json"))
    ours = Tokenizer.from_huggingface(tmp_path)
    assert ours.special_tokens == [END, "<pad>", "<|im start|>"]
    for text in [*chosen_texts(), *random_texts(7, 500), f"a<pad> <|im start|>b{END}"]:
        encoding = theirs.encode(text)
        assert encoding.ids == ours.encode(text)
        assert theirs.decode(encoding.ids, skip_special_tokens=False) == ours.decode(encoding.ids)


def test_merges_in_any_order_give_the_same_ids(tmp_path):
    for seed in range(60):
        ours = Tokenizer(*edited_merges(seed))
        path = saved(content_of(ours), tmp_path)
        theirs = tokenizers.Tokenizer.from_file(str(path))
        chooser = random.Random(seed)
        for length in (5, 20, 60, 150, 400):
            word = "".join(chooser.choices("abc", k=length))
            assert ours.encode(word) == theirs.encode(word).ids


SAME = {
    "merges as lists": lambda c: c["model"].update(
        merges=[merge.split(" ") for merge in c["model"]["merges"]]
    ),
    "a model without a type": lambda c: c["model"].pop("type"),
    "empty prefixes": lambda c: c["model"].update(
        continuing_subword_prefix="", end_of_word_suffix=""
    ),
    "no dropout": lambda c: c["model"].update(dropout=0.0),
    "an unknown token that is never used": lambda c: c["model"].update(unk_token=END),
    "a byte-level post-processor": lambda c: c.update(
        post_processor={"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": False,
                        "use_regex": True}
    ),
    "several byte-level post-processors": lambda c: c.update(
        post_processor={"type": "Sequence", "processors": [
            {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": False}] * 2}
    ),
    "a template that adds nothing": lambda c: c.update(
        post_processor={"type": "TemplateProcessing",
                        "single": [{"Sequence": {"id": "A", "type_id": 0}}],
                        "pair": [{"Sequence": {"id": "A", "type_id": 0}},
                                 {"Sequence": {"id": "B", "type_id": 1}}],
                        "special_tokens": {}}
    ),
    "an empty sequence of normalizers": lambda c: c.update(
        normalizer={"type": "Sequence", "normalizers": []}
    ),
    "no decoder": lambda c: c.update(decoder=None),
    "a decoder that joins what is joined": lambda c: c.update(
        decoder={"type": "Sequence", "decoders": [c["decoder"], {"type": "Fuse"}]}
    ),
    "an added token that is repeated": lambda c: c.update(
        added_tokens=[*c["added_tokens"], dict(c["added_tokens"][0])]
    ),
    "no version": lambda c: c.pop("version"),
    "the reading order of flags": lambda c: c.update(
        added_tokens=[dict(reversed(token.items())) for token in c["added_tokens"]]
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SAME)
def test_harmless_differences_are_accepted(tmp_path, name):
    content = content_of(trained("gpt2"))
    SAME[name](content)
    path = saved(content, tmp_path)
    assert Tokenizer.from_huggingface(path).hash() == trained("gpt2").hash()
    theirs = tokenizers.Tokenizer.from_file(str(path))
    for text in chosen_texts():
        assert theirs.encode(text).ids == trained("gpt2").encode(text)


@pytest.mark.parametrize("pattern", ["llama3", "partial"])
def test_an_isolating_split_keeps_text_that_the_pattern_does_not_match(tmp_path, pattern):
    content = content_of(trained(pattern))
    content["pre_tokenizer"]["pretokenizers"][0].update(behavior="Isolated", invert=False)
    path = saved(content, tmp_path)
    ours, theirs = Tokenizer.from_huggingface(path), tokenizers.Tokenizer.from_file(str(path))
    for text in [*chosen_texts(), *random_texts(8, 300)]:
        ids = theirs.encode(text).ids
        assert ours.encode(text) == ids
        assert ours.decode(ids) == text


def test_a_file_and_its_directory_are_read(tmp_path):
    path = saved(content_of(trained("gpt2")), tmp_path)
    for source in (path, str(path), tmp_path):
        found = Tokenizer.from_huggingface(source, cache_size=0, backend="python")
        assert found.hash() == trained("gpt2").hash()
        assert (found.cache_size, found.backend) == (0, "python")


def pre_tokenizers(*steps, use_regex):
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
    return {"type": "Sequence", "pretokenizers": [*steps, {**byte_level, "use_regex": use_regex}]}


def isolated(expression):
    return {
        "type": "Split",
        "pattern": {"Regex": expression},
        "behavior": "Isolated",
        "invert": False,
    }


@pytest.mark.parametrize("individual", [True, False])
def test_numbers_are_cut_out_before_gpt2_splits(tmp_path, individual):
    digits = {"type": "Digits", "individual_digits": individual}
    content = changed("pre_tokenizer", pre_tokenizers(digits, use_regex=True))
    path = saved(content, tmp_path)
    ours, theirs = Tokenizer.from_huggingface(path), tokenizers.Tokenizer.from_file(str(path))
    for text in [*chosen_texts(), *random_texts(9, 200), *map("".join, itertools.product(
        ["a", " ", "1", "'s", "'", "½", ".", "\n"], repeat=3
    ))]:  # fmt: skip
        pretokens = [
            word for word, _ in theirs.pre_tokenizer.pre_tokenize_str(text)
        ]  # written in GPT-2's byte alphabet
        assert [len(word.encode()) for word in ours.splitter.pretokenize(text)] == list(
            map(len, pretokens)
        )
        assert ours.encode(text) == theirs.encode(text).ids
    # The export can be imported again.
    again = saved(content_of(ours), tmp_path)
    assert Tokenizer.from_huggingface(again).hash() == ours.hash()


def byte_level(use_regex=True, add_prefix_space=False):
    return {"type": "ByteLevel", "add_prefix_space": add_prefix_space, "trim_offsets": True,
            "use_regex": use_regex}  # fmt: skip


CHANGES_TEXT = {
    "Whitespace": [{"type": "Whitespace"}, byte_level()],
    "words with a space": [{"type": "Whitespace"}, byte_level(add_prefix_space=True)],
    "WhitespaceSplit": [{"type": "WhitespaceSplit"}, byte_level(use_regex=False)],
    "BertPreTokenizer": [{"type": "BertPreTokenizer"}, byte_level(use_regex=False)],
    "CharDelimiterSplit": [{"type": "CharDelimiterSplit", "delimiter": "e"}, byte_level()],
    "Removed": [{**isolated(r"\p{N}"), "behavior": "Removed"}, byte_level()],
    "kept": [{**isolated(r"\p{L}+"), "behavior": "Removed", "invert": True}, byte_level()],
}


@pytest.mark.parametrize("name", CHANGES_TEXT)
def test_a_pre_tokenizer_that_removes_text_gives_the_same_ids_with_a_warning(tmp_path, name):
    content = changed("pre_tokenizer", {"type": "Sequence", "pretokenizers": CHANGES_TEXT[name]})
    path = saved(content, tmp_path)
    with pytest.warns(UserWarning, match="decode"):
        ours = Tokenizer.from_huggingface(path)
    check_as_theirs(ours, path, tmp_path)
    with rejects(None, "tiktoken"):
        export_tokenizer(ours, "tiktoken", tmp_path / "out")


@pytest.mark.parametrize("use_regex", [True, False])
def test_a_space_before_each_text_is_added_by_compiled_code(tmp_path, use_regex):
    content = changed("pre_tokenizer", byte_level(use_regex, add_prefix_space=True))
    path = saved(content, tmp_path)
    ours = Tokenizer.from_huggingface(path)
    assert ours.decode(ours.encode("Hello")) == " Hello"
    assert ours.encode("Hello") == ours.encode(" Hello")
    assert ours.encoder.releases_gil
    check_as_theirs(ours, path, tmp_path)
    for other in ("tiktoken", "gpt2"):
        with pytest.raises(InputError):
            export_tokenizer(ours, other, tmp_path / other)


def check_as_theirs(ours, path, directory):
    """Compare ids, offsets and decoded text with tokenizers, also after saving."""
    theirs = tokenizers.Tokenizer.from_file(str(path))
    theirs.post_processor = None
    ours.save(directory / "again")
    again = tokenizers.Tokenizer.from_file(str(directory / "again" / "tokenizer.json"))
    for text in [*chosen_texts(), *random_texts(9, 200), f"a{END}b c{END} d"]:
        found = theirs.encode(text)
        assert ours.encode_with_offsets(text) == (found.ids, found.offsets)
        assert ours.encode(text) == found.ids
        assert again.encode(text).ids == found.ids
        assert ours.decode(found.ids) == theirs.decode(found.ids, skip_special_tokens=False)


def test_words_of_a_fixed_length_are_cut(tmp_path):
    fixed = {"type": "FixedLength", "length": 3}
    path = saved(changed("pre_tokenizer", pre_tokenizers(fixed, use_regex=True)), tmp_path)
    ours = Tokenizer.from_huggingface(path)
    assert ours.splitter.has_scanner
    check_as_theirs(ours, path, tmp_path)


@pytest.mark.parametrize("line_ends", [r"\r\n", "\r\n"], ids=["escaped", "literal"])
def test_the_three_steps_of_deepseek_v3_become_the_named_pattern(tmp_path, line_ends):
    steps = [
        r"\p{N}{1,3}",
        "[一-龥\u3040-ゟ゠-ヿ]+",
        r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+"""
        rf"|[^{line_ends}\p{{L}}\p{{P}}\p{{S}}]?[\p{{L}}\p{{M}}]+"
        rf"| ?[\p{{P}}\p{{S}}]+[{line_ends}]*|\s*[{line_ends}]+|\s+(?!\S)|\s+",
    ]
    content = content_of(trained("deepseek-v3"))
    content["pre_tokenizer"] = pre_tokenizers(*map(isolated, steps), use_regex=False)
    path = saved(content, tmp_path)
    ours, theirs = Tokenizer.from_huggingface(path), tokenizers.Tokenizer.from_file(str(path))
    assert ours.hash() == trained("deepseek-v3").hash()
    for text in [*chosen_texts(), *random_texts(10, 500)]:
        assert ours.encode(text) == theirs.encode(text).ids
    content["pre_tokenizer"]["pretokenizers"][1] = isolated("[一-龥]+")
    path = saved(content, tmp_path)
    ours, theirs = Tokenizer.from_huggingface(path), tokenizers.Tokenizer.from_file(str(path))
    assert ours.splitter.has_scanner
    for text in [*chosen_texts(), *random_texts(10, 50)]:
        assert ours.encode(text) == theirs.encode(text).ids


# The caller can choose to ignore parts of a file that change the text or the ids.


def test_parts_of_the_file_are_ignored_on_request(tmp_path):
    content = content_of(trained("llama3"))
    content["normalizer"] = {"type": "NFC"}
    content["truncation"] = {
        "direction": "Right", "max_length": 3, "strategy": "LongestFirst", "stride": 0,
    }  # fmt: skip
    content["padding"] = {
        "strategy": {"Fixed": 8}, "direction": "Right", "pad_to_multiple_of": None,
        "pad_id": 256, "pad_type_id": 0, "pad_token": END,
    }  # fmt: skip
    content["post_processor"] = {
        "type": "TemplateProcessing",
        "single": [
            {"SpecialToken": {"id": END, "type_id": 0}},
            {"Sequence": {"id": "A", "type_id": 0}},
        ],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 0}}],
        "special_tokens": {END: {"id": END, "ids": [256], "tokens": [END]}},
    }
    path = saved(content, tmp_path)
    names = ["normalizer", "post_processor", "truncation", "padding"]
    ours = Tokenizer.from_huggingface(path, ignore=names)
    assert ours.hash() == trained("llama3").hash()
    theirs = tokenizers.Tokenizer.from_file(str(path))
    theirs.no_truncation()
    theirs.no_padding()
    for text in chosen_texts():
        text = unicodedata.normalize("NFC", text)
        assert ours.encode(text) == theirs.encode(text, add_special_tokens=False).ids
    for name in ("truncation", "padding"):
        others = [other for other in names if other != name]
        settings = Tokenizer.from_huggingface(path, ignore=others).definition.length_settings
        assert settings == LengthSettings(**{name: content[name]})


def test_only_known_parts_can_be_ignored(tmp_path):
    path = saved(content_of(trained("gpt2")), tmp_path)
    for name in ("decoder", []):
        with rejects("ignore", repr(name)):
            Tokenizer.from_huggingface(path, ignore=[name])


# Features that Tokenizer does not support are rejected, and the message gives the reason.


def sequence(*pretokenizers):
    return {"type": "Sequence", "pretokenizers": [*pretokenizers]}


def template(*single):
    return {"type": "TemplateProcessing", "single": [*single]}


def bert(**changes):
    return {"type": "BertProcessing", "cls": ["<s>", 1], "sep": ["</s>", 2], **changes}


BYTE_LEVEL = {"type": "ByteLevel"}
NO_REGEX = {"type": "ByteLevel", "use_regex": False}
REFUSED = [
    ("normalizer", {"type": "Lowercase"}, "'Lowercase'"),
    ("normalizer", {"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "NFD"}]}, "NFD"),
    ("normalizer", {"type": ["NFC"]}, "['NFC']"),
    ("normalizer", {"type": "Sequence", "normalizers": 5}, "'normalizers'"),
    ("truncation", 5, "5"),
    ("truncation", {"max_length": 5}, "stride of the truncation cannot be None"),
    ("padding", {"strategy": "BatchLongest"}, "direction of the padding cannot be None"),
    ("model.type", "Unigram", "(Unigram)"),
    ("model.dropout", 0.1, "dropout 0.1"),
    ("model.type", "WordPiece", "BERT"),
    ("model.type", ["BPE"], "['BPE']"),
    ("model.byte_fallback", True, "byte_fallback"),
    ("model.ignore_merges", "yes", "'yes'"),
    ("model.continuing_subword_prefix", "##", "continuing_subword_prefix '##'"),
    ("model.end_of_word_suffix", "</w>", "end_of_word_suffix '</w>'"),
    ("pre_tokenizer", None, "None"),
    ("pre_tokenizer", {"type": "Whitespace"}, "'Whitespace'"),
    ("pre_tokenizer.type", "ByteLevels", "'ByteLevels'"),
    ("pre_tokenizer.add_prefix_space", 1, "add_prefix_space"),
    ("pre_tokenizer", sequence({"type": "Metaspace"}, NO_REGEX), "replaces spaces"),
    ("pre_tokenizer", sequence({"type": "UnicodeScripts"}, NO_REGEX), "script"),
    ("pre_tokenizer", sequence({"type": "FixedLength", "length": 0}, NO_REGEX), "length"),
    (
        "pre_tokenizer",
        sequence({"type": "CharDelimiterSplit", "delimiter": "ab"}, NO_REGEX),
        "'ab'",
    ),
    ("pre_tokenizer", sequence(BYTE_LEVEL, {"type": "Digits"}), "'Digits'"),
    ("pre_tokenizer", sequence({"type": "Punctuation", "behavior": []}, NO_REGEX), "[]"),
    ("pre_tokenizer", sequence(*[isolated("[ab]+")] * 10_000, NO_REGEX), "10,001"),
    ("pre_tokenizer", sequence(), "pre_tokenizer"),
    ("pre_tokenizer", sequence(5), "pretokenizers"),
    ("pre_tokenizer", {"type": "Sequence"}, "'pretokenizers'"),
    ("pre_tokenizer", sequence({"type": ["Split"]}, NO_REGEX), "pre_tokenizer"),
    ("version", "2.0", "version '2.0' of the format is unknown"),
    ("decoder", 5, "decoder"),
    ("decoder", {"type": "Fuse"}, "'Fuse'"),
    ("decoder.type", "Metaspace", "'Metaspace'"),
    ("post_processor", {"type": "Other"}, "ignore=['post_processor']"),
    ("post_processor", template(), "post_processor"),
    ("post_processor", bert(cls=["<s>", 10**6]), "1000000"),
    ("post_processor", bert(cls=["<s>", "1"]), "'1'"),
    ("post_processor", bert(sep=7), "7"),
    ("post_processor", template({"SpecialToken": {"id": END, "type_id": 0}}), "post_processor"),
    ("post_processor", template(5), "post_processor"),
    ("post_processor", {"type": "Sequence", "processors": [BYTE_LEVEL, {"type": "BertProcessing"}]},
     "'cls'"),
    ("post_processor", {"type": "Sequence"}, "'processors'"),
    ("added_tokens.0.lstrip", "yes", "'yes'"),
    ("added_tokens.0.content", "", "content"),
    ("added_tokens.0.content", KeyError, "content"),
    ("added_tokens.0.content", "ab" * 10**6, "ababab"),
    ("added_tokens.0.id", "256", "'256'"),
    ("added_tokens.0.id", 3, "id 3"),
    ("added_tokens.0", 7, "7"),
    ("added_tokens", {"a": 1}, "{'a': 1}"),
    ("added_tokens.1.content", END, END),
    ("model", [], "'model'"),
    ("model.vocab", [], "'vocab'"),
    ("model.vocab.a", "x", "b'a'"),
    ("model.vocab.a", -1, "-1"),
    ("model.vocab.a", 10**30, "4294967295"),
    ("model.vocab.a", 98, "id 98"),
    ("model.vocab.猫", 9999, "'猫'"),
    ("model.merges", None, "'merges'"),
    ("model.merges.3", "a", "'a'"),
    ("model.merges.3", ["a", 5], "['a', 5]"),
    ("model.merges.3", ["a", "\x00"], "['a', '\\x00']"),
]  # fmt: skip


@pytest.mark.parametrize(("path", "value", "shown"), REFUSED)
def test_an_unsupported_feature_is_refused_with_the_reason(tmp_path, path, value, shown):
    file = saved(changed(path, value), tmp_path)
    with rejects(None, shown, place=file) as raised:
        Tokenizer.from_huggingface(file)
    assert len(str(raised.value)) < 600


SPLITS = [
    ("behavior", "Dropped", "Removed"),
    ("behavior", "Shuffled", "'Shuffled'"),
    ("behavior", ["Isolated"], "['Isolated']"),
    ("invert", "no", "'no'"),
    ("pattern", {"String": ""}, "{'String': ''}"),
    ("pattern", {"Regex": 7}, "{'Regex': 7}"),
    ("pattern", {"Regex": "a", "String": "b"}, "'String': 'b'"),
    ("pattern", " ", "' '"),
    ("pattern", {"Regex": r"\w+"}, r"\\w+"),
    ("pattern", {"Regex": "(a+)*b" * 5000}, "10,000"),
]


@pytest.mark.parametrize(("key", "value", "shown"), SPLITS)
def test_an_unknown_split_is_refused(tmp_path, key, value, shown):
    content = changed(f"pre_tokenizer.pretokenizers.0.{key}", value, "cl100k")
    content["pre_tokenizer"]["pretokenizers"][0].setdefault("behavior", "Isolated")
    with rejects(None, shown):
        Tokenizer.from_huggingface(saved(content, tmp_path))


@pytest.mark.parametrize("token", ["zz", "\u0100\u0101"])
def test_merges_of_unknown_tokens_are_refused_with_the_file(tmp_path, token):
    file = saved(changed("model.merges.3", ["a", token]), tmp_path)
    with rejects(None, "merge 3", place=file):
        Tokenizer.from_huggingface(file)


def test_an_unknown_token_is_refused_if_bytes_are_missing():
    content = changed("model.unk_token", END)
    content["model"]["vocab"].pop("Ā")
    with rejects(None, "unk_token", "'<|endoftext|>'"):
        parse_tokenizer_json(content)


def with_added_tokens(*added):
    """Return the file of a byte vocabulary, with added tokens that may be missing from it."""
    content = content_of(byte_tokenizer())
    content["added_tokens"] = [
        {"id": token_id, "content": text, "special": True, "normalized": False}
        | dict.fromkeys(("single_word", "lstrip", "rstrip"), False)
        for text, token_id in added
    ]
    return content


@pytest.mark.parametrize(
    ("added", "accepted"),
    [
        ([("<a>", 256), ("<b>", 257)], True),
        ([("<a>", 257)], False),
        ([("<b>", 257), ("<a>", 256)], False),
        ([("a", 97), ("<a>", 256)], True),
    ],
)
def test_added_tokens_need_the_ids_that_tokenizers_gives_them(added, accepted):
    content = with_added_tokens(*added)
    theirs = tokenizers.Tokenizer.from_str(json.dumps(content))
    ids = [theirs.encode(text).ids for text, _ in added]
    assert accepted == (ids == [[token_id] for _, token_id in added])
    if accepted:
        parts = parse_tokenizer_json(content)
        assert {parts.vocab[token_id].decode() for _, token_id in added} == set(dict(added))
    else:
        with rejects(None, f"id {ids[0][0]}"):
            parse_tokenizer_json(content)


@pytest.mark.parametrize("token", ["é", "Ġ", "Ã"])
def test_an_added_token_that_spells_another_token_is_refused(token):
    content = with_added_tokens()
    theirs = tokenizers.Tokenizer.from_str(json.dumps(content))
    theirs.add_tokens([token])
    with rejects(None, f"'{token}'"):
        parse_tokenizer_json(json.loads(theirs.to_str()))


def test_repeated_keys_are_refused(tmp_path):
    path = tmp_path / "tokenizer.json"
    path.write_text('{"model": {"vocab": {"a": 1, "a": 2}}}')
    with rejects(None, "'a'"):
        Tokenizer.from_huggingface(path)


@pytest.mark.parametrize("text", ["", "[]", "7", "null", "{}", '{"model": {}}', "{" * 5000])
def test_other_json_is_refused(tmp_path, text):
    path = tmp_path / "tokenizer.json"
    path.write_text(text)
    with rejects(None, place="tokenizer.json"):
        Tokenizer.from_huggingface(path)


def test_many_added_tokens_are_read_in_time():
    content = content_of(trained("gpt2"))
    content["model"]["ignore_merges"] = True
    texts = [f"<{i}>" for i in range(50_000)]
    content["model"]["vocab"] |= {text: 1500 + i for i, text in enumerate(texts)}
    flags = ("normalized", "single_word")
    content["added_tokens"] += [
        {"id": 1500 + i, "content": text} | dict.fromkeys(flags, i % 2 == 0)
        for i, text in enumerate(texts)
    ]
    start = time.process_time()
    with rejects(None, "ignore_merges"):
        parse_tokenizer_json(content)
    content["model"]["ignore_merges"] = False
    ours = Tokenizer.of(parse_tokenizer_json(content))
    assert ours.encode("a<7> <8>") == [97, 1507, 32, 1508]
    assert time.process_time() - start < 10


def test_a_template_that_repeats_many_ids_is_refused_in_time():
    token = {"SpecialToken": {"id": "x", "type_id": 0}}
    content = changed("post_processor", template(*[token] * 30_000))
    content["post_processor"]["special_tokens"] = {"x": {"ids": [0] * 100_000}}
    start = time.process_time()
    with rejects(None, "1,000"):
        parse_tokenizer_json(content)
    assert time.process_time() - start < 1


@pytest.mark.parametrize("load", [Tokenizer.from_directory, Tokenizer.from_huggingface])
def test_a_path_may_start_with_the_home_directory(load, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME" if os.name != "nt" else "USERPROFILE", str(tmp_path))
    tokenizer = Tokenizer({byte: bytes([byte]) for byte in range(256)}, [])
    tokenizer.save("~/tokenizer")
    assert load("~/tokenizer").hash() == tokenizer.hash()
