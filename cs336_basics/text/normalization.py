"""Unicode normalization, the stage between repairing a text and splitting it.

Most text is normalized already. A quick check recognizes it in a fraction of the time that
`unicodedata` needs: a text is normalized if it has only characters that are normalized by
themselves and are not joined with the character before them, and its marks are in the order of
their combining classes (Unicode Standard Annex 15, section 9). Only the characters that the check
rejects, and those that they may be joined with, are normalized by `unicodedata`.
"""

from __future__ import annotations

import functools
import sys
import unicodedata
from array import array
from collections.abc import Callable, Iterator
from typing import TypeVar

from cs336_basics._support.arguments import check_choice

try:
    from cs336_basics.text._normalization import NormalCharacters
except ImportError:  # not built
    NormalCharacters = None  # type: ignore[assignment, misc]

AnyText = TypeVar("AnyText", str, bytes)

NORMALIZERS = ("NFC", "NFD", "NFKC", "NFKD")
"""The normalization forms (Unicode Standard Annex 15)."""

# All other code points are unassigned, or have no decomposition, the combining class 0 and nothing
# to combine with. Checking these here instead of all of them saves a second.
_CHECKED = (
    range(0x3400),
    range(0xA000, 0xAC00),
    range(0xD7A4, 0xD800),
    range(0xF900, 0x20000),
    range(0x2F800, 0x2FA20),
)
_BLOCK = 32
_MAX_UNAIDED = 1 << 24
"""Number of characters that `unicodedata` checks in the time in which tables are made, 20 ms."""
_JOINING, _OTHER = 254, 255
"""Classes of characters; see native/unicode/normal_characters.hpp."""
_HANGUL_SYLLABLES = range(0xAC00, 0xD7A4)
_HANGUL_VOWELS_AND_FINALS = (*range(0x1161, 0x1176), *range(0x11A8, 0x11C3))


def check_normalizer(normalizer: str | None) -> str | None:
    """Return `normalizer` if it is None or one of NORMALIZERS.

    Raises:
        ValueError: If it is something else.
    """
    if normalizer is not None:
        check_choice("normalizer", normalizer, NORMALIZERS, ", or None")
    return normalizer


def normalized(text: AnyText, normalizer: str | None) -> AnyText:
    """Return a text in a normalization form: the text itself if it is normalized already.

    Args:
        text: A str, or bytes of valid UTF-8.
        normalizer: Name in NORMALIZERS, or None, which changes nothing.
    """
    if normalizer is None or text.isascii():
        return text
    runs = doubtful_runs(normalizer)(text)
    if not runs:
        return text
    parts: list[AnyText] = []
    done = 0
    for start, end in runs:
        given = text[start:end]
        run = given if isinstance(given, str) else given.decode()
        found = _normalize(normalizer, run)
        if found != run:
            parts += text[done:start], found if isinstance(given, str) else found.encode()
            done = end
    if not parts:
        return text
    parts.append(text[done:])
    return text[:0].join(parts)


def is_normalized(text: str | bytes, normalizer: str | None) -> bool:
    """Return whether normalizing a text, as str or valid UTF-8, changes nothing."""
    if normalizer is None or text.isascii():
        return True
    for start, end in doubtful_runs(normalizer)(text):
        run = text[start:end]
        run = run if isinstance(run, str) else run.decode()
        if _normalize(normalizer, run) != run:
            return False
    return True


def is_normal_character(character: str, normalizer: str | None) -> bool:
    """Return whether a character stays the same, in the same place, in every text."""
    if normalizer is None or character.isascii():
        return True
    return ord(character) not in abnormal_codes(normalizer)


_MANY_MARKS = 256
"""Number of marks in a row that `unicodedata`, which takes quadratic time, sorts fast enough."""


def _normalize(normalizer: str, text: str) -> str:
    if len(text) > _MANY_MARKS:
        text = _with_sorted_marks(text, normalizer)
    return unicodedata.normalize(normalizer, text)  # type: ignore[arg-type]


