"""The plots and words of the sample corpus, read from the text files in `stories/`.

A story file is UTF-8 and consists of sections:

    # A comment is a line that starts with a hash sign.
    == name ==
    the section's text, up to the next section or the end of the file

A section is a list of names, a list of phrases with one per line, a table, or a plot. Phrases,
table cells and plots are templates in the language of `templates.py`. In a table, `|` separates the
columns, and the first line contains the field names. Each file starts with a comment about its
content.
"""

from __future__ import annotations

import functools
import re
from importlib import resources
from typing import NamedTuple

from cs336_basics.data.datasets.templates import Entry, Template, parse_template


class Plot(NamedTuple):
    """A plot: the template of a story, and its possible heroes, "any" or "child"."""

    template: Template
    heroes: str


class StoryLibrary(NamedTuple):
    """The parsed story files: plots, lists of phrases, and tables to cast from."""

    plots: list[Plot]
    phrases: dict[str, list[Template]]
    tables: dict[str, list[Entry]]


@functools.cache
def read_library() -> StoryLibrary:
    """Return the parsed story files. The files are read only once."""
    tables = {name: _parse_table(text) for name, text in read_sections("tables.txt").items()}
    tables |= _people(read_sections("people.txt"))
    tables["thing"] = _things(read_sections("things.txt")["things"])
    return StoryLibrary(
        plots=[
            Plot(parse_template(text), name.rpartition(": ")[2])
            for name, text in read_sections("plots.txt").items()
        ],
        phrases={
            name: [parse_template(line) for line in text.split("\n")]
            for name, text in read_sections("phrases.txt").items()
        },
        tables=tables,
    )


def read_sections(file_name: str) -> dict[str, str]:
    """Return the text of each section of a story file by name, in file order."""
    file = resources.files("cs336_basics.data.datasets").joinpath("stories", file_name)
    lines = file.read_text(encoding="utf-8").split("\n")
    text = "\n".join(line for line in lines if not line.startswith("#"))
    _, *sections = re.split(r"^== (.+) ==$", text, flags=re.MULTILINE)
    return {
        name: content.strip() for name, content in zip(sections[::2], sections[1::2], strict=True)
    }


def _parse_table(text: str) -> list[Entry]:
    """Parse a table: a header, then one line for each entry. The first column is the main field."""
    header, *lines = map(_split_columns, text.split("\n"))
    fields = ["", *header[1:]]
    return [_entry(dict(zip(fields, columns, strict=True))) for columns in lines]


def _split_columns(line: str) -> list[str]:
    # Outside brackets, `|` separates columns. Inside, it separates choices.
    return [column.strip() for column in re.findall(r"(?:\[[^\]]*\]|[^|\[])+", line)]


def _things(text: str) -> list[Entry]:
    """Return an entry for each combination of a thing and one of its adjectives."""
    entries = []
    for line in text.split("\n"):
        noun, _, adjectives = line.partition(":")
        noun = noun.strip()
        for adjective in adjectives.strip().split(", "):
            entries.append(_entry({"": f"{adjective} {noun}", "noun": noun}))
    return entries


def _people(sections: dict[str, str]) -> dict[str, list[Entry]]:
    """Return the tables "child" and "animal", which have pronouns and a home for each name."""
    homes = "[" + "|".join(sections["homes of children"].split("\n")) + "]"
    children = [_person(name, "boy", "he", homes) for name in sections["boys"].split()]
    children += [_person(name, "girl", "she", homes) for name in sections["girls"].split()]
    animals = []
    for kind, home in map(_split_columns, sections["animals"].split("\n")):
        animals += [_person(name, kind, "he", home) for name in sections["animal boys"].split()]
        animals += [_person(name, kind, "she", home) for name in sections["animal girls"].split()]
    return {"child": children, "animal": animals}


def _person(name: str, kind: str, pronoun: str, home: str) -> Entry:
    him, his, himself = ("him", "his", "himself") if pronoun == "he" else ("her", "her", "herself")
    fields = {"": name, "kind": kind, "he": pronoun, "him": him, "his": his, "himself": himself}
    return _entry({**fields, "home": home})


def _entry(fields: dict[str, str]) -> Entry:
    return {field: parse_template(text) for field, text in fields.items()}
