"""The compiled reader of rank files gives what the readable functions give, or the same error."""

from __future__ import annotations

import base64
import random

import pytest

from cs336_basics._support.errors import InputError
from cs336_basics.formats.tiktoken import loading
from cs336_basics.formats.tiktoken.rank_merges import MAX_BYTES
from tests.formats.exported import trained
from tests.tokenizer.examples import END

BYTE_RANKS = {bytes([byte]): byte for byte in range(256)}


def lines_of(ranks):
    return b"".join(b"%b %d\n" % (base64.b64encode(t), rank) for t, rank in ranks.items())


pytestmark = pytest.mark.skipif(
    loading.read_ranks(lines_of(BYTE_RANKS), {}) is None, reason="the extensions are not built"
)


def outcome(path, special):
    try:
        definition = loading.load_tiktoken(path, special, "gpt2")
    except InputError as error:
        return type(error), str(error)
    return definition.arguments(), definition.added_ids, definition.byte_ids, definition.size


@pytest.fixture
def compare(tmp_path, monkeypatch):
    """Return a function that loads a file in both ways and says whether it was read compiled."""
    path = tmp_path / "ranks.tiktoken"

    def compare(content, special=()):
        special = dict(special)
        path.write_bytes(content)
        found = outcome(path, special)
        with monkeypatch.context() as patch:
            patch.setattr(loading, "read_ranks", lambda data, special: None)
            assert found == outcome(path, special)
        return loading.read_ranks(content, special) is not None

    return compare


def test_usual_files_are_read_compiled(compare):
    tokenizer = trained("cl100k")
    ranks = {t: i for i, t in tokenizer.vocab.items() if t != END.encode()}
    assert compare(lines_of(ranks), {END: max(ranks.values()) + 1})
    assert compare(lines_of(ranks)[:-1])  # without the last line ending
    shuffled = list(ranks.items())
    random.Random(1).shuffle(shuffled)
    assert compare(lines_of(dict(shuffled)), {END: 10_000_000})


def test_random_ranks_have_the_same_merges(compare):
    chooser = random.Random(2)
    for letters in (b"ab", b"abc", b"abcdefgh"):
        for _ in range(15):
            sizes = [2, 2, 2, 3, 3, 4, 5, 7, 15, 16, 31, 32, 33, 60]
            tokens = {bytes(chooser.choices(letters, k=chooser.choice(sizes))) for _ in range(60)}
            numbers = chooser.sample(range(256, 5000), len(tokens))
            ranks = BYTE_RANKS | dict(zip(sorted(tokens), numbers, strict=True))
            assert compare(lines_of(ranks))


def test_special_tokens_may_share_bytes_or_have_wrong_ids(compare):
    content = lines_of(BYTE_RANKS | {b"ab": 256, b"the": 257})
    assert compare(content, {"the": 258, "ab": 300, END: 4000})
    for token_id in (-1, 0, 256, 2**32 - 1, 2**32, 1.5, "3", None, True):
        assert not compare(content, {END: token_id})
    assert not compare(content, {END: 258, "x": 258})


def test_unusual_and_invalid_lines(compare):
    content = lines_of(BYTE_RANKS | {b"ab": 256, b"abc": 257})
    for line in (
        *(b"", b"\n", b" ", b"YWI=", b"YWI= ", b"YWI= 1.5", b"YWI= -1", b"YWI= 300 1", b"= 300"),
        *(b"YWI 300", b"YWJj= 300", b"Y 300", b"YWJ= 300", b"YX== 300", b"Y*== 300", b"\xff 300"),
        *(
            b"eHg=  300",
            b" eHg= 300",
            b"eHg=\t300",
            b"eHg= 300\r",
            b"eHg= 0300",
            b"eHg= 00000000300",
        ),
        *(b"eHg= 4294967295", b"eHg= 4294967296", b"eHg= 99999999999", b"YWI= 300", b"eHg= 256"),
    ):
        compare(content + line)
        compare(line + b"\n" + content)
    for byte in (0, 97, 255):
        compare(lines_of({t: rank for t, rank in BYTE_RANKS.items() if t[0] != byte}))
    long = {bytes([97 + i]) * (MAX_BYTES // 3): 300 + i for i in range(4)}
    assert not compare(lines_of(BYTE_RANKS | long))


def test_damaged_files(compare):
    content = lines_of({**dict(list(BYTE_RANKS.items())[90:]), b"ab": 256, b"abc": 257})
    content += lines_of(dict(list(BYTE_RANKS.items())[:90]))
    assert compare(content)
    chooser = random.Random(4)
    for _ in range(150):
        at = chooser.randrange(len(content))
        inserted = bytes([chooser.choice(b"= \n\r\0Aa/+09\xff")])
        stop = at + chooser.randrange(3)
        compare(content[:at] + chooser.choice([b"", inserted]) + content[stop:])
