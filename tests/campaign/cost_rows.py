"""Rows about costs: the time and the memory that hostile and large inputs take."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from tests.campaign.row import Case, row


def _time_of(work: Callable[[str], object], text: str, times: int = 1) -> float:
    """Return the shortest CPU time of some calls, in seconds."""
    found = []
    for _ in range(times):
        start = time.process_time()
        work(text)
        found.append(time.process_time() - start)
    return min(found)


SHAPES: dict[str, Callable[[int], str]] = {
    "one letter": lambda n: "a" * n,
    "blanks": lambda n: " " * n,
    "line breaks": lambda n: "\n" * n,
    "ab": lambda n: "ab" * (n // 2),
    "a b": lambda n: "a b" * (n // 3),
    "digits": lambda n: "1234567890" * (n // 10),
    "emoji": lambda n: "👩\u200d👩\u200d👧" * (n // 5),
    "combining marks": lambda n: "e" + "\u0301\u0323" * (n // 2),
    "distinct words": lambda n: " ".join(f"{i * 2654435761 % 2**32:x}" for i in range(n // 9)),
    "special tokens": lambda n: "<|endoftext|>" * (n // 13),
    "starts of special tokens": lambda n: "<|endoftext|" * (n // 12),
    "apostrophes": lambda n: "'s'" * (n // 3),
    "quotes": lambda n: "\"'" * (n // 2),
    "Chinese": lambda n: "猫は鼠" * (n // 3),
}


def _timed() -> list[tuple[str, str]]:
    works = ["split by gpt2", "split by o200k", "encode", "encode, NFC", "count", "train"]
    return [(work, shape) for work in works for shape in SHAPES]


@row("inputs", cases=_timed, in_normal_run=False, seconds=600)
def time_of_hostile_texts(case: Case) -> int:
    """Ten times the text takes at most 12 times the CPU time, up to 10^7 characters."""
    from cs336_basics import TRAINERS, Tokenizer
    from cs336_basics.counting import count_texts
    from cs336_basics.splitting import Splitter, pretokenize
    from tests.bpe.trainers import train
    from tests.tokenizer.examples import END, trained

    if not TRAINERS["native"].is_built:
        pytest.skip("the extensions are not built")
    name, shape = case.value
    normalizer = "NFC" if name == "encode, NFC" else None
    tokenizer = Tokenizer(*trained(), [END], normalizer=normalizer)
    splitter = Splitter("gpt2", [END])

    def work(text: str) -> object:
        if name.startswith("split by "):
            return sum(1 for _ in pretokenize(text, name.removeprefix("split by ")))
        if name == "count":
            return count_texts([text], splitter)
        if name == "train":
            return train("native", {text.encode(): 1, text[1:].encode(): 2}, 50)
        return tokenizer.encode_array(text)

    checked, before = 0, 0.0
    for exponent in range(3, 8):
        seconds = _time_of(work, SHAPES[shape](10**exponent))
        # Shorter times are those of caches and of the clock.
        if before > 0.02 and seconds > 12 * before:
            # Other programs may have taken the CPU's caches, so compare the best of several times.
            before, seconds = (
                _time_of(work, SHAPES[shape](10**size), 5) for size in (exponent - 1, exponent)
            )
            told = f"{name}, {shape}: {before:.3f} s, then {seconds:.3f} s for 10^{exponent}"
            assert seconds <= 12 * before, told
        before = seconds
        checked += 1
        if seconds > 20:
            case.notes[f"{name}, {shape}: stopped at 10^{exponent} characters"] += 1
            break
    return checked
