"""Hugging Face's tokenizer.json, read: what passes gives the same ids, and the rest is refused."""

from __future__ import annotations

import copy
import itertools
import json
import random
import re
import time
import unicodedata

import pytest

from cs336_basics.formats.huggingface.tokenizer_json import parse_tokenizer_json, tokenizer_json
from cs336_basics.tokenizer import Tokenizer
from tests.formats.exported import PATTERNS, byte_tokenizer, chosen_texts, random_texts, trained
from tests.tokenizer.examples import END, TRAINING_TEXT, edited_merges

tokenizers = pytest.importorskip("tokenizers")


def content_of(tokenizer):
    return tokenizer_json(
        tokenizer.vocab, tokenizer.merges, tokenizer.special_tokens, tokenizer.pattern
    )


def changed(path, value, pattern="gpt2"):
    """The content of an exported tokenizer, with a value at a path such as model.dropout."""
    content = copy.deepcopy(content_of(trained(pattern)))
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


# What can be loaded gets the ids of tokenizers.


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


@pytest.mark.parametrize("backend", ["reference", "python", None])
def test_merges_in_any_order_give_the_same_ids(tmp_path, backend):
    for seed in range(60):
        vocab, merges = edited_merges(seed)
        vocab |= {
            1000 + byte: bytes([byte]) for byte in range(256) if bytes([byte]) not in vocab.values()
        }
        ours = Tokenizer(vocab, merges, backend=backend)
        path = saved(content_of(ours), tmp_path)
        theirs = tokenizers.Tokenizer.from_file(str(path))
        chooser = random.Random(seed)
        for length in (5, 20, 60, 150, 400):
            word = "".join(chooser.choices("abc", k=length))
            assert ours.encode(word) == theirs.encode(word).ids


