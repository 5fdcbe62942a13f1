"""The template language of the story files: text with slots, parsed once, rendered for each story.

    [red|blue|]      "red", "blue" or nothing; choices can be nested
    {hero}           an entry of the story's cast, chosen on first use
    {food.was}       another field of the entry {food} ("was" or "were")
    {task2}          a second entry of the same table, different from {task}
    {he} {his}       short for {hero.he} {hero.his}
    <bird>           a phrase from a list, chosen at each use
    {a thing}        an entry preceded by "a" or "an"; also <a bird>
    {He} {A thing}   an entry that starts with a capital letter

Whitespace is treated as in TeX: a line break is a space, several spaces are one space, and a blank
line starts a new paragraph (one line break in the story, as in the TinyStories files).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

Template = list[Any]
"""A sequence of str, Choice, Cast and Phrase."""

Entry = dict[str, Template]
"""A table row, as a mapping from field names to templates. The main field is named ""."""


def render(template: Template, story: Any) -> str:
    """Return the text of a template, with the choices, cast and phrases of a `Story`."""
    return "".join([item if type(item) is str else item.render(story) for item in template])


class Choice(NamedTuple):
    """A choice between templates, `[this|that]`."""

    options: list[Template]

    def render(self, story: Any) -> str:
        """Return the text of a random option."""
        return render(story.pick(self.options), story)


class Cast(NamedTuple):
    """A slot for an entry of the cast, `{role}` or `{role.field}`."""

    role: str
    field: str
    form: Callable[[str], str]

    def render(self, story: Any) -> str:
        """Return the text of the field, with an article or a capital letter if requested."""
        return self.form(render(story.entry(self.role)[self.field], story))


class Phrase(NamedTuple):
    """A slot for a random phrase, `<list>`."""

    name: str
    form: Callable[[str], str]

    def render(self, story: Any) -> str:
        """Return the text of a phrase, with an article or a capital letter if requested."""
        return self.form(render(story.phrase(self.name), story))


def parse_template(text: str) -> Template:
    """Parse a template. Its brackets must match, and its slots must be well-formed."""
    paragraphs = re.split(r"\n[ ]*\n", text.strip())
    text = "\n".join(paragraph.replace("\n", " ") for paragraph in paragraphs)
    tokens = re.findall(r"\{[^{}]*\}|<[^<>]*>|[\[|\]]|[^\[|\]{}<>]+", text)
    return _parse_sequence(tokens, 0)[0]


def _parse_sequence(tokens: list[str], start: int) -> tuple[Template, int]:
    """Parse up to the next `|` or `]` at this level, and return the template and its end index."""
    template: Template = []
    while start < len(tokens) and tokens[start] not in ("|", "]"):
        token = tokens[start]
        if token == "[":
            options = []
            while token != "]":
                option, start = _parse_sequence(tokens, start + 1)
                options.append(option)
                token = tokens[start]
            template.append(Choice(options))
        else:
            template.append(_parse_slot(token) if token[0] in "{<" else token)
        start += 1
    return template, start


def _parse_slot(token: str) -> Cast | Phrase:
    """Parse `{role}`, `{a role.field}`, `<list>`, ..."""
    match = re.fullmatch(r"[{<]([aA] )?(\w+?)(?:\.(\w+))?[}>]", token)
    assert match is not None, token
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
        return Phrase(name, form)
    if name in ("kind", "home", "he", "him", "his", "himself"):
        name, field = "hero", name
    return Cast(name, field or "", form)


def _capitalize(text: str) -> str:
    # str.capitalize would change all other letters to lower case.
    return text[0].upper() + text[1:]


def _with_article(phrase: str) -> str:
    # The sound decides, not the letter: "a one-eyed doll", "an honest boy".
    sounds_open = phrase[0].lower() in "aeiou" and not phrase.startswith(("one", "uni", "use"))
    return ("an " if sounds_open or phrase.startswith("honest") else "a ") + phrase


def _with_capital_article(phrase: str) -> str:
    return _capitalize(_with_article(phrase))
