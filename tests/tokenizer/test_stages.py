"""Added tokens with flags, and normalization: all encoders agree with the reference and with
Hugging Face's tokenizers."""

from __future__ import annotations

import copy
import functools
import importlib
import pickle
import random
from collections import Counter
from typing import Any

import pytest

from cs336_basics._support.errors import InputTypeError
from cs336_basics.counting import count_words
from cs336_basics.formats.byte_strings import token_to_string
from cs336_basics.splitting import Splitter
from cs336_basics.splitting.patterns.named_patterns import GPT2
from cs336_basics.splitting.patterns.split_sequences import PREFIX, Split, sequence_pattern
from cs336_basics.text.normalization import NORMALIZERS, normalized
from cs336_basics.tokenizer import (
    AddedToken,
    IncrementalEncoder,
    PostProcessor,
    StreamingDecoder,
    Tokenizer,
    TokenizerDefinition,
    encode_file,
    extend,
    load_token_file,
    prune,
    stages,
)
from cs336_basics.tokenizer.encoders import staged_encoder
from cs336_basics.tokenizer.encoders.staged_encoder import StagedEncoder
from tests.errors import rejects
from tests.text.combining import combining_text
from tests.tokenizer.examples import BYTES, END, byte_tokenizer, reference_ids, trained

# `cs336_basics.text` names a lazy copy of this module, whose names cannot be replaced.
normalization = importlib.import_module("cs336_basics.text.normalization")

MARKS = "\u0301\u0327\u0308\u093c\u05b0\u1161\u11a8\u3099"
CHARACTERS = [
    *"abe12 _.<|>[]", *" " * 6, *"\n\t\x1c\x85\xa0\u2003\u3000\u200d\xad", *MARKS,
    *"ée\u0301ﬁ①ÅÅ가\u1100がか中ａ²½אعनª‿Ⅷⓐ😀𝐀",
]  # fmt: skip
PATTERNS = [
    *["gpt2"] * 4,
    *(sequence_pattern([PREFIX, Split(GPT2)]), sequence_pattern([PREFIX])),
    sequence_pattern([PREFIX, Split("[.|]", "MergedWithNext"), Split(r"\s", "Removed")]),
    sequence_pattern([Split(r"\w+|[^\w\s]+", "Removed", True), PREFIX, Split(GPT2)]),
]
"""Split patterns. Some of them add spaces to a text or remove parts of it."""
CONTENTS = ["<a>", "<a", "a>", "  ", "   ", "\n", " a", "Å", "e\u0301", "|", "ab", "fi", "b <a>"]


def random_text(chooser: random.Random, length: int) -> str:
    return "".join(chooser.choice(CHARACTERS) for _ in range(chooser.randrange(length)))


def random_definition(chooser: random.Random) -> TokenizerDefinition:
    """Return a definition with a random normalizer and random added tokens."""
    vocab, merges = trained()
    taken = set(vocab.values())
    tokens: dict[str, AddedToken] = {}
    own_ids: dict[str, int] = {}
    for _ in range(chooser.randrange(1, 7)):
        content = chooser.choice(CONTENTS) if chooser.random() < 0.4 else random_text(chooser, 5)
        flags = [chooser.random() < chance for chance in (0.6, 0.5, 0.25, 0.25, 0.25)]
        if content and content not in tokens:
            tokens[content] = AddedToken(content, *flags)
            if content.encode() in taken and len(content) > 1 and chooser.random() < 0.5:
                own_ids[content] = len(vocab) + 10 + len(own_ids)
    normalizer = chooser.choice([None, None, "NFC", "NFD", "NFKC", "NFKD"])
    return TokenizerDefinition(
        vocab, merges, [*tokens.values()], chooser.choice(PATTERNS), normalizer=normalizer,
        added_ids=own_ids,
    )  # fmt: skip


