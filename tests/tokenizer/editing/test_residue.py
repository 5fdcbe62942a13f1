"""Tokens that are only steps: their counts, and a vocabulary without them."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pytest

from cs336_basics.bpe import TRAINERS
from cs336_basics.bpe.reference import split_bytes, steps_by_rank
from cs336_basics.counting import count_text
from cs336_basics.splitting.splitter import pretokenize
from cs336_basics.tokenizer import (
    Tokenizer,
    count_steps,
    count_tokens,
    only_steps,
    without_residue,
)
from tests.commands.small_run import command
from tests.errors import rejects
from tests.texts import PROSE, long_text
from tests.tokenizer.examples import END, byte_tokenizer, edited_merges

TEXT = " little cat, little mat: at the cat.\n" * 9


def trained(text: str, size: int = 300) -> Tokenizer:
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return Tokenizer(*TRAINERS["heap"]().train_from_iterator([text], size, [END]), [END])


def specified_steps(tokenizer: Tokenizer, words) -> tuple[Counter, Counter]:
    """Return how often each token is final and how often it is a step, by merging every word."""
    ranks = {pair: rank for rank, pair in enumerate(tokenizer.merges)}
    final, steps = Counter(), Counter()
    for word, count in words.items():
        symbols = split_bytes(word)
        for _, i, after in steps_by_rank(symbols, ranks):
            for part in symbols[i : i + 2]:
                steps[part] += count if len(part) > 1 else 0
            symbols = after
        for token in symbols:
            final[token] += count
    return final, steps


def final_counts(tokenizer: Tokenizer, final: Counter) -> np.ndarray:
    counts = np.zeros(tokenizer.vocab_size, np.int64)
    for token, count in final.items():
        counts[tokenizer.token_to_id(token)] += count
    return counts


def test_steps_follow_from_the_final_tokens():
    text = long_text(3, 4000).replace(END, "")
    tokenizer = trained(text, 500)
    final, steps = specified_steps(tokenizer, count_text(text))
    found = count_steps(tokenizer, final_counts(tokenizer, final))
    assert {tokenizer.vocab[i]: int(found[i]) for i in np.flatnonzero(found)} == +steps


def test_steps_of_edited_vocabularies_are_those_of_the_merges():
    for seed in range(60):
        tokenizer = Tokenizer(*edited_merges(seed))
        words = {"".join(random.Random(seed + i).choices("abc", k=7)).encode(): 1 for i in range(9)}
        final, steps = specified_steps(tokenizer, words)
        found = count_steps(tokenizer, final_counts(tokenizer, final))
        assert {tokenizer.vocab[i]: int(found[i]) for i in np.flatnonzero(found)} == +steps, seed


def test_tokens_that_are_only_steps_are_removed(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text(TEXT + END, encoding="utf-8")
    tokenizer = trained(TEXT)
    counts = count_tokens(tokenizer, path)
    residue = {tokenizer.vocab[i] for i in only_steps(tokenizer, counts)}
    assert residue
    found = without_residue(tokenizer, path)
    removed = {tokenizer.vocab[i] for i in np.flatnonzero(found.id_map == -1)}
    assert removed <= residue
    assert removed
    assert len(found.tokenizer) == len(tokenizer) - len(removed)
    new = found.tokenizer.encode(TEXT)
    assert new == found.id_map[tokenizer.encode(TEXT)].tolist()
    assert found.tokenizer.decode(new) == TEXT
    # A token that is produced only as a whole pre-token is split elsewhere, without loss.
    assert b" little" in found.only_whole
    assert found.tokenizer.decode(found.tokenizer.encode(" littlest")) == " littlest"
    found.tokenizer.save(tmp_path / "saved")
    assert Tokenizer.from_directory(tmp_path / "saved").encode(TEXT) == new


def check_random_cases(first: int, number: int) -> None:
    """Texts keep their ids, except where `without_residue` says that they may not."""
    for seed in range(first, first + number):
        chooser = random.Random(seed)
        if seed % 2:
            lines = PROSE["english"].split() + PROSE["russian"].split()
            text = " ".join(chooser.choices(lines, k=40))
        else:
            text = " ".join("".join(chooser.choices("abc", k=5)) for _ in range(30))
        tokenizer = trained(text, 256 + chooser.randint(5, 90))
        found = without_residue(tokenizer, count_text(text))
        assert found.tokenizer.encode(text) == found.id_map[tokenizer.encode(text)].tolist(), seed
        removed = {tokenizer.vocab[i] for i in np.flatnonzero(found.id_map == -1)}
        alphabet = [token.decode(errors="ignore") for token in tokenizer.vocab.values()]
        other = "".join(chooser.choices(alphabet, k=60)) + text[::-1]
        for word in pretokenize(other, "gpt2"):
            ids = tokenizer.encode(word)
            tokens = {tokenizer.vocab[i] for i in ids}
            new = found.tokenizer.encode(word)
            if not tokens & removed and not (len(ids) > 1 and tokens & {*found.only_whole}):
                assert new == found.id_map[ids].tolist(), (seed, word)
            assert found.tokenizer.decode(new) == word


def test_other_random_texts_keep_their_ids():
    check_random_cases(0, 30)


@pytest.mark.slow
def test_ten_thousand_random_texts_keep_their_ids():
    check_random_cases(1000, 10_000)


def test_tokens_that_their_bytes_do_not_become_are_rejected():
    # "ab" is merged before "bc", so no text becomes "abc".
    tokenizer = byte_tokenizer(merges=[(b"a", b"b"), (b"b", b"c"), (b"a", b"bc")])
    with rejects("tokenizer", "b'abc'"):
        without_residue(tokenizer, {b"abc": 1})


def test_the_command_removes_residue(tmp_path, capsys):
    path = tmp_path / "text.txt"
    path.write_text(TEXT, encoding="utf-8")
    tokenizer = trained(TEXT)
    tokenizer.save(tmp_path / "old")
    words = ["--tokenizer", str(tmp_path / "old"), "--input", str(path)]
    words += ["--output", str(tmp_path / "new")]
    main = command("prune")
    assert main([*words, "--residue"]) == 0
    expected = without_residue(tokenizer, path).tokenizer
    assert Tokenizer.from_directory(tmp_path / "new").vocab == expected.vocab
    assert "ids        unchanged, except in text with a removed token" in capsys.readouterr().out
    for more in ([], ["--residue", "--vocab-size", "280"]):
        assert main([*words, "--overwrite", *more]) == 2
        assert "give either --vocab-size or --residue" in capsys.readouterr().err
    assert command("tokens")(words[:4]) == 0
    printed = capsys.readouterr().out
    assert "most frequent tokens that are only steps: " in printed
    assert " littl" in printed
