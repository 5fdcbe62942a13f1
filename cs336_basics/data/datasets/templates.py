"""The template language of the story files: text with slots, parsed once, rendered for each story.

    [red|blue|]      one of these (here also: nothing); choices nest
    {hero}           an entry of this story's cast; cast on first use, then the same to the end
    {food.was}       another field of the same entry ("was" or "were")
    {task2}          a second entry of the same table, never the one that {task} is
    {he} {his}       short for {hero.he} {hero.his}
    <bird>           a new phrase of a list at each use
    {a thing}        with "a" or "an" in front; also <a bird>
    {He} {A thing}   a capital letter asks for a capital letter

White space counts as in TeX: a line break is a space, several spaces are one, and a blank line
starts a new paragraph (one line break in the story, as in the TinyStories files).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

Template = list[Any]
"""A sequence of text (str), Choice, Cast and Phrase."""

Entry = dict[str, Template]
"""A line of a table: field -> template. The main field is called ""."""


def render(template: Template, story: Any) -> str:
    """Return the text of a template; a `Story` picks its choices, its cast and its phrases."""
    return "".join([item if type(item) is str else item.render(story) for item in template])


class Choice(NamedTuple):
    """`[this|that]`: one of several templates."""

    options: list[Template]

    def render(self, story: Any) -> str:
        """Return the text of one of the options."""
        return render(story.pick(self.options), story)


class Cast(NamedTuple):
    """`{role}` or `{role.field}`: who or what plays a role in this story."""

    role: str
    field: str
    form: Callable[[str], str]

    def render(self, story: Any) -> str:
        """Return the field's text, with the article or the capital that was asked for."""
        return self.form(render(story.entry(self.role)[self.field], story))


class Phrase(NamedTuple):
    """`<list>`: a new phrase at each use."""

    name: str
    form: Callable[[str], str]

    def render(self, story: Any) -> str:
        """Return a phrase, with the article or the capital that was asked for."""
        return self.form(render(story.phrase(self.name), story))


def parse_template(text: str) -> Template:
    """Parse a template.

    Raises:
        ValueError: brackets do not match, or a slot does not follow the language.
    """
    paragraphs = re.split(r"\n[ ]*\n", text.strip())
    text = "\n".join(paragraph.replace("\n", " ") for paragraph in paragraphs)
    tokens = re.findall(r"\{[^{}]*\}|<[^<>]*>|[\[|\]]|[^\[|\]{}<>]+", text)
    template, end = _parse_sequence(tokens, 0)
    if end < len(tokens) or "".join(tokens) != text:
        raise ValueError(f"the brackets of this template do not match: {text!r}")
    return template


def _parse_sequence(tokens: list[str], start: int) -> tuple[Template, int]:
    """Parse up to the next `|` or `]` of this level; return the template and that token's index."""
    template: Template = []
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
            template.append(Choice(options))
        else:
            template.append(_parse_slot(token) if token[0] in "{<" else token)
        start += 1
    return template, start


def _parse_slot(token: str) -> Cast | Phrase:
    """Parse `{role}`, `{a role.field}`, `<list>`, ..."""
    match = re.fullmatch(r"[{<]([aA] )?(\w+?)(?:\.(\w+))?[}>]", token)
    if match is None:
        raise ValueError(f"{token!r} is not a slot of the template language")
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
    # Not str.capitalize, which changes all other letters to lower case.
    return text[0].upper() + text[1:]


def _with_article(phrase: str) -> str:
    # By sound, not by letter: "a one-eyed doll", "an honest boy".
    sounds_open = phrase[0].lower() in "aeiou" and not phrase.startswith(("one", "uni", "use"))
    return ("an " if sounds_open or phrase.startswith("honest") else "a ") + phrase


def _with_capital_article(phrase: str) -> str:
    return _capitalize(_with_article(phrase))