def random_texts(chooser: random.Random, definition: TokenizerDefinition, number: int) -> list[str]:
    """Return texts that contain the added tokens of a definition."""
    contents = [token.content for token in definition.added_tokens] or ["a"]
    return [
        "".join(
            chooser.choice(contents) if chooser.random() < 0.3 else random_text(chooser, 6)
            for _ in range(chooser.randrange(7))
        )
        for _ in range(number)
    ]


@functools.cache
def random_cases(number: int = 30) -> list[tuple[TokenizerDefinition, list[str]]]:
    chooser = random.Random(60)
    cases = []
    for _ in range(number):
        definition = random_definition(chooser)
        cases.append((definition, random_texts(chooser, definition, 12)))
    return cases


@pytest.mark.parametrize("number", [30, pytest.param(300, marks=pytest.mark.slow)])
@pytest.mark.parametrize("backend", [None, "python", "reference"])
def test_ids_equal_the_reference(backend, number):
    for definition, texts in random_cases(number):
        tokenizer = Tokenizer.of(definition, backend=backend)
        expected = [reference_ids(tokenizer, text) for text in texts]
        assert [tokenizer.encode(text) for text in texts] == expected, definition.added_tokens
        assert tokenizer.encode_batch(texts) == expected
        assert [ids.tolist() for ids in tokenizer.encode_batch_array(texts).arrays()] == expected
        for text, ids in zip(texts, expected, strict=True):
            assert tokenizer.encode_array(text).tolist() == ids
            assert tokenizer.encode_array(text.encode()).tolist() == ids
            assert tokenizer.encode_with_offsets(text)[0] == ids


def test_one_search_finds_the_tokens_of_both_kinds_unless_the_second_could_win():
    chooser = random.Random(62)
    vocab, merges = trained()
    in_one = Counter[bool]()
    for _ in range(150):
        contents = {"".join(chooser.choices("ab<>", k=chooser.randrange(2, 5))) for _ in range(3)}
        contents -= {token.decode("latin-1") for token in vocab.values()}
        plain = sorted(contents)
        tokens = [AddedToken(text, normalized=i % 2 == 1) for i, text in enumerate(plain)]
        definition = TokenizerDefinition(vocab, merges, tokens)
        tokenizer = Tokenizer.of(definition)
        in_one[stages.Stages.needed_by(definition) is None] += 1
        for _ in range(20):
            text = "".join(chooser.choices([*"ab<> ", *plain], k=chooser.randrange(9)))
            assert tokenizer.encode(text) == reference_ids(tokenizer, text), (tokens, text)
    assert min(in_one[True], in_one[False]) > 20, in_one


def test_a_token_that_starts_in_one_of_the_first_search_needs_no_second_search():
    tokens = [AddedToken("<｜/table>｜"), AddedToken("｜DSML｜", normalized=True)]
    tokenizer = Tokenizer(BYTES, [], tokens)
    assert stages.Stages.needed_by(tokenizer.definition) is None
    text = "<｜/table>｜DSML｜ ｜DSML｜"
    assert tokenizer.encode(text) == [256, *"DSML｜ ".encode(), 257]


def test_a_text_in_pieces_gets_the_same_ids():
    chooser = random.Random(61)
    for definition, texts in random_cases():
        tokenizer = Tokenizer.of(definition)
        # Words between the texts, because text without safe cuts is encoded as a whole.
        text = " ab  a. b ".join(texts)
        expected = tokenizer.encode(text)
        assert list(tokenizer.encode_iterable(list(text))) == expected
        encoder, ids, start = IncrementalEncoder(tokenizer), [], 0
        data = text.encode()
        while start < len(data):
            end = start + chooser.randrange(1, 9)
            ids += encoder.feed(data[start:end])
            start = end
        assert ids + encoder.finish() == expected, (definition.added_tokens, ascii(text))


def test_long_texts_are_encoded_before_they_end():
    tokenizer = byte_tokenizer(END, normalizer="NFC")
    encoder = IncrementalEncoder(tokenizer)
    assert len(encoder.feed("word " * 1000)) > 4900


