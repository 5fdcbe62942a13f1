"""Holding out the end of a text for validation, at a document boundary where there is one."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from cs336_basics._files import atomic_writer, sha256_file
from cs336_basics._text import END_OF_TEXT
from cs336_basics.pretokenization.chunking import next_cut
from cs336_basics.pretokenization.safe_cuts import SafeCuts
from cs336_basics.runs.stages import Stages


def hold_out(text: Path, fraction: float, directory: Path, stages: Stages) -> tuple[Path, Path]:
    """Copy a text into train.txt and valid.txt: its last documents, about `fraction` of its bytes.

    The cut is after an end-of-text token if one is near; otherwise, as in a text that is one long
    document, between two words.

    Raises:
        ValueError: the text cannot be cut.
    """
    size = text.stat().st_size
    target = max(1, round(size * (1 - fraction)))
    cut = cut_near(text, target, size, fraction)
    if cut is None:
        raise ValueError(
            f"{text} ({size:,} bytes) cannot be cut before its last {fraction:.0%}, for "
            "validation: give data.valid_path"
        )
    directory.mkdir(parents=True, exist_ok=True)
    inputs = {"source": sha256_file(text), "cut": cut}
    files = []
    for split, start, end in (("train", 0, cut), ("valid", cut, size)):
        file = directory / f"{split}.txt"
        copy = partial(_copy_range, text, start, end, file)
        stages.run(f"{split} text", inputs, file, copy)
        files.append(file)
    return files[0], files[1]


def cut_near(text: Path, target: int, size: int, fraction: float) -> int | None:
    """Return an offset that leaves between half and twice of `fraction` for validation, or None."""
    earliest, latest = round(size * (1 - 2 * fraction)), round(size * (1 - fraction / 2))
    with open(text, "rb") as file:
        # The first finds only ends of end-of-text tokens, since its pattern never splits; the
        # second finds offsets between words, which are never inside such a token.
        for cuts in (SafeCuts([END_OF_TEXT], r"[\s\S]+"), SafeCuts()):
            for start in (target, max(1, earliest)):
                cut = next_cut(file, start, cuts)
                if cut <= latest and cut < size:
                    return cut
        # Then it is a small text of few words.
        cut = next_cut(file, max(1, earliest), SafeCuts())
    return cut if cut < size else None


def _copy_range(source: Path, start: int, end: int, destination: Path) -> None:
    with open(source, "rb") as reader, atomic_writer(destination) as writer:
        reader.seek(start)
        left = end - start
        while left > 0:
            block = reader.read(min(left, 1 << 20))
            writer.write(block)
            left -= len(block)
