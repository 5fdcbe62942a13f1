"""Parity-aware BPE: every trainer learns the merges of the definition, and Hugging Face's."""

from __future__ import annotations

import json
import random
import warnings
from collections import Counter

import pytest

from cs336_basics._support.errors import InputTypeError
from cs336_basics.bpe import TRAINERS
from cs336_basics.bpe.parity import Parity
from cs336_basics.counting import count_text
from tests.bpe.trainers import byte_characters, every_trainer
from tests.errors import rejects
from tests.texts import PROSE, long_text

LOW = {b"aabb": 10}
HIGH = {b"ccdd": 10}


def train(name, train_counts, dev_counts, num_merges, parity=None, **options):
    """Return the merges, and the source that chose each, without showing warnings."""
    trainer = TRAINERS[name](**options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        merges = trainer.train_parity_from_counts(
            train_counts, trainer.start.num_ids + num_merges, dev=dev_counts, parity=parity
        )[1]
    return merges[len(trainer.start.merges) :], trainer.served


def named(*merges):
    return [tuple(merge.encode().split()) for merge in merges]


@every_trainer
def test_equally_compressed_sources_take_turns(name):
    merges, served = train(name, [LOW, HIGH], [LOW, HIGH], 6)
    assert merges == named("b b", "d d", "a bb", "c dd", "a abb", "c cdd")
    assert served == [0, 1, 0, 1, 0, 1]


@every_trainer
def test_held_out_texts_choose_the_source(name):
    # Of the first source, 2 bytes are held out, and of the second one 4 bytes, with 2 tokens after
    # the merge of "cc".
    dev = [{b"zz": 1}, {b"cc": 2}]
    merges, served = train(name, [{b"aab": 9}, {b"ccd": 2}], dev, 4)
    assert merges == named("a b", "a ab", "c d", "c cd")
    assert served == [0, 0, 1, 1]
    parallel = Parity("parallel")
    # As parallel texts, the second one needs 4 tokens, and the first one 2.
    merges, served = train(name, [{b"aab": 9}, {b"ccd": 2}], dev, 4, parallel)
    assert merges == named("c d", "c cd", "a b", "a ab")
    assert served == [1, 1, 0, 0]


@every_trainer
def test_characters_are_a_unit(name):
    words = [{"猫犬".encode(): 5}, {b"abcdef": 5}]
    by_bytes = train(name, words, words, 4)[1]
    assert by_bytes == [0, 1, 0, 1]
    # 2 characters in 6 tokens are compressed worse than 6 characters in 6 tokens.
    assert train(name, words, words, 4, Parity("characters"))[1] == [0, 0, 0, 0]


@every_trainer
def test_a_source_without_pairs_is_passed_over(name):
    merges, served = train(name, [{b"ab": 10}, {b"cdef": 10}], [{b"xyz": 1}, {b"cdef": 1}], 9)
    assert merges == named("a b", "e f", "d ef", "c def")
    assert served == [0, 1, 1, 1]


@every_trainer
def test_a_window_makes_a_source_wait(name):
    words = [{b"aabbaabb": 10}, {b"ccddccdd": 10}]
    dev = [{b"xyz": 1}, {b"cc": 1}]  # the first source is never compressed
    served = train(name, words, dev, 6, Parity("parallel", window=2, alpha=1))[1]
    assert served == [0, 0, 1, 0, 0, 1]
    assert train(name, words, dev, 6, Parity("parallel"))[1] == [0, 0, 0, 0, 1, 1]


@every_trainer
def test_the_first_merges_may_come_from_the_sum_of_the_sources(name):
    words = [{b"ab": 5, b"cd": 1}, {b"ab": 1, b"cd": 5}]
    merges, served = train(name, words, words, 2, Parity(global_merges=1))
    assert (merges, served) == (named("c d", "a b"), [None, 0])
    assert train(name, words, words, 2)[0] == named("a b", "c d")
    # With global merges only, the merges are the merges of the sum.
    expected = TRAINERS["naive"]().train_from_counts({b"ab": 6, b"cd": 6, b"abcd": 1}, 259)[1]
    words[0][b"abcd"] = 1
    assert train(name, words, words, 3, Parity(global_merges=9))[0] == expected


def random_case(seed: int):
    """Return the arguments of `train` for a random case, with ties and hostile words."""
    chooser = random.Random(seed)
    alphabet = chooser.choice([b"ab", b"abc", bytes(range(256)), "aé猫🎉".encode(), b"  a\n1"])
    number = chooser.randint(2, 4)

    def words():
        found = Counter()
        for _ in range(chooser.randint(1, 12)):
            length = chooser.choice([1, 2, 3, 5, 9, 40])
            found[bytes(chooser.choices(alphabet, k=length))] += chooser.choice([1, 1, 2, 5, 100])
        return dict(found)

    groups = [words() for _ in range(number)], [words() for _ in range(number)]
    parity = Parity(
        chooser.choice(["bytes", "characters", "parallel"]),
        window=chooser.choice([None, None, 1, 3, 10]),
        alpha=chooser.choice([1, 1.5, 2, 7]),
        global_merges=chooser.choice([0, 0, 1, 5]),
    )
    if parity.unit == "characters":  # a text of continuation bytes has no characters
        for counts in groups[1]:
            counts[b"a"] = 1
    options = {
        "min_frequency": chooser.choice([0, 1, 2, 10]),
        "tie_break": chooser.choice(["lexicographic", "huggingface"]),
    }
    options |= chooser.choice(
        [
            {},
            {},
            {"max_token_length": chooser.randint(1, 5)},
            {"whole_characters": True},
            {"forbid": "aa|b$"},
            {"veto": lambda left, right, count: left < right},
            {"max_words": 1},
        ]
    )
    if chooser.random() < 0.2:
        merges = [(b"a", b"b"), (b"ab", b"a")]
        vocab = {**{i: bytes([i]) for i in range(256)}, 256: b"ab", 257: b"aba"}
        options["continue_from"] = vocab, merges
    return (*groups, chooser.choice([0, 3, 60]), parity), options


def check_random_cases(first: int, number: int) -> None:
    for seed in range(first, first + number):
        arguments, options = random_case(seed)
        assert train("native", *arguments, **options) == train("naive", *arguments, **options), seed


@pytest.mark.skipif(not TRAINERS["native"].is_built, reason="extensions are not built")
def test_random_cases_agree_with_the_definition():
    check_random_cases(0, 60)


@pytest.mark.slow
def test_ten_thousand_random_cases_agree_with_the_definition():
    check_random_cases(1000, 10_000)


def long_sources(num_characters=6000):
    texts = [long_text(seed, num_characters).replace("<|endoftext|>", "") for seed in (1, 2)]
    texts += [PROSE["russian"] * 20, PROSE["chinese"] * 20 + PROSE["japanese"]]
    return texts, [text[: len(text) // 5] for text in texts]


@pytest.mark.skipif(not TRAINERS["native"].is_built, reason="extensions are not built")
@pytest.mark.parametrize(
    "parity", [Parity(), Parity("parallel", window=20), Parity(global_merges=100)]
)
def test_texts_agree_with_the_definition(parity):
    texts, dev = long_sources(1500)
    groups = [count_text(text) for text in texts], [count_text(text) for text in dev]
    arguments = *groups, 60, parity
    assert train("native", *arguments) == train("heap", *arguments)


@pytest.mark.parametrize(
    ("parity", "options"),
    [
        (Parity("parallel"), {}),
        (Parity("parallel", window=30, alpha=1.5), {"variant": "window", "window_size": 30}),
        (Parity("parallel", global_merges=300), {"global_merges": 300}),
    ],
)
def test_merges_equal_those_of_hugging_face(parity, options):
    tokenizers = pytest.importorskip("tokenizers")
    if not hasattr(tokenizers.trainers, "ParityBpeTrainer"):
        pytest.skip("needs a release of tokenizers with ParityBpeTrainer")
    texts, dev = long_sources()
    theirs = tokenizers.Tokenizer(tokenizers.models.BPE())
    theirs.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = tokenizers.trainers.ParityBpeTrainer(
        num_merges=700,
        min_frequency=1,
        alpha=parity.alpha,
        show_progress=False,
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
        **options,
    )
    trainer.train_from_iterator(
        theirs, [iter([text]) for text in texts], dev_iterators=[iter([text]) for text in dev]
    )
    characters = byte_characters()
    ours = TRAINERS["native"](tie_break="huggingface").train_parity_from_counts(
        [count_text(text) for text in texts],
        256 + 700,
        dev=[count_text(text) for text in dev],
        parity=parity,
    )[1]
    shown = [["".join(map(characters.get, token)) for token in pair] for pair in ours]
    assert shown == json.loads(theirs.to_str())["model"]["merges"]


def test_files_are_counted_like_in_train(tmp_path):
    paths = []
    for name in ("english", "russian"):
        paths.append(tmp_path / f"{name}.txt")
        paths[-1].write_text(PROSE[name] * 3 + "<|endoftext|>", encoding="utf-8")
    trainer = TRAINERS["heap"](num_workers=1)
    vocab, merges = trainer.train_parity(paths, 300, ["<|endoftext|>"], dev=paths)
    assert len(vocab) == 300
    assert set(trainer.served) == {0, 1}
    counts = [count_text(PROSE[name] * 3) for name in ("english", "russian")]
    assert merges == train("heap", counts, counts, 43)[0]


def test_invalid_arguments_are_rejected():
    for argument, value in (
        ("unit", "words"), ("window", 0), ("alpha", 0.5), ("alpha", float("inf")),
        ("global_merges", -1),
    ):  # fmt: skip
        with rejects(argument, value):
            Parity(**{argument: value})
    with rejects("alpha", "x", kind=InputTypeError):
        Parity(alpha="x")
    trainer = TRAINERS["heap"]()
    with rejects("sources", 1):
        trainer.train_parity_from_counts([LOW], 300, dev=[LOW])
    with rejects("dev", "1 for 2"):
        trainer.train_parity_from_counts([LOW, HIGH], 300, dev=[LOW])
    with rejects("dev", "index 1"):
        trainer.train_parity_from_counts([LOW, HIGH], 300, dev=[LOW, {}])
    with rejects("trace"):
        TRAINERS["heap"](trace=print).train_parity_from_counts([LOW, HIGH], 300, dev=[LOW, HIGH])
    with rejects("superwords_from"):
        TRAINERS["heap"](superwords_from=270).train_parity_from_counts(
            [LOW, HIGH], 300, dev=[LOW, HIGH]
        )
    with pytest.warns(UserWarning, match=r"\b6 of 44\b"):
        trainer.train_parity_from_counts([LOW, HIGH], 300, dev=[LOW, HIGH])