@pytest.mark.parametrize("block", [1, 5, 40])
def test_long_texts_are_normalized_in_blocks(monkeypatch, block):
    monkeypatch.setattr(staged_encoder, "_BLOCK", block)
    for definition, texts in random_cases()[:20]:
        tokenizer = Tokenizer.of(definition)
        text = " ab  a. b ".join(texts)
        expected = reference_ids(tokenizer, text)
        for num_workers in (1, 2):
            found = tokenizer.encoder.encode_array(text, tokenizer.encoder.all_added, num_workers)
            assert found.tolist() == expected, definition.added_tokens
        assert tokenizer.encode_array(text.encode()).tolist() == expected


def test_files_get_the_same_ids(tmp_path):
    for i, (definition, texts) in enumerate(random_cases()[:12]):
        tokenizer = Tokenizer.of(definition)
        text = " ab  a. b ".join(texts)
        path = tmp_path / f"{i}.txt"
        path.write_bytes(text.encode())
        encode_file(tokenizer, path, tmp_path / f"{i}.npy", num_workers=2, chunk_size=9)
        assert load_token_file(tmp_path / f"{i}.npy").tolist() == tokenizer.encode(text)


@pytest.mark.parametrize("normalizer", NORMALIZERS)
def test_normalized_text_gets_the_same_ids_everywhere(normalizer, tmp_path):
    chooser = random.Random(normalizer)
    tokenizer = Tokenizer(*trained(), [END, "<e>"], normalizer=normalizer)
    assert tokenizer.encoder.safe_cuts(tokenizer.encoder.all_added).may_exist
    for i in range(8):
        text = combining_text(chooser, 250, [END, "<e>", "＜e>"])
        expected = reference_ids(tokenizer, text)
        assert tokenizer.encode(text) == expected
        pieces = []
        while sum(map(len, pieces)) < len(text):
            start = sum(map(len, pieces))
            pieces.append(text[start : start + chooser.randrange(1, 5)])
        assert list(tokenizer.encode_iterable(pieces)) == expected
        data = text.encode() + b"\xff e\xe2\x80"  # which becomes U+FFFD
        with pytest.warns(UserWarning, match="U\\+FFFD"):
            expected = tokenizer.encode_array(data).tolist()
        assert expected == reference_ids(tokenizer, data.decode("utf-8", "replace"))
        encoder, ids, start = IncrementalEncoder(tokenizer), [], 0
        while start < len(data):
            end = start + chooser.randrange(1, 9)
            ids += encoder.feed(data[start:end])
            start = end
        with pytest.warns(UserWarning, match="U\\+FFFD"):
            assert ids + encoder.finish() == expected, ascii(text)
        path = tmp_path / f"{i}.txt"
        path.write_bytes(data)
        with pytest.warns(UserWarning, match="U\\+FFFD"):
            encode_file(tokenizer, path, tmp_path / f"{i}.npy", num_workers=2, chunk_size=9)
        assert load_token_file(tmp_path / f"{i}.npy").tolist() == expected


def test_stages_are_built_once(tmp_path, monkeypatch):
    built: list[object] = []
    make = stages.Stages.__init__
    monkeypatch.setattr(stages.Stages, "__init__", lambda *a: (built.append(a), make(*a))[1])
    definition = byte_tokenizer(END).definition.replaced(
        special_tokens=[END, AddedToken("<m>", lstrip=True)]
    )
    tokenizer = Tokenizer.of(definition)
    assert len(tokenizer.encode("a <m> b")) == 4
    cuts = tokenizer.encoder.safe_cuts(tokenizer.encoder.all_added)
    for i in range(3):
        path = tmp_path / f"{i}.txt"
        path.write_text("a <m> b")
        encode_file(tokenizer, path, tmp_path / f"{i}.npy", num_workers=1)
    assert list(tokenizer.encode_iterable(["a <m> b"])) == tokenizer.encode("a <m> b")
    assert tokenizer.encoder.safe_cuts(tokenizer.encoder.all_added) is cuts
    assert len(built) == 1


