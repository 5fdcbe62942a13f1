"""The page's tokens and merges, compared with the tokenizer."""

import pytest

from cs336_basics import Tokenizer
from cs336_basics.__main__ import main
from cs336_basics.playground.texts import MOST_TOKENS, MOST_WORD, Texts, load_tokenizer
from cs336_basics.tokenizer import merge_steps, parts_of, visible
from tests.errors import rejects
from tests.tokenizer.examples import END, small_tokenizer

TEXT = f"the cat's naïve 猫\t{END}<script>\r\n\n  the\x00\u202e"


@pytest.fixture(scope="module")
def tokenizer():
    return small_tokenizer()


@pytest.fixture(scope="module")
def texts(tokenizer):
    return Texts({"small": tokenizer})


def joined(parts):
    return "".join(text for text, _ in parts)


def test_tokens_are_those_of_encode(tokenizer, texts):
    answer = texts.tokens({"text": TEXT})
    ids = tokenizer.encode(TEXT)
    assert [token["id"] for token in answer["tokens"]] == ids
    assert answer["num_tokens"] == len(ids)
    assert answer["num_characters"] == len(TEXT)
    data = b"".join(bytes.fromhex(token["bytes"]) for token in answer["tokens"])
    assert data.decode() == TEXT
    assert answer["num_bytes"] == len(data)
    shown = [joined(token["parts"]) for token in answer["tokens"]]
    assert shown == [visible(tokenizer.vocab[token_id]) for token_id in ids]
    assert [joined(t["parts"]) for t in answer["tokens"] if t["special"]] == [END]


def test_the_first_tokens_of_pre_tokens_are_marked(tokenizer, texts):
    answer = texts.tokens({"text": TEXT})
    words, at = [], 0
    for segment, is_special in tokenizer.splitter.split_special_tokens(TEXT):
        for word in [segment] if is_special else tokenizer.splitter.pretokenize(segment):
            words.append(at)
            at += len(word.encode())
    starts, at = [], 0
    for token in answer["tokens"]:
        if token["first"]:
            starts.append(at)
        at += len(bytes.fromhex(token["bytes"]))
    assert starts == words
    assert answer["num_words"] == len(words)


def test_an_empty_text_and_a_long_one(texts):
    assert texts.tokens({"text": ""})["tokens"] == []
    answer = texts.tokens({"text": "1 " * 10_000})
    assert len(answer["tokens"]) == MOST_TOKENS < answer["num_tokens"]


def test_parts_are_those_of_the_tokenizer(tokenizer):
    definition = tokenizer.definition.replaced(normalizer="NFC")
    texts = Texts({"normalizes": Tokenizer.of(definition)})
    text = TEXT + "e\u0301"
    answer = texts.parts({"text": text})
    assert answer["tokenizer"]["normalizer"] == "NFC"
    parts = parts_of(Tokenizer.of(definition), text)
    assert answer["num_parts"] == len(parts)
    for row, part in zip(answer["parts"], parts, strict=True):
        assert (row["part"], row["start"], row["stop"]) == part[:3]
        assert [token["id"] for token in row["tokens"]] == [*part.ids]
        assert bool(row["merges"]) == (part.part == "split")
        if part.part == "normalizer":
            assert row["change"] == [["e\u0301", "U+0065 U+0301"], ["\u00e9", "U+00E9"]]
    assert answer["parts"][-2]["part"] == "normalizer"
    answer = texts.parts({"text": "1 " * 10_000})
    assert len(answer["parts"]) == MOST_TOKENS < answer["num_parts"]


@pytest.mark.parametrize("text", [" the", TEXT, "", "猫"])
def test_merges_lead_to_the_tokens(tokenizer, texts, text):
    answer = texts.merges({"text": text})
    expected = merge_steps(tokenizer, text)
    assert len(answer["words"]) == len(expected)
    for word, whole in zip(answer["words"], expected, strict=True):
        symbols = [joined(symbol) for symbol in word["symbols"]]
        for step, known in zip(word["steps"], whole.steps, strict=True):
            assert step["rank"] == known.rank
            place = step["position"]
            assert symbols[place : place + 2] == [joined(part) for part in step["pair"]]
            symbols[place : place + 2] = [joined(step["result"])]
            assert len(symbols) == len(known.tokens)
        assert [token["id"] for token in word["tokens"]] == whole.ids
        assert len(symbols) == len(whole.ids)


def test_a_long_word_is_refused(texts):
    with rejects(None, MOST_WORD):
        texts.merges({"text": "a" * (MOST_WORD + 1)})


def test_tokenizers_are_loaded_by_name(tmp_path, tokenizer):
    tokenizer.save(tmp_path / "own")
    exported = ["--tokenizer", str(tmp_path / "own"), "--output", str(tmp_path / "other")]
    assert main(["export", "--to", "tiktoken", *exported]) == 0
    for name in ("own", "own/tokenizer.json", "other"):
        loaded = load_tokenizer(str(tmp_path / name))
        assert isinstance(loaded, Tokenizer)
        assert loaded.encode("the cat") == tokenizer.encode("the cat")
    with pytest.raises(FileNotFoundError):
        load_tokenizer(str(tmp_path / "missing"))