def _with_sorted_marks(text: str, normalizer: str) -> str:
    """Return an equivalent text whose long runs of marks are decomposed and in canonical order."""
    parts: list[str] = []
    done = 0
    # Of a run of _MANY_MARKS marks, one is at a multiple of this number.
    for i in range(0, len(text), _MANY_MARKS):
        if i < done or not _is_mark(text[i], normalizer):
            continue
        first, end = i, i + 1
        while first > done and _is_mark(text[first - 1], normalizer):
            first -= 1
        while end < len(text) and _is_mark(text[end], normalizer):
            end += 1
        if end - first >= _MANY_MARKS:
            form = _decomposed_form(normalizer)
            marks = "".join(_normalize(form, character) for character in text[first:end])
            parts += text[done:first], *sorted(marks, key=unicodedata.combining)
            done = end
    return "".join(parts) + text[done:] if parts else text


def _is_mark(character: str, normalizer: str) -> bool:
    """Return whether the decomposition of a character starts with a mark, which may move."""
    if character.isascii():
        return False
    return unicodedata.combining(_normalize(_decomposed_form(normalizer), character)[0]) != 0


def normalized_with_offsets(text: str, normalizer: str | None) -> tuple[str, list[int] | None]:
    """Return a normalized text, and for each of its characters the one that it comes from.

    These are the positions that Hugging Face's tokenizers report. Marks that change places are
    counted as if they had not.

    Returns:
        The text, and the positions in `text`, or None if they are 0, 1, 2, ...
    """
    if normalizer is None or is_normalized(text, normalizer):
        return text, None
    parts: list[str] = []
    origins: list[int] = []
    done = 0
    for first, end in doubtful_runs(normalizer)(text):
        parts.append(text[done:first])
        origins += range(done, first)
        for start, run in _runs(text[first:end], normalizer):
            origin = first + start  # of the next character
            for character, num_origins in _normalized_run(run, normalizer):
                parts.append(character)
                origins.append(origin if num_origins else max(first + start, origin - 1))
                origin += num_origins
        done = end
    parts.append(text[done:])
    origins += range(done, len(text))
    return "".join(parts), origins


def changed_runs(text: str, normalizer: str | None) -> list[tuple[int, int, str]]:
    """Return the start and the end of each run that normalization changes, and what it becomes."""
    changed: list[tuple[int, int, str]] = []
    results: list[str] = []  # of neighbors, which become one run
    begin = end = 0
    for first, last in doubtful_runs(normalizer)(text):
        for offset, run in _runs(text[first:last], str(normalizer)):
            result, start = _normalize(str(normalizer), run), first + offset
            if result == run:
                continue
            if results and start != end:
                changed.append((begin, end, "".join(results)))
                results = []
            if not results:
                begin = start
            results.append(result)
            end = start + len(run)
    if results:
        changed.append((begin, end, "".join(results)))
    return changed


def _normalized_run(run: str, normalizer: str) -> list[tuple[str, int]]:
    """Return the characters of a normalized run, each with the number of characters it replaces.

    The first character of a decomposition replaces 1, and the others 0. A composed character
    replaces as many as its parts.
    """
    form = _decomposed_form(normalizer)
    parts = [
        (part, int(i == 0))
        for character in run
        for i, part in enumerate(_normalize(form, character))
    ]
    # Only marks change places, so the starters keep theirs.
    ordered: list[tuple[str, int]] = []
    marks: list[tuple[str, int]] = []
    for part in parts:
        if unicodedata.combining(part[0]):
            marks.append(part)
            continue
        ordered += sorted(marks, key=_combining_class)
        ordered.append(part)
        marks = []
    ordered += sorted(marks, key=_combining_class)
    return ordered if form == normalizer else _composed(ordered)