def test_ids_and_offsets_equal_hugging_faces():
    tokenizers = pytest.importorskip("tokenizers")
    vocab, merges = trained()
    strings = {token_to_string(token): token_id for token_id, token in vocab.items()}
    for definition, texts in random_cases():
        contents = [token.content for token in definition.added_tokens]
        if any(content in strings and not content.isascii() for content in contents):
            continue  # Hugging Face reads the content as a token in the byte alphabet
        if len({normalized(content, definition.normalizer) for content in contents}) < len(
            contents
        ):
            continue  # which of two equal tokens they find is random
        model = tokenizers.models.BPE(
            vocab=strings, merges=[tuple(map(token_to_string, pair)) for pair in merges]
        )
        theirs = tokenizers.Tokenizer(model)
        if definition.normalizer:
            theirs.normalizer = getattr(tokenizers.normalizers, definition.normalizer)()
        theirs.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
        theirs.decoder = tokenizers.decoders.ByteLevel()
        own_ids: dict[str, int] = {}
        for token in definition.added_tokens:
            flags = token._asdict()
            added = tokenizers.AddedToken(flags.pop("content"), **flags)
            (theirs.add_special_tokens if token.special else theirs.add_tokens)([added])
            own_ids[token.content] = theirs.token_to_id(token.content)
        ours = Tokenizer.of(
            TokenizerDefinition(
                vocab, merges, definition.added_tokens, normalizer=definition.normalizer,
                added_ids=own_ids,
            )
        )  # fmt: skip
        for text in texts:
            expected = theirs.encode(text, add_special_tokens=False)
            assert ours.encode_with_offsets(text) == (expected.ids, expected.offsets), ascii(text)
            # They read "Å" in the byte alphabet, and return normalized contents.
            for skip in (False, True) if all(map(str.isascii, contents)) else ():
                assert ours.decode(expected.ids, skip_special_tokens=skip) == theirs.decode(
                    expected.ids, skip_special_tokens=skip
                )


# ------------------------------------------------------------------ one behavior each


def tokens_of(tokenizer: Tokenizer, text: str) -> list[str]:
    return [tokenizer.decode([token_id]) for token_id in tokenizer.encode(text)]


def test_a_tokenizer_that_needs_one_search_has_no_stages():
    plain = byte_tokenizer(END)
    assert not isinstance(plain.encoder, StagedEncoder)
    for token in (AddedToken("<x>", special=False), AddedToken("<x>", normalized=True)):
        tokenizer = Tokenizer(BYTES, [], [token])
        assert type(tokenizer.encoder) is type(plain.encoder)


def test_two_ids_may_have_the_same_bytes():
    vocab = {**BYTES, 256: b"  ", 257: b"  ", 258: b"   "}
    merges = [(b" ", b" "), (b"  ", b" ")]
    definition = TokenizerDefinition(
        vocab, merges, [AddedToken("  ", special=False)], pattern=r"\s+|\S+", added_ids={"  ": 257}
    )
    tokenizer = Tokenizer.of(definition)
    assert tokenizer.encode("a  b") == [97, 257, 98] == reference_ids(tokenizer, "a  b")
    assert tokenizer.encoder.encode_word("  ") == [256]
    assert tokenizer.encoder.encode_word("   ") == [258]
    assert tokenizer.decode([256, 257]) == "    "
    assert tokenizer.token_to_id("  ") == 257
    assert TokenizerDefinition(**definition.arguments()) == definition
    with rejects("vocab", 256, 257):
        TokenizerDefinition(vocab, merges, ["  "])
    with rejects("added_ids", 97, "'  '"):
        TokenizerDefinition(vocab, merges, ["  "], added_ids={"  ": 97})
    with rejects("added_ids", "'x'"):
        TokenizerDefinition(BYTES, [], ["  "], added_ids={"x": 300})


