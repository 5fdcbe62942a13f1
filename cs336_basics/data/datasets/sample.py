"""The embedded sample corpus: children's stories from a seeded generator.

A story is a plot whose slots are filled with random words. The plots and words are in the text
files in `stories/`. The same seed gives the same bytes on every platform and Python version,
because the random numbers come from SHAKE-128 and all choices use integer arithmetic. The generator
does not use the `random` module or floating point, and does not rely on the order of sets.
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
from cs336_basics._support.text import END_OF_TEXT
from cs336_basics.data.datasets.story_files import read_library
from cs336_basics.data.datasets.templates import Entry, Template, render

T = TypeVar("T")


def sample_documents(seed: int = 0) -> Iterator[str]:
    """Yield an endless sequence of stories.

    Story `i` depends only on `(seed, i)`. Use different seeds for corpora that must not overlap,
    such as training and validation text.

    A story neither starts nor ends with whitespace, and never contains `<|endoftext|>`.

    Example:
        >>> from cs336_basics.data.datasets import sample_documents
        >>> story = next(sample_documents(seed=0))
        >>> story == next(sample_documents(seed=0)), story == next(sample_documents(seed=1))
        (True, False)
    """
    seed = operator.index(seed)
    for index in itertools.count():
        yield _tell_story(random_numbers(seed, index))


def write_sample(
    path: str | os.PathLike[str], num_bytes: int, seed: int = 0, progress: bool = False
) -> Path:
    """Write whole stories to `path` until it has at least `num_bytes` bytes.

    An `<|endoftext|>` line follows each story, as in the TinyStories files. The file is UTF-8 with
    LF line endings. It appears under its name only when it is complete.

    Args:
        path: Output file.
        num_bytes: Minimum size of the file in bytes.
        seed: Seed of the stories.
        progress: Whether to show a progress bar.

    Returns:
        The path of the file.

    Raises:
        TypeError: If `num_bytes` is not an integer.
        ValueError: If `num_bytes` is not positive.

    Example:
        >>> from cs336_basics.data.datasets import write_sample
        >>> path = write_sample("sample.txt", num_bytes=10_000)
        >>> path.stat().st_size >= 10_000
        True
    """
    num_bytes = checked_integer("num_bytes", num_bytes, 1)
    written = 0
    with atomic_writer(path) as file, byte_bar(progress, num_bytes, Path(path).name) as bar:
        for story in sample_documents(seed):
            document = f"{story}\n{END_OF_TEXT}\n".encode()
            file.write(document)
            bar.update(min(len(document), num_bytes - written))
            written += len(document)
            if written >= num_bytes:
                break
    return Path(path)


# Random numbers


def random_numbers(seed: int, index: int) -> Callable[[], int]:
    """Return a function that returns the next random integer in [0, 65536) on each call.

    The integers are the SHAKE-128 (FIPS 202) digests of the messages
    "cs336_basics sample {seed} {index} {block}" with block = 0, 1, 2, ..., as little-endian 16-bit
    numbers.
    """

    def numbers() -> Iterator[int]:
        for block in itertools.count():
            message = f"cs336_basics sample {seed} {index} {block}".encode("ascii")
            yield from struct.unpack("<168H", hashlib.shake_128(message).digest(336))

    return numbers().__next__


# Telling a story


class Story:
    """The state of one story: its random numbers and its cast."""

    def __init__(self, draw: Callable[[], int]) -> None:
        self.draw = draw
        self.people = "child"  # table of the hero and the friend: "child" or "animal"
        self.cast: dict[str, Entry] = {}

    def pick(self, options: Sequence[T]) -> T:
        """Return a random option. The choice is nearly uniform for up to a few thousand options."""
        return options[self.draw() * len(options) >> 16]

    def entry(self, role: str) -> Entry:
        """Return the entry cast as `role` ("hero", "thing", "task2"). Cast it on first use."""
        if role not in self.cast:
            if role in ("hero", "friend"):
                table, rivals = self.people, ["hero", "friend"]
            else:
                table = role.rstrip("23")
                rivals = [table, f"{table}2", f"{table}3"]
            # Avoid two characters with the same name, or the same errand twice.
            taken = [self.cast[other][""] for other in rivals if other in self.cast]
            entry = self.pick(read_library().tables[table])
            while entry[""] in taken:
                entry = self.pick(read_library().tables[table])
            self.cast[role] = entry
        return self.cast[role]

    def phrase(self, name: str) -> Template:
        """Return a random phrase from the list `name`."""
        return self.pick(read_library().phrases[name])


def _tell_story(draw: Callable[[], int]) -> str:
    """Choose a plot and its heroes, and return the story."""
    story = Story(draw)
    plot = story.pick(read_library().plots)
    if plot.heroes == "any" and draw() < 26_000:  # two stories in five
        story.people = "animal"
    text = render(plot.template, story)
    paragraphs = [" ".join(paragraph.split()) for paragraph in text.split("\n")]
    text = "\n".join(paragraph for paragraph in paragraphs if paragraph)
    # One story in sixteen has typographic quotation marks, which are common in web text.
    return _curl_quotes(text) if draw() < 4096 else text


def _curl_quotes(text: str) -> str:
    text = re.sub(r'"([^"\n]*)"', "“\\1”", text)
    return text.replace("'", "’")