def _composed(parts: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """Return the canonical composition of the decomposed characters of a run."""
    done: list[tuple[str, int]] = []
    starter = -1  # index in `done` of the last starter
    for part in parts:
        own_class = _combining_class(part)
        if starter >= 0:
            between = len(done) - 1 - starter
            # A character of the same or a higher class, or a starter, keeps this one from it.
            is_free = not between or 0 < _combining_class(done[-1]) < own_class
            joined = unicodedata.normalize("NFC", done[starter][0] + part[0])
            if is_free and len(joined) == 1:
                done[starter] = joined, done[starter][1] + part[1]
                continue
        done.append(part)
        if own_class == 0:
            starter = len(done) - 1
    return done


def _combining_class(part: tuple[str, int]) -> int:
    return unicodedata.combining(part[0])


def _decomposed_form(normalizer: str) -> str:
    """Return the form that decomposes as much, without composing afterwards."""
    return "NFKD" if "K" in normalizer else "NFD"


def _runs(text: str, normalizer: str) -> Iterator[tuple[int, str]]:
    """Yield the start and the text of each run; see `normalized_with_offsets`."""
    abnormal = abnormal_codes(normalizer)
    start = 0
    for i in range(1, len(text)):
        if ord(text[i]) not in abnormal or not _may_interact(text[i], normalizer):
            yield start, text[start:i]
            start = i
    if text:
        yield start, text[start:]


def _may_interact(character: str, normalizer: str) -> bool:
    """Return whether a character may combine with, or move before, the character before it."""
    first = _normalize(_decomposed_form(normalizer), character)[0]
    return _is_mark(character, normalizer) or ord(first) in _seconds()


@functools.cache
def _joined_pairs() -> frozenset[tuple[int, int]]:
    """Return the pairs of code points that NFC and NFKC join, except those of Hangul."""
    pairs = set()
    for character in _unusual_characters():
        parts = unicodedata.decomposition(character).split()
        if len(parts) == 2 and parts[0][0] != "<" and _normalize("NFC", character) == character:
            pairs.add((int(parts[0], 16), int(parts[1], 16)))
    return frozenset(pairs)


@functools.cache
def _unusual_characters() -> str:
    """Return all marks and characters with a decomposition, and some other characters."""
    # U+0345 is the only mark of the highest combining class, so any other mark after it is in the
    # wrong order. Testing blocks takes less time than testing all characters.
    unusual = []
    for codes in _CHECKED:
        units = array("I", [0x0345]) * (2 * len(codes))
        units[1::2] = array("I", codes)
        characters = units.tobytes().decode(f"utf-32-{sys.byteorder[0]}e")
        for start in range(0, len(characters), 2 * _BLOCK):
            block = characters[start : start + 2 * _BLOCK]
            if not unicodedata.is_normalized("NFKD", block):
                unusual.append(block[1::2])
    return "".join(unusual)


def _with_marks() -> Iterator[int]:
    """Yield the code points that NFC and NFKC make of a character and marks."""
    for pair in _joined_pairs():
        composed = _normalize("NFC", "".join(map(chr, pair)))
        if unicodedata.combining(_normalize("NFD", composed)[-1]):
            yield ord(composed)


@functools.cache
def _seconds() -> frozenset[int]:
    """Return the code points that NFC and NFKC may join with the character before them."""
    return frozenset(second for _, second in _joined_pairs()).union(_HANGUL_VOWELS_AND_FINALS)


@functools.cache
def abnormal_codes(normalizer: str) -> frozenset[int]:
    """Return the code points that may not be normalized, depending on their neighbors."""
    codes = set(_seconds()) if normalizer in ("NFC", "NFKC") else set(_HANGUL_SYLLABLES)
    characters = _unusual_characters()
    # One call for all characters. A line break separates them and is always normalized.
    alone = _normalize(normalizer, "\n".join(characters)).split("\n")
    for before, after in zip(characters, alone, strict=True):
        if before != after or unicodedata.combining(before):
            codes.add(ord(before))
    return frozenset(codes)


@functools.cache
def doubtful_runs(normalizer: str | None) -> Callable[[str | bytes], list[tuple[int, int]]]:
    """Return the function that finds the start and the end of each run that may not be normalized.

    Everything between the runs is normalized and does not interact with them. The function is
    compiled, if possible.
    """
    if normalizer is None:
        return lambda text: []
    if NormalCharacters is None:
        return lambda text: [] if text.isascii() else [(0, len(text))]
    return NormalCharacters(normalizer, lambda: _tables(normalizer), _MAX_UNAIDED).runs


def _tables(normalizer: str) -> tuple[bytearray, set[tuple[int, int]]]:
    """Return the tables of a normalization form; see native/unicode/normal_characters.hpp."""
    classes = bytearray(0x110000)
    is_composed = normalizer in ("NFC", "NFKC")
    seconds = _seconds() if is_composed else frozenset()
    for code in abnormal_codes(normalizer):
        character = chr(code)
        if code in _HANGUL_VOWELS_AND_FINALS or _normalize(normalizer, character) != character:
            classes[code] = _OTHER
        elif code in seconds:
            classes[code] = _JOINING
        else:
            classes[code] = unicodedata.combining(character)
    pairs = {*_joined_pairs(), *((code, 0) for code in _with_marks())} if is_composed else set()
    return classes, pairs
