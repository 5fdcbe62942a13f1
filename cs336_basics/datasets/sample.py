"""The embedded sample corpus: children's stories from a seeded generator.

Nothing is downloaded: a story is a plot (`sample_plots.py`) whose open places are filled with words
(`sample_words.py`) by a stream of random numbers. The same seed gives the same bytes on every
platform and every version of Python, because the numbers come from SHAKE-128 and each decision is
integer arithmetic: no `random` module, no floating point, no order of sets or hashes.

Plots and words are written in a small template language:

    [red|blue|]      one of these (here also: nothing); choices nest
    {hero}           what this story's cast holds; cast on first use, then the same to the end
    {food.was}       another field of the same entry of the cast ("was" or "were")
    {task2}          a second entry of the same table, never the one that {task} is
    {he} {his}       short for {hero.he} {hero.his}
    <bird>           a phrase drawn afresh from a list
    {a thing}        with "a" or "an" in front; also <a bird>
    {He} {A thing}   a capital letter asks for a capital letter

White space counts as in TeX: a line break is a space, several spaces are one, and a blank line
starts a new paragraph (one line break in the story, as in the TinyStories files).
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import operator
import os
import re
import struct
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from cs336_basics._files import atomic_writer
from cs336_basics.datasets import sample_plots, sample_words

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
        yield _tell_story(_random_numbers(seed, index))


def write_sample(
    path: str | os.PathLike[str], num_bytes: int, seed: int = 0, progress: bool = False
) -> Path:
    """Write stories to `path` until it holds at least `num_bytes` bytes; return the path.

    After each story comes a line `<|endoftext|>`, as in the TinyStories files. The file ends after
    the story that reaches `num_bytes`, so it holds whole stories only. UTF-8, LF line ends. The
    file appears under its name when it is complete.

    Raises:
        ValueError: `num_bytes` is not positive.
    """
    if num_bytes <= 0:
        raise ValueError(f"num_bytes must be positive, not {num_bytes}")
    bar: Any = None
    if progress:
        from tqdm import tqdm  # here, so that the generator itself needs nothing installed

        bar = tqdm(total=num_bytes, desc=Path(path).name, unit="B", unit_scale=True)
    written = 0
    with atomic_writer(path) as file:
        for story in sample_documents(seed):
            document = f"{story}\n{SEPARATOR}\n".encode()
            file.write(document)
            written += len(document)
            if bar is not None:
                bar.update(min(len(document), num_bytes - bar.n))
            if written >= num_bytes:
                break
    if bar is not None:
        bar.close()
    return Path(path)


# Random numbers


def _random_numbers(seed: int, index: int) -> Callable[[], int]:
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


class _Story:
    """One story while it is told: its random numbers and its cast."""

    def __init__(self, draw: Callable[[], int]) -> None:
        self.draw = draw
        self.people = "child"  # the table of the hero and the friend: "child" or "animal"
        self.cast: dict[str, Entry] = {}

    def pick(self, options: Sequence[T]) -> T:
        """Return one of at most a few thousand options, each about equally likely."""
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
            entry = self.pick(_library().tables[table])
            while entry[""] in taken:
                entry = self.pick(_library().tables[table])
            self.cast[role] = entry
        return self.cast[role]


def _tell_story(draw: Callable[[], int]) -> str:
    """Choose a plot and its heroes, and write the story out."""
    story = _Story(draw)
    plot, heroes = story.pick(_library().plots)
    if heroes == "any" and draw() < 26_000:  # about two stories in five
        story.people = "animal"
    text = _render(plot, story)
    paragraphs = [" ".join(paragraph.split()) for paragraph in text.split("\n")]
    text = "\n".join(paragraph for paragraph in paragraphs if paragraph)
    # One story in sixteen has typographic quotation marks, as text from the web often does.
    return _curl_quotes(text) if draw() < 4096 else text


def _curl_quotes(text: str) -> str:
    text = re.sub(r'"([^"\n]*)"', "“\\1”", text)
    return text.replace("'", "’")


# The template language: text with open places, parsed once and rendered for every story


class _Choice(NamedTuple):
    """`[this|that]`: one of several templates."""

    options: list[Template]

    def render(self, story: _Story) -> str:
        return _render(story.pick(self.options), story)


class _Cast(NamedTuple):
    """`{role}` or `{role.field}`: who or what plays a role in this story."""

    role: str
    field: str
    form: Callable[[str], str]

    def render(self, story: _Story) -> str:
        return self.form(_render(story.entry(self.role)[self.field], story))


class _Phrase(NamedTuple):
    """`<list>`: a phrase drawn afresh."""

    name: str
    form: Callable[[str], str]

    def render(self, story: _Story) -> str:
        return self.form(_render(story.pick(_library().phrases[self.name]), story))


Template = list[Any]  # a sequence of parts: text (str), _Choice, _Cast or _Phrase
Entry = dict[str, Template]  # a line of a table: field -> template; the main field is called ""


def _render(template: Template, story: _Story) -> str:
    return "".join([part if type(part) is str else part.render(story) for part in template])


def _parse(text: str) -> Template:
    """Parse a template; a ValueError says what is wrong with it."""
    paragraphs = re.split(r"\n[ ]*\n", text.strip())
    text = "\n".join(paragraph.replace("\n", " ") for paragraph in paragraphs)
    tokens = re.findall(r"\{[^{}]*\}|<[^<>]*>|[\[|\]]|[^\[|\]{}<>]+", text)
    template, end = _parse_sequence(tokens, 0)
    if end < len(tokens) or "".join(tokens) != text:
        raise ValueError(f"the brackets of this template do not match: {text!r}")
    return template


def _parse_sequence(tokens: list[str], start: int) -> tuple[Template, int]:
    """Parse up to the next `|` or `]` of this level; return the parts and where it stands."""
    parts: Template = []
    while start < len(tokens) and tokens[start] not in ("|", "]"):
        token = tokens[start]
        if token == "[":
            options = []
            while token != "]":
                option, start = _parse_sequence(tokens, start + 1)
                options.append(option)
                if start == len(tokens):
                    raise ValueError(f"a '[' without its ']' in the template {''.join(tokens)!r}")
                token = tokens[start]
            parts.append(_Choice(options))
        else:
            parts.append(_parse_slot(token) if token[0] in "{<" else token)
        start += 1
    return parts, start


def _parse_slot(token: str) -> _Cast | _Phrase:
    """Parse `{role}`, `{a role.field}`, `<list>`, ..."""
    match = re.fullmatch(r"[{<]([aA] )?(\w+?)(?:\.(\w+))?[}>]", token)
    if match is None:
        raise ValueError(f"{token!r} is no slot of the template language")
    article, name, field = match.groups()
    form: Callable[[str], str] = str
    if article == "A ":
        form = _with_capital_article
    elif article == "a ":
        form = _with_article
    elif name[0].isupper():
        form = _capitalize
    name = name[0].lower() + name[1:]
    if token[0] == "<":
        return _Phrase(name, form)
    if name in ("kind", "home", "he", "him", "his", "himself"):
        name, field = "hero", name
    return _Cast(name, field or "", form)


def _capitalize(text: str) -> str:
    # Not str.capitalize, which makes all other letters small.
    return text[0].upper() + text[1:]


def _with_article(phrase: str) -> str:
    # By sound, not by letter: "a one-eyed doll", "an honest boy".
    sounds_open = phrase[0].lower() in "aeiou" and not phrase.startswith(("one", "uni", "use"))
    return ("an " if sounds_open or phrase.startswith("honest") else "a ") + phrase


def _with_capital_article(phrase: str) -> str:
    return _capitalize(_with_article(phrase))


# The material, parsed


class _Library(NamedTuple):
    plots: list[tuple[Template, str]]  # each with who can be its hero, "any" or "child"
    phrases: dict[str, list[Template]]
    tables: dict[str, list[Entry]]


@functools.cache
def _library() -> _Library:
    """Parse all plots and words, when the first story is told."""
    words = sample_words
    tables = {role: _parse_table(text) for role, text in words.ROLES.items()}
    tables["thing"] = [
        _entry({"": f"{adjective} {noun.strip()}", "noun": noun.strip()})
        for noun, adjectives in (line.split(":") for line in words.THINGS.strip().split("\n"))
        for adjective in adjectives.strip().split(", ")
    ]
    homes = "[" + "|".join(words.CHILD_HOMES.strip().split("\n")) + "]"
    tables["child"] = [
        *(_person(name, "boy", "he", homes) for name in words.BOYS.split()),
        *(_person(name, "girl", "she", homes) for name in words.GIRLS.split()),
    ]
    tables["animal"] = []
    males, females = words.ANIMAL_BOYS.split(), words.ANIMAL_GIRLS.split()
    for kind, home in map(_split_columns, words.ANIMALS.strip().split("\n")):
        tables["animal"] += [_person(name, kind, "he", home) for name in males]
        tables["animal"] += [_person(name, kind, "she", home) for name in females]
    return _Library(
        plots=[(_parse(plot), heroes) for plot, heroes in sample_plots.PLOTS],
        phrases={
            name: [_parse(line) for line in lines.strip().split("\n")]
            for name, lines in words.LISTS.items()
        },
        tables=tables,
    )


def _parse_table(text: str) -> list[Entry]:
    """Parse lines of columns under a header; the first column is the main field."""
    header, *lines = map(_split_columns, text.strip().split("\n"))
    fields = ["", *header[1:]]
    return [_entry(dict(zip(fields, columns, strict=True))) for columns in lines]


def _split_columns(line: str) -> list[str]:
    # Only a `|` outside brackets separates columns; inside it separates choices.
    return [column.strip() for column in re.findall(r"(?:\[[^\]]*\]|[^|\[])+", line)]


def _person(name: str, kind: str, pronoun: str, home: str) -> Entry:
    him, his, himself = ("him", "his", "himself") if pronoun == "he" else ("her", "her", "herself")
    fields = {"": name, "kind": kind, "he": pronoun, "him": him, "his": his, "himself": himself}
    return _entry({**fields, "home": home})


def _entry(fields: dict[str, str]) -> Entry:
    return {field: _parse(text) for field, text in fields.items()}