def test_tokens_that_are_not_special_are_always_found_and_never_skipped():
    tokenizer = Tokenizer(BYTES, [], [END, AddedToken("<think>", special=False)])
    think, end = tokenizer.token_to_id("<think>"), tokenizer.token_to_id(END)
    assert tokenizer.special_tokens == [END]
    text = f"<think>a{END}"
    assert tokenizer.encode(text) == [think, 97, end]
    assert tokenizer.encode("<think>a", disallowed_special="all") == [think, 97]
    assert tokenizer.encode(text, allowed_special=[])[:2] == [think, 97]
    assert len(tokenizer.encode(text, allowed_special=[])) == 2 + len(END)
    with rejects("allowed_special", "<think>"):
        tokenizer.encode("a", allowed_special=["<think>"])
    ids = [think, 97, end]
    assert tokenizer.decode(ids) == text
    assert tokenizer.decode(ids, skip_special_tokens=True) == "<think>a"
    assert tokenizer.decode(ids, "strict", skip_special_tokens=True) == "<think>a"
    assert tokenizer.decode_bytes(ids, skip_special_tokens=True) == b"<think>a"
    assert tokenizer.decode_batch([ids, [end]], skip_special_tokens=True) == ["<think>a", ""]
    decoder = StreamingDecoder(tokenizer, skip_special_tokens=True)
    assert "".join(map(decoder.push, ids)) + decoder.finish() == "<think>a"


def test_whitespace_and_words_around_a_token():
    strip = Tokenizer(BYTES, [], [AddedToken("<m>", lstrip=True, rstrip=True)])
    assert len(strip.encode("a \n<m>\t b")) == 3
    assert strip.encode_with_offsets("a \n<m>\t b")[1] == [(0, 1), (1, 8), (8, 9)]
    word = Tokenizer(BYTES, [], [AddedToken("ab", single_word=True)])
    assert tokens_of(word, "ab abc _ab (ab)").count("ab") == 2


def test_normalized_tokens_are_found_after_the_others_in_normalized_text():
    tokens = [AddedToken("ab"), AddedToken("xab", normalized=True), AddedToken("é", True, True)]
    tokenizer = Tokenizer(BYTES, [], tokens, normalizer="NFC")
    assert tokens_of(tokenizer, "xab") == ["x", "ab"]
    assert tokens_of(tokenizer, "e\u0301") == ["é"]
    assert tokenizer.encode_with_offsets("ae\u0301b")[1] == [(0, 1), (1, 2), (3, 4)]


@pytest.mark.parametrize(
    "change",
    [
        {"normalizer": "NFC"},
        {"special_tokens": [AddedToken(END, special=False)]},
        {"special_tokens": [AddedToken(END, lstrip=True)]},
    ],
)
def test_every_part_is_compared_and_hashed(change: dict[str, Any]):
    first = byte_tokenizer(END).definition
    changed = first.replaced(**change)
    assert changed != first
    assert changed.digest != first.digest


def test_the_hash_of_a_tokenizer_without_these_parts_stays():
    assert byte_tokenizer(END).hash() == (
        "64dd58a0579ddb8c51f374824623f66449cdf0db0ead3c308c280b3e0ea75273"
    )


def test_the_flags_are_checked():
    with rejects("lstrip", "1", kind=InputTypeError):
        Tokenizer(BYTES, [], [AddedToken("a", lstrip=1)])  # type: ignore[arg-type]


# ------------------------------------------------------------------ changes keep everything


def tokenizer_with_everything() -> Tokenizer:
    vocab, merges = trained()
    highest = max(vocab)
    tokens = [
        AddedToken(END), AddedToken("the", special=False, single_word=True),
        AddedToken("<m>", lstrip=True, rstrip=True), AddedToken(" a", False, True),
    ]  # fmt: skip
    definition = TokenizerDefinition(
        vocab, merges, tokens, normalizer="NFKC", added_ids={"the": highest + 1},
        post_processor=PostProcessor((highest + 2, "A"), source="{}"),
    )  # fmt: skip
    return Tokenizer.of(definition)


