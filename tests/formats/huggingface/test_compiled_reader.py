"""The compiled reader of `tokenizer.json` gives what the JSON parser gives, or the same error.

The compiled reader accepts the usual form of a file and leaves all others to the JSON parser. So
each file here is loaded twice, with and without it, and the definitions or the errors are compared.
"""

from __future__ import annotations

import json
import random

import pytest

from cs336_basics._support.errors import InputError
from cs336_basics.formats.byte_strings import read_vocabulary, token_to_string
from cs336_basics.formats.huggingface import loading
from cs336_basics.tokenizer import AddedToken, Tokenizer
from tests.tokenizer.examples import BYTES, END, byte_tokenizer, small_tokenizer

pytestmark = pytest.mark.skipif(
    read_vocabulary(b'{"model": {"vocab": {}, "merges": []}}') is None,
    reason="the extension is not built",
)


def outcome(path):
    """Return what a file is, or the error that loading it raises."""
    try:
        definition = loading.load_tokenizer_json(path, own=True)
    except InputError as error:
        return type(error), str(error)
    return definition.arguments(), definition.digest, definition.byte_ids, definition.added_ids


@pytest.fixture
def compare(tmp_path, monkeypatch):
    """Return a function that loads a content in both ways and says whether it was read compiled."""
    path = tmp_path / "tokenizer.json"

    def compare(content):
        if not isinstance(content, bytes):
            content = json.dumps(content).encode()
        path.write_bytes(content)
        compiled = []
        parse = loading.parse_tokenizer_json

        def recorded(content, ignored, file):
            definition = parse(content, ignored, file)
            compiled.append(file is not None)
            return definition

        with monkeypatch.context() as patch:
            patch.setattr(loading, "parse_tokenizer_json", recorded)
            found = outcome(path)
        with monkeypatch.context() as patch:
            patch.setattr(loading, "read_vocabulary", lambda data: None)
            assert found == outcome(path)
        return compiled == [True]

    return compare


def saved(tokenizer, tmp_path):
    """Return the content of a tokenizer's file."""
    tokenizer.save(tmp_path / "saved")
    return json.loads((tmp_path / "saved" / "tokenizer.json").read_text("utf-8"))


def with_many_parts():
    added = [END, AddedToken("  ", special=False), AddedToken("<a b>", lstrip=True), "<|猫|>"]
    vocab = {**BYTES, 256: b"  ", 257: b"ab", 258: b"abc", 259: "é".encode()}
    return Tokenizer(vocab, [(b"a", b"b"), (b"ab", b"c"), (b"\xc3", b"\xa9")], added)


def test_usual_files_are_read_compiled(compare, tmp_path):
    for tokenizer in (small_tokenizer(), byte_tokenizer(), with_many_parts()):
        content = saved(tokenizer, tmp_path)
        assert compare(content)
        assert compare(json.dumps(content, ensure_ascii=False, indent=1).encode())
        pairs = [merge.split(" ") for merge in content["model"]["merges"]]
        content["model"]["merges"] = pairs
        assert compare(content)
        content["model"] = dict(reversed(content["model"].items()))
        assert compare(dict(reversed(content.items())))


def test_escapes_are_read(compare, tmp_path):
    content = json.dumps(saved(with_many_parts(), tmp_path))
    assert "\\u0120" in content  # json.dumps escapes what is not ASCII
    assert compare(content.encode())
    assert compare(content.replace('"ab', '"\\u0061b').replace("/", "\\/").encode())
    assert compare(content.replace("\\u0120", "\u0120").encode())


