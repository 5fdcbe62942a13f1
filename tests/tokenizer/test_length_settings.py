"""Truncation and padding of a file are kept, and are the defaults of `tokenizer(text)`."""

from __future__ import annotations

import copy
import json
import pickle
import random
import warnings

import pytest

from cs336_basics._support.errors import InputError, InputTypeError
from cs336_basics.formats.huggingface.parsing import parse_tokenizer_json
from cs336_basics.formats.huggingface.tokenizer_json import tokenizer_json
from cs336_basics.tokenizer import Tokenizer, prune
from cs336_basics.tokenizer.editing.extend import extend
from cs336_basics.tokenizer.length_settings import LengthSettings
from tests.errors import rejects
from tests.formats.exported import trained
from tests.formats.huggingface.random_files import FRAGMENTS, random_file
from tests.tokenizer.examples import END

tokenizers = pytest.importorskip("tokenizers")

TRUNCATION = {"direction": "Left", "max_length": 5, "strategy": "OnlyFirst", "stride": 2}
PADDING = {
    "strategy": {"Fixed": 8}, "direction": "Left", "pad_to_multiple_of": 3, "pad_id": 256,
    "pad_type_id": 0, "pad_token": END,
}  # fmt: skip


def content_with(truncation=TRUNCATION, padding=PADDING):
    return tokenizer_json(trained("gpt2").definition) | {
        "truncation": truncation,
        "padding": padding,
    }


def loaded(**settings):
    return Tokenizer.of(parse_tokenizer_json(content_with(**settings)))


def test_they_are_written_back_and_change_no_id_unless_asked(tmp_path):
    ours, plain = loaded(), trained("gpt2")
    ours.save(tmp_path / "saved")
    written = json.loads((tmp_path / "saved" / "tokenizer.json").read_text("utf-8"))
    assert (written["truncation"], written["padding"]) == (TRUNCATION, PADDING)
    again = Tokenizer.from_pretrained(tmp_path / "saved")
    for tokenizer in (ours, again, copy.copy(ours), pickle.loads(pickle.dumps(ours))):
        assert tokenizer.definition.length_settings == LengthSettings(TRUNCATION, PADDING)
        assert tokenizer.hash() == plain.hash()
        assert tokenizer("The cat sat on a mat") == plain("The cat sat on a mat")
        assert tokenizer.encode("The cat sat on a mat") == plain.encode("The cat sat on a mat")


def test_random_settings_truncate_and_pad_as_tokenizers_does():
    compared = 0
    for seed in range(30):
        chooser = random.Random(seed)
        content = random_file(chooser)
        content["truncation"] = TRUNCATION | {
            "direction": chooser.choice(["Right", "Left"]), "strategy": "LongestFirst",
            "max_length": chooser.randint(8, 13), "stride": 0,
        }  # fmt: skip
        width = content["truncation"]["max_length"] + chooser.randint(0, 3)
        content["padding"] = PADDING | {
            "direction": chooser.choice(["Right", "Left"]), "pad_id": chooser.choice([0, 7]),
            "strategy": chooser.choice(["BatchLongest", {"Fixed": width}]),
            "pad_to_multiple_of": None,
        }  # fmt: skip
        if content["padding"]["strategy"] == "BatchLongest":
            content["padding"]["pad_to_multiple_of"] = chooser.choice([None, 0, 1, 4])
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # a pre-tokenizer may be slow
                ours = Tokenizer.of(parse_tokenizer_json(content))
        except InputError:
            continue  # see test_random_files
        theirs = tokenizers.Tokenizer.from_str(json.dumps(content))
        texts = ["".join(chooser.choices(FRAGMENTS, k=chooser.randint(0, 14))) for _ in range(4)]
        others = texts[::-1]
        padding = "longest" if content["padding"]["strategy"] == "BatchLongest" else "max_length"
        for pairs in (None, others):
            try:
                batch = texts if pairs is None else list(zip(texts, pairs, strict=True))
                expected = theirs.encode_batch(batch)
            except BaseException as error:
                if type(error).__name__ != "PanicException":
                    raise
                continue  # see test_random_files
            found = ours(texts, pairs, padding=padding, truncation=True)
            assert found["input_ids"] == [item.ids for item in expected], seed
            assert found["attention_mask"] == [item.attention_mask for item in expected], seed
            compared += 1
    assert compared > 30


def test_arguments_replace_the_settings():
    ours, ids = loaded(), trained("gpt2").encode("one two three four five six seven")
    assert ours("one two three four five six seven", truncation=True)["input_ids"] == ids[-5:]
    shorter = ours("one two three four five six seven", truncation=True, max_length=3)
    assert shorter["input_ids"] == ids[-3:]
    a = trained("gpt2").encode("a")
    assert ours("a", padding="max_length")["input_ids"] == [256] * 7 + a
    assert ours("a", padding=True, pad_id=1)["input_ids"] == [1, 1, *a]
    assert ours("a", padding="max_length", max_length=2)["attention_mask"] == [0, 1]
    only_truncation = loaded(padding=None)
    assert only_truncation("a", padding="max_length")["input_ids"] == [*a, *[256] * 4]
    with rejects("max_length", "and only then, got None"):
        loaded(truncation=None, padding={**PADDING, "strategy": "BatchLongest"})(
            "a", padding="max_length"
        )


def test_edited_tokenizers_pad_with_the_same_token():
    ours = loaded()
    pruned = prune(ours, 300, {b"the": 5, b" cat": 3}).tokenizer
    for tokenizer in (pruned, extend(ours, [" zebra"]), ours.truncated(261)):
        settings = tokenizer.definition.length_settings
        assert settings.truncation == TRUNCATION
        assert tokenizer.vocab[settings.pad_id] == END.encode()


def test_other_settings_are_refused():
    with rejects("length_settings", "got 5", kind=InputTypeError):
        trained("gpt2").definition.replaced(length_settings=5)


def test_print_shows_them():
    last = str(loaded()).splitlines()[-1]
    assert last == (
        f"  length settings truncation to 5 ids and padding to 8 ids with {END}, if "
        "tokenizer(text) is asked to"
    )
    assert "length settings" not in str(trained("gpt2"))


@pytest.mark.parametrize(
    ("part", "changes"),
    [
        *(("truncation", {"max_length": bad}) for bad in (-1, 2**64, 1.5, True, None, "5")),
        *(("truncation", {"strategy": bad}) for bad in ("only_first", None, [])),
        *(("truncation", {"direction": bad}) for bad in ("left", 5)),
        ("truncation", {"stride": None}),
        ("truncation", {"direction": None}),
        *(("padding", {"strategy": bad}) for bad in ("Fixed", {"Fixed": -1}, {}, None, [])),
        *(("padding", {"pad_id": bad}) for bad in (-1, 2**32, None, True)),
        *(("padding", {"pad_to_multiple_of": bad}) for bad in (-1, "8")),
        *(("padding", {"direction": bad}) for bad in (None, "right")),
        ("padding", {"pad_token": 5}),
        ("padding", {"pad_type_id": None}),
    ],
)
def test_what_tokenizers_refuses_is_refused_and_can_be_ignored(part, changes):
    content = content_with()
    content[part] = content[part] | changes
    (field,) = changes
    with rejects(None, f"the {field} of the {part} cannot be", f"ignore=['{part}']"):
        parse_tokenizer_json(content)
    settings = parse_tokenizer_json(content, [part]).length_settings
    assert settings is not None
    assert getattr(settings, part) is None