TEXT = f"the theatre ﬁ <m> a{END}e\u0301the"


def test_copies_and_pickles_are_equal():
    tokenizer = tokenizer_with_everything()
    for other in (copy.copy(tokenizer), copy.deepcopy(tokenizer),
                  pickle.loads(pickle.dumps(tokenizer))):  # fmt: skip
        assert other.definition == tokenizer.definition
        assert other.hash() == tokenizer.hash()
        assert other.encode(TEXT) == tokenizer.encode(TEXT)


def test_extending_keeps_everything():
    tokenizer = tokenizer_with_everything()
    longer = extend(tokenizer, [" protein"], [AddedToken("<x>", special=False)])
    assert longer.definition.added_tokens[:-1] == tokenizer.added_tokens
    assert longer.normalizer == "NFKC"
    assert longer.definition.post_processor == tokenizer.definition.post_processor
    assert longer.encode(TEXT) == tokenizer.encode(TEXT)
    assert len(longer.encode(" protein<x>")) == 2
    with rejects("words", "'the'"):
        extend(tokenizer, ["the"])
    with rejects("words", "NFKC", "'\\ufb01nd'"):
        extend(tokenizer, ["ﬁnd"])


def test_pruning_keeps_everything():
    tokenizer = tokenizer_with_everything()
    counts = {word.encode(): 1 for word in ("theatre", "fi", " ")}
    pruned, id_map = prune(tokenizer, len(tokenizer) - 50, counts)
    assert pruned.added_tokens == tokenizer.added_tokens
    assert pruned.normalizer == "NFKC"
    for content, token_id in tokenizer.definition.added_ids.items():
        assert pruned.definition.added_ids[content] == id_map[token_id]
    assert pruned.decode(pruned.encode(TEXT)) == tokenizer.decode(tokenizer.encode(TEXT))
    added = pruned.definition.post_processor
    assert added is not None
    assert added.single == (id_map[tokenizer.token_to_id(END)], "A")


