"""The embedded sample corpus: children's stories from a seeded generator.

Nothing is downloaded: a story is a plot whose slots are filled with words, both from the text files
in `stories/`, by a stream of random numbers. The same seed gives the same bytes on every platform
and every version of Python, because the numbers come from SHAKE-128 and each decision is integer
arithmetic: no `random` module, no floating point, no order of sets or hashes.
"""

from __future__ import annotations

import hashlib
import itertools
import operator
import os
import re
import struct
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from cs336_basics._support.arguments import checked_integer
from cs336_basics._support.files import atomic_writer
from cs336_basics._support.progress import byte_bar
from cs336_basics.data.datasets.story_files import read_library
from cs336_basics.data.datasets.templates import Entry, Template, render

SEPARATOR = "<|endoftext|>"

T = TypeVar("T")


def sample_documents(seed: int = 0) -> Iterator[str]:
    """Yield stories without end, the same ones for the same seed.

    Document number `i` depends on `(seed, i)` alone. Corpora that must not overlap, such as
    training and validation text, take different seeds.

    A story neither starts nor ends with white space, and never contains `<|endoftext|>`.
    """
    seed = operator.index(seed)
    for index in itertools.count():
        yield _tell_story(random_numbers(seed, index))


def write_sample(
    path: str | os.PathLike[str], num_bytes: int, seed: int = 0, progress: bool = False
) -> Path:
    """Write stories to `path` until it holds at least `num_bytes` bytes; return the path.

    After each story comes a line `<|endoftext|>`, as in the TinyStories files. The file ends after
    the story that reaches `num_bytes`, so it holds whole stories only. UTF-8, LF line ends. The
    file appears under its name when it is complete.

    Raises:
        TypeError: `num_bytes` is not an integer.
        ValueError: it is not positive.
    """
    num_bytes = checked_integer("num_bytes", num_bytes, 1)
    written = 0
    with atomic_writer(path) as file, byte_bar(progress, num_bytes, Path(path).name) as bar:
        for story in sample_documents(seed):
            document = f"{story}\n{SEPARATOR}\n".encode()
            file.write(document)
            bar.update(min(len(document), num_bytes - written))
            written += len(document)
            if written >= num_bytes:
                break
    return Path(path)


# Random numbers


def random_numbers(seed: int, index: int) -> Callable[[], int]:
    """Return a function that gives the next of endlessly many integers in [0, 65536).

    They are the output of SHAKE-128 (FIPS 202), read as little-endian 16-bit numbers, for the
    messages "cs336_basics sample {seed} {index} {block}" with block = 0, 1, 2, ...
    """

    def numbers() -> Iterator[int]:
        for block in itertools.count():
            message = f"cs336_basics sample {seed} {index} {block}".encode("ascii")
            yield from struct.unpack("<168H", hashlib.shake_128(message).digest(336))

    return numbers().__next__


# Telling a story


class Story:
    """One story while it is told: its random numbers and its cast."""

    def __init__(self, draw: Callable[[], int]) -> None:
        self.draw = draw
        self.people = "child"  # the table of the hero and the friend: "child" or "animal"
        self.cast: dict[str, Entry] = {}

    def pick(self, options: Sequence[T]) -> T:
        """Return one of at most a few thousand options, each with nearly the same probability."""
        return options[self.draw() * len(options) >> 16]

    def entry(self, role: str) -> Entry:
        """Return who or what plays `role` ("hero", "thing", "task2"), casting it on first use."""
        if role not in self.cast:
            if role in ("hero", "friend"):
                table, rivals = self.people, ["hero", "friend"]
            else:
                table = role.rstrip("23")
                rivals = [table, f"{table}2", f"{table}3"]
            # Two heroes of one name, or the same errand twice, would spoil the story.
            taken = [self.cast[other][""] for other in rivals if other in self.cast]
            entry = self.pick(read_library().tables[table])
            while entry[""] in taken:
                entry = self.pick(read_library().tables[table])
            self.cast[role] = entry
        return self.cast[role]

    def phrase(self, name: str) -> Template:
        """Return a phrase of the list `name`, drawn again at each use."""
        return self.pick(read_library().phrases[name])


def _tell_story(draw: Callable[[], int]) -> str:
    """Choose a plot and its heroes, and write the story."""
    story = Story(draw)
    plot = story.pick(read_library().plots)
    if plot.heroes == "any" and draw() < 26_000:  # two stories in five
        story.people = "animal"
    text = render(plot.template, story)
    paragraphs = [" ".join(paragraph.split()) for paragraph in text.split("\n")]
    text = "\n".join(paragraph for paragraph in paragraphs if paragraph)
    # One story in sixteen has typographic quotation marks, as text from the web often does.
    return _curl_quotes(text) if draw() < 4096 else text


def _curl_quotes(text: str) -> str:
    text = re.sub(r'"([^"\n]*)"', "“\\1”", text)
    return text.replace("'", "’")
