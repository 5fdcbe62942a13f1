"""Exercise 4: safe cuts."""

import io

from cs336_basics.splitting import pretokenize
from exercises import ex4_cut as exercise

TEXTS = [
    "low lower widest newest",
    "It's 3,000 words,  with  wide   spaces \n\n and\nlines.\n",
    "don't   \t tabs\tand \u00a0 \u3000 wide spaces",
    "née café — 中文没有空格 😀 end",
    "nospaceatallinthisone",
    "    ",
    "",
]


def test_a_cut_does_not_change_the_pre_tokens():
    for text in TEXTS:
        data, whole = text.encode(), list(pretokenize(text))
        for target in range(len(data) + 2):
            cut = exercise.next_cut(io.BytesIO(data), target)
            assert min(target, len(data)) <= cut <= len(data)
            left, right = data[:cut].decode(), data[cut:].decode()  # fails inside a character
            assert [*pretokenize(left), *pretokenize(right)] == whole, (left, right)


def test_a_cut_is_near_the_target():
    data = b"low lower widest newest " * 1000
    for target in range(0, len(data) - 100, 97):
        assert exercise.next_cut(io.BytesIO(data), target) <= target + 10