def test_pruning_counts_the_words_that_the_tokenizer_splits_into(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text(TEXT + f" e\u0301 <m> A\u030a ﬁﬁﬁ {END} a ab" * 9, encoding="utf-8")
    vocab, merges = trained()
    plain = Tokenizer(vocab, merges, [END], normalizer="NFKC")
    for tokenizer in (plain, tokenizer_with_everything()):
        words: Counter[bytes] = Counter()
        for word in tokenizer.encoder.located_words(
            path.read_text(encoding="utf-8"), tokenizer.encoder.all_added
        ):
            if word.token_id is None:
                words[word.text.encode()] += 1
        size = len(tokenizer) - 60
        expected = prune(tokenizer, size, words)
        found = prune(tokenizer, size, path)
        assert found.tokenizer.definition == expected.tokenizer.definition
        assert found.tokenizer.normalizer == "NFKC"
        with rejects("normalizer", "None", "'NFKC'"):
            prune(tokenizer, size, count_words(path, Splitter(special_tokens=[
                *tokenizer.splitter.special_tokens])))  # fmt: skip


@pytest.mark.parametrize("backend", [None, "python", "reference"])
def test_added_tokens_are_added_one_by_one(backend):
    definition = tokenizer_with_everything().definition
    one_by_one = Tokenizer.of(definition.replaced(normalizer=None), backend=backend)
    one_by_one.encode(TEXT)
    contents = ["<1>", "ab", "\x01", "é", "  "]
    ids = [one_by_one.add_special_tokens([content])[0] for content in contents]
    at_once = Tokenizer.of(definition.replaced(normalizer=None), backend=backend)
    assert at_once.add_special_tokens(contents) == ids
    assert one_by_one.definition == at_once.definition
    text = TEXT + "".join(contents) + "x".join(contents)
    assert one_by_one.encode(text) == at_once.encode(text) == reference_ids(at_once, text)
    assert one_by_one.decode(ids) == "".join(contents)
    one_by_one.add_special_tokens([AddedToken("<2>", rstrip=True)])
    assert tokens_of(one_by_one, "<2> x") == ["<2>", "x"]


def test_adding_a_token_does_not_change_definitions_made_before():
    first = byte_tokenizer(END).definition
    left, right = first.with_special_tokens(["<l>"]), first.with_special_tokens(["<r>"])
    assert list(first.added_ids) == [END]
    assert left.added_ids == {END: 256, "<l>": 257}
    assert right.with_special_tokens(["<l>"]).added_ids == {END: 256, "<r>": 257, "<l>": 258}
    assert left.token_ids[b"<l>"] == 257


def test_ids_above_16_bits_can_be_added():
    vocab = BYTES | {i: b"%d" % i for i in range(256, 65530)}
    tokenizer = Tokenizer(vocab, [])
    assert tokenizer.encode_array("a").dtype == "uint16"
    for i in range(10):
        token_id = tokenizer.add_special_tokens([f"<{i}>"])[0]
        assert tokenizer.encode(f"<{i}>") == [token_id]
        assert tokenizer.encode_array(f"a<{i}>").tolist() == [97, token_id]
    assert tokenizer.encode_array("a").dtype == "uint32"


def test_with_ignore_merges_an_added_token_is_no_longer_a_word():
    vocab = BYTES | {256: b"abc"}
    tokenizer = Tokenizer(vocab, [], ignore_merges=True)
    assert tokenizer.encode("abc") == [256]
    tokenizer.add_special_tokens(["abc"])
    assert tokenizer.encode("abc", allowed_special=[]) == [97, 98, 99]


# ------------------------------------------------------------------ surrogates


@pytest.mark.parametrize("backend", [None, "python", "reference"])
def test_a_surrogate_pair_is_its_character(backend):
    tokenizer = byte_tokenizer(END, backend=backend)
    pair, text = "a\ud83d\ude00b\ud83d\ude00", "a😀b😀"
    ids = tokenizer.encode(text)
    assert tokenizer.encode(pair) == ids
    for errors in ("replace", "strict", "bytes"):
        assert tokenizer.encode_array(pair, errors=errors).tolist() == ids
        encoder = IncrementalEncoder(tokenizer, errors=errors)
        assert [i for half in pair for i in encoder.feed(half)] + encoder.finish() == ids
    assert tokenizer.encode_batch(["x", pair])[1] == ids
    assert list(tokenizer.encode_iterable(pair)) == ids
    assert tokenizer.encode_with_offsets(pair)[1][-1] == (4, 6)


def test_a_lone_surrogate_is_replaced_if_that_is_asked_for():
    tokenizer = byte_tokenizer(END)
    expected = tokenizer.encode("\ufffda\ufffd")
    with pytest.warns(UserWarning, match="U\\+FFFD"):
        assert tokenizer.encode_array("\ude00a\ud83d", errors="replace").tolist() == expected
    encoder = IncrementalEncoder(tokenizer, errors="replace")
    ids = [i for chunk in ("\ude00", "a\ud83d") for i in encoder.feed(chunk)]
    with pytest.warns(UserWarning, match="U\\+FFFD"):
        assert ids + encoder.finish() == expected
    with rejects(None, "U+D83D", 3, place="text 1"):
        tokenizer.encode_batch(["a", "\ud83d\ude00a\ud83d"])


def test_without_extensions_the_ids_are_the_same(monkeypatch):
    monkeypatch.setattr(stages, "TokenSearch", None)
    monkeypatch.setattr(normalization, "NormalCharacters", None)
    finder = normalization.doubtful_runs.__wrapped__  # without the cache
    for module in (normalization, stages):
        monkeypatch.setattr(module, "doubtful_runs", finder)
    for definition, texts in random_cases()[:20]:
        tokenizer = Tokenizer.of(definition, backend="python")
        for text in texts:
            assert tokenizer.encode(text) == reference_ids(tokenizer, text)