def changes(content):
    """Yield a file with one change after another. Most changes are mistakes."""
    model = content["model"]
    vocab, merges = model["vocab"], model["merges"]

    def changed(**parts):
        return {**content, "model": {**model, **parts}}

    for value in (None, [], "x", 0, {}, {"a": 0}):
        yield changed(vocab=value)
        yield changed(merges=value)
        yield {**content, "model": value}
    for token_id in (-1, 1.0, 1e3, True, None, "1", 0, 2**32 - 1, 2**32, 2**70, 10**30, 900):
        yield changed(vocab={**vocab, "ab": token_id})
        yield changed(vocab={**vocab, "new": token_id})
    strings = ["", " ", "a b", "\n", "é", "\ud83d\ude00", "\ud83d", "猫", token_to_string(b"the")]
    for string in strings:
        yield changed(vocab={**vocab, string: 5000})
    lines = ["a", "a b", "a  b", " a b", "a b ", "", "a b c", "é a", "zz zz", "a zz"]
    pairs = [["a"], ["a", "b"], ["a", ""], ["a", "b", "c"], ["a", 1], [], ["a b", "c"]]
    for merge in (*lines, *pairs, 1, None):
        yield changed(merges=[*merges, merge])
        yield changed(merges=[merge, *merges])
    yield changed(merges=[*merges, merges[0]])
    yield changed(unk_token="a")
    yield changed(ignore_merges=True)
    yield changed(vocab={k: i for k, i in vocab.items() if k != "b"}, unk_token="a")
    yield changed(dropout=0.5)
    for added in content["added_tokens"]:
        others = [token for token in content["added_tokens"] if token is not added]
        for change in ({"id": 3}, {"id": 5000}, {"content": "ab"}, {"content": "Ġ"}, {"id": "1"}):
            yield {**content, "added_tokens": [*others, {**added, **change}]}
        yield {**content, "added_tokens": others}
        yield {**content, "added_tokens": [*content["added_tokens"], added]}
    yield {**content, "version": "cs336_basics"}
    yield {**content, "config": {"pattern": "a"}, "vocab": []}


def test_changed_parts_have_the_same_outcome(compare, tmp_path):
    compiled = [compare(content) for content in changes(saved(with_many_parts(), tmp_path))]
    assert 5 < sum(compiled) < len(compiled)


def test_repeated_keys_are_refused(compare, tmp_path):
    text = json.dumps(saved(with_many_parts(), tmp_path))
    model = text[text.index('"model"') : -1]
    for old, new in (
        ('"ab": 257', '"ab": 257, "ab": 700'),
        ('"ab": 257', '"ab": 257, "\\u0061b": 700'),
        ('"<a b>"', '"<a b>": 800, "<a b>"'),
        ('"vocab"', '"vocab": {}, "vocab"'),
        ('"merges"', '"merges": [], "merges"'),
        ('"merges"', '"m\\u0065rges": [], "merges"'),
        (model, f"{model}, {model}"),
    ):
        assert old in text
        assert not compare(text.replace(old, new, 1).encode())


def test_cut_and_damaged_files_have_the_same_outcome(compare, tmp_path):
    content = saved(with_many_parts(), tmp_path)
    vocab = content["model"]["vocab"]
    content["model"]["vocab"] = {k: i for k, i in vocab.items() if i < 4 or i > 255 or k in "abcÃ©"}
    data = json.dumps(content, ensure_ascii=False).encode()
    chooser = random.Random(5)
    inserted = [*b'"\\{}[],: 0\n\x00', 0xC3, 0xFF]
    assert compare(data)
    for _ in range(300):
        at = chooser.randrange(len(data))
        kind = chooser.randrange(4)
        if kind == 0:
            changed = data[:at]
        elif kind == 1:
            changed = data[:at] + data[at + chooser.randrange(1, 4) :]
        elif kind == 2:
            changed = data[:at] + bytes([chooser.choice(inserted)]) + data[at:]
        else:
            other = chooser.randrange(len(data))
            changed = data[:at] + data[other : other + chooser.randrange(30)] + data[at:]
        compare(changed)
    compare(b"\xef\xbb\xbf" + data)
    compare(b"[" * 100_000)
    compare(b'{"model": ' * 50_000)
    compare(data.replace(b'"model"', b'"x": ' + b"[" * 100_000 + b', "model"'))