SAME = {
    "merges as strings": lambda c: c["model"].update(
        merges=[" ".join(pair) for pair in c["model"]["merges"]]
    ),
    "no type of the model": lambda c: c["model"].pop("type"),
    "empty prefixes": lambda c: c["model"].update(
        continuing_subword_prefix="", end_of_word_suffix=""
    ),
    "no dropout": lambda c: c["model"].update(dropout=0.0),
    "an unknown token that never occurs": lambda c: c["model"].update(unk_token=END),
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
    "a sequence of no normalizers": lambda c: c.update(
        normalizer={"type": "Sequence", "normalizers": []}
    ),
    "normalized special tokens": lambda c: [t.update(normalized=True) for t in c["added_tokens"]],
    "ordinary added tokens": lambda c: [t.update(special=False) for t in c["added_tokens"]],
    "the published pattern as a split": lambda c: c.update(
        pre_tokenizer={"type": "Sequence", "pretokenizers": [
            {"type": "Split", "pattern": {"Regex":
                r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"},
             "behavior": "Isolated", "invert": False},
            {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True,
             "use_regex": False}]}
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SAME)
def test_harmless_differences_are_read(tmp_path, name):
    content = content_of(trained("gpt2"))
    SAME[name](content)
    path = saved(content, tmp_path)
    assert Tokenizer.from_huggingface(path).hash() == trained("gpt2").hash()
    theirs = tokenizers.Tokenizer.from_file(str(path))
    for text in chosen_texts():
        assert theirs.encode(text).ids == trained("gpt2").encode(text)


@pytest.mark.parametrize("pattern", ["llama3", "partial"])
def test_an_isolating_split_keeps_what_the_pattern_does_not_match(tmp_path, pattern):
    content = content_of(trained(pattern))
    content["pre_tokenizer"]["pretokenizers"][0].update(behavior="Isolated", invert=False)
    path = saved(content, tmp_path)
    ours, theirs = Tokenizer.from_huggingface(path), tokenizers.Tokenizer.from_file(str(path))
    for text in [*chosen_texts(), *random_texts(8, 300)]:
        ids = theirs.encode(text).ids
        assert ours.encode(text) == ids
        assert ours.decode(ids) == text


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_file_and_its_directory_are_read(tmp_path, pattern):
    path = saved(content_of(trained(pattern)), tmp_path)
    for source in (path, str(path), tmp_path):
        found = Tokenizer.from_huggingface(source, cache_size=0, backend="python")
        assert found.hash() == trained(pattern).hash()
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
    for text in [*chosen_texts(), *random_texts(9, 500), *map("".join, itertools.product(
        ["a", " ", "1", "'s", "'", "½", ".", "\n"], repeat=4
    ))]:  # fmt: skip
        pretokens = [
            word for word, _ in theirs.pre_tokenizer.pre_tokenize_str(text)
        ]  # in GPT-2's byte alphabet
        assert [len(word.encode()) for word in ours.splitter.pretokenize(text)] == list(
            map(len, pretokens)
        )
        assert ours.encode(text) == theirs.encode(text).ids
    # What is exported splits in the same way, and is read again.
    again = saved(content_of(ours), tmp_path)
    assert Tokenizer.from_huggingface(again).hash() == ours.hash()


@pytest.mark.parametrize("line_ends", [r"\r\n", "\r\n"], ids=["escaped", "literal"])
def test_the_three_steps_of_deepseek_v3_are_the_named_pattern(tmp_path, line_ends):
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
    with pytest.raises(ValueError, match=r"its pre_tokenizer \('Sequence'\) is unknown"):
        parse_tokenizer_json(content)


# What changes a text or its ids from outside can be ignored on request.


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
    for name in names:
        others = [other for other in names if other != name]
        with pytest.raises(ValueError, match=f"to load the tokenizer without it, .*{name}"):
            Tokenizer.from_huggingface(path, ignore=others)


def test_only_known_parts_can_be_ignored(tmp_path):
    path = saved(content_of(trained("gpt2")), tmp_path)
    with pytest.raises(ValueError, match="ignore has 'decoder': only normalizer, post_processor"):
        Tokenizer.from_huggingface(path, ignore=["decoder"])
    with pytest.raises(ValueError, match=r"ignore has \[\]: only normalizer"):
        Tokenizer.from_huggingface(path, ignore=[[]])
    for ignore in ("padding", b"padding", None, 5):
        expected = re.escape(f"ignore is {ignore!r}: pass a list, such as ['normalizer']")
        with pytest.raises(TypeError, match=expected):
            Tokenizer.from_huggingface(path, ignore=ignore)


# What cannot be done as the file says is refused, with the reason.

REFUSED = [
    ("normalizer", {"type": "NFC"}, "it has a normalizer ('NFC'): the text would be changed"),
    ("normalizer", {"type": "NFC"}, "without it, pass ignore=['normalizer']"),
    ("normalizer", {"type": "ByteLevel"}, "it has a normalizer ('ByteLevel')"),
    (
        "normalizer",
        {"type": "Sequence", "normalizers": [{"type": "NFC"}]},
        "it has a normalizer ('Sequence')",
    ),
    ("truncation", {"max_length": 5}, "it has a truncation (None): texts would be cut"),
    ("padding", {"strategy": "BatchLongest"}, "it has a padding"),
    ("model.type", "Unigram", "its model is 'Unigram': only BPE"),
    ("model.type", "WordPiece", "its model is 'WordPiece': only BPE"),
    ("model.dropout", 0.1, "its model has dropout 0.1: merges would be left out at random"),
    ("model.byte_fallback", True, "its model has byte_fallback True"),
    ("model.ignore_merges", "yes", "its model has ignore_merges 'yes', neither true nor false"),
    ("model.continuing_subword_prefix", "##", "continuing_subword_prefix '##'"),
    ("model.end_of_word_suffix", "</w>", "end_of_word_suffix '</w>'"),
    ("pre_tokenizer", None, "its pre_tokenizer (None) is unknown"),
    ("pre_tokenizer", {"type": "Whitespace"}, "its pre_tokenizer ('Whitespace') is unknown"),
    ("pre_tokenizer", {"type": "Metaspace"}, "its pre_tokenizer ('Metaspace') is unknown"),
    ("pre_tokenizer.type", "ByteLevels", "its pre_tokenizer ('ByteLevels') is unknown"),
    ("pre_tokenizer.add_prefix_space", True, "adds a space before the text"),
    ("pre_tokenizer.use_regex", False, "does not split text at all"),
    (
        "pre_tokenizer",
        {"type": "Sequence", "pretokenizers": [{"type": "Punctuation"}, {"type": "ByteLevel"}]},
        "its pre_tokenizer splits twice",
    ),
    (
        "pre_tokenizer",
        {
            "type": "Sequence",
            "pretokenizers": [{"type": "Digits"}, {"type": "ByteLevel", "use_regex": False}],
        },
        "its pre_tokenizer ('Sequence') is unknown",
    ),
    (
        "pre_tokenizer",
        {"type": "Sequence", "pretokenizers": [{"type": "ByteLevel"}] * 3},
        "its pre_tokenizer splits twice",
    ),
    (
        "pre_tokenizer",
        {"type": "Sequence", "pretokenizers": []},
        "its pre_tokenizer ('Sequence') is unknown",
    ),
    ("pre_tokenizer", {"type": "Sequence"}, "its 'pretokenizers' is None, not a list"),
    ("decoder", None, "its decoder is None: only ByteLevel"),
    ("decoder.type", "Metaspace", "its decoder is 'Metaspace': only ByteLevel"),
    (
        "post_processor",
        {"type": "TemplateProcessing", "single": []},
        "it has a post_processor ('TemplateProcessing'): it may add tokens to a text",
    ),
    (
        "post_processor",
        {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": END, "type_id": 0}}]},
        "it has a post_processor ('TemplateProcessing'): it may add tokens to a text",
    ),
    ("post_processor", {"type": "TemplateProcessing", "single": [5]}, "it has a post_processor"),
    ("post_processor", {"type": "BertProcessing"}, "pass ignore=['post_processor']"),
    (
        "post_processor",
        {"type": "Sequence", "processors": [{"type": "ByteLevel"}, {"type": "BertProcessing"}]},
        "it has a post_processor ('Sequence')",
    ),
    ("post_processor", {"type": "Sequence"}, "its 'processors' is None, not a list"),
    (
        "pre_tokenizer",
        {
            "type": "Sequence",
            "pretokenizers": [{"type": ["Split"]}, {"type": "ByteLevel", "use_regex": False}],
        },
        "its pre_tokenizer ('Sequence') is unknown",
    ),
    ("added_tokens.0.content", "<" * 1025, "has 1,025 bytes: it must have at most 1,024"),
    ("added_tokens.0.lstrip", True, "added token '<|endoftext|>' has lstrip"),
    ("added_tokens.0.rstrip", True, "added token '<|endoftext|>' has rstrip"),
    ("added_tokens.0.single_word", True, "added token '<|endoftext|>' has single_word"),
    ("added_tokens.0.content", "", "needs a content and an id"),
    ("added_tokens.0.content", KeyError, "needs a content and an id"),
    ("added_tokens.0.id", "256", "needs a content and an id"),
    ("added_tokens.0.id", 3, "has the id 256 in the vocabulary and 3 as an added token"),
    ("added_tokens.0", 7, "added token 7 needs a content"),
    ("added_tokens", {"a": 1}, "its 'added_tokens' is {'a': 1}, not a list"),
    ("added_tokens.1.content", END, "added token '<|endoftext|>' occurs twice"),
    ("model", [], "its 'model' is [], not an object"),
    ("model.vocab", [], "its 'vocab' is [], not an object"),
    ("model.vocab.a", "x", "the id of token 'a' is 'x', not an integer"),
    ("model.vocab.a", 98.0, "the id of token 'a' is 98.0, not an integer"),
    ("model.vocab.a", -1, "id -1 of 'a' is negative"),
    ("model.vocab.a", 10**30, "is above 4294967295"),
    ("model.vocab.a", 98, "have the same id 98"),
    ("model.vocab.猫", 9999, "token '猫' has the character '猫', which is not in GPT-2's"),
    ("model.merges", None, "its 'merges' is None, not a list"),
    ("model.merges.3", "a", "merge 3 is 'a', not a pair of tokens"),
    ("model.merges.3", ["a", 5], "merge 3 is ['a', 5], not a pair"),
    ("model.merges.3", ["a", "b c"], "merge 3: 'b c' has the character ' '"),
    ("model.merges.3", ["a", "\x00"], "merge 3: '\\x00' has the character"),
]


@pytest.mark.parametrize(("path", "value", "message"), REFUSED)
def test_what_cannot_be_represented_is_refused_with_the_reason(tmp_path, path, value, message):
    file = saved(changed(path, value), tmp_path)
    with pytest.raises(ValueError, match=re.escape(message)) as raised:
        Tokenizer.from_huggingface(file)
    assert str(raised.value).startswith(f"{file}: ")
    assert len(str(raised.value)) < 600


SPLITS = [
    ("behavior", "MergedWithNext", "with behavior 'MergedWithNext', invert False"),
    ("behavior", "Removed", "with behavior 'Removed', invert False"),
    ("invert", True, "with behavior 'Isolated', invert True"),
    ("pattern", {"String": " "}, "splits at {'String': ' '}"),
    ("pattern", {"Regex": 7}, "splits at {'Regex': 7}"),
    ("pattern", " ", "splits at ' '"),
    ("pattern", {"Regex": r"\w+"}, "has syntax that may mean something else here"),
    ("pattern", {"Regex": r"(?:a+)+b"}, "may take exponential time"),
]


@pytest.mark.parametrize(("key", "value", "message"), SPLITS)
def test_an_unknown_split_is_refused(key, value, message):
    content = changed(f"pre_tokenizer.pretokenizers.0.{key}", value, "cl100k")
    with pytest.raises(ValueError, match=re.escape(message)):
        parse_tokenizer_json(content)


@pytest.mark.parametrize("token", ["zz", "\u0100\u0101"])
def test_merges_of_unknown_tokens_are_refused_with_the_file(tmp_path, token):
    file = saved(changed("model.merges.3", ["a", token]), tmp_path)
    with pytest.raises(ValueError, match="merge 3 joins") as raised:
        Tokenizer.from_huggingface(file)
    assert str(file) in str(raised.value)


def test_an_unknown_token_matters_where_bytes_are_missing():
    content = changed("model.unk_token", END)
    content["model"]["vocab"].pop("Ā")
    with pytest.raises(ValueError, match=r"its model has unk_token '<\|endoftext\|>': bytes that"):
        parse_tokenizer_json(content)


def test_added_tokens_that_compete_differently_are_refused():
    """Those that are 'normalized' are looked for after the others, here all at once."""

    def content(first, second):
        found = content_of(byte_tokenizer(first, second))
        found["added_tokens"][1]["normalized"] = True
        return found

    for first, second in (("<ab>", "ab"), ("<ab", "b>"), ("xyz", "zx")):
        with pytest.raises(ValueError, match="overlap, and only the second is 'normalized'"):
            parse_tokenizer_json(content(first, second))
    assert parse_tokenizer_json(content("<a>", "<b>")).special_tokens == ["<a>", "<b>"]


def test_repeated_keys_are_refused(tmp_path):
    path = tmp_path / "tokenizer.json"
    path.write_text('{"model": {"vocab": {"a": 1, "a": 2}}}')
    with pytest.raises(ValueError, match="the key 'a' occurs twice"):
        Tokenizer.from_huggingface(path)


@pytest.mark.parametrize("text", ["", "[]", "7", "null", "{}", '{"model": {}}', "{" * 5000])
def test_other_json_is_refused(tmp_path, text):
    path = tmp_path / "tokenizer.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"tokenizer\.json"):
        Tokenizer.from_huggingface(path)


def test_hostile_files_take_time_in_proportion(tmp_path):
    """100,000 added tokens, half of them 'normalized', in some seconds."""
    content = content_of(trained("gpt2"))
    content["added_tokens"] = [
        {"id": 10_000 + i, "content": f"<{i}>", "normalized": i % 2 == 0} for i in range(100_000)
    ]
    start = time.perf_counter()
    with pytest.raises(ValueError, match=r"50,000 added tokens are not 'normalized'"):
        parse_tokenizer_json(content)
    assert time.perf_counter() - start < 10


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"tokenizer\.json does not exist: .* by from_gpt2"):
        Tokenizer.from_huggingface(tmp_path)
