"""WordCounter: count the pre-tokens of texts, one text at a time."""

from __future__ import annotations

from array import array
from collections import Counter
from typing import Protocol

from cs336_basics._support.errors import BUILD, Argument, InputError, UnavailableError
from cs336_basics._support.messages import short_repr
from cs336_basics._support.warnings import warn
from cs336_basics.counting.word_counts import Buffer, WordCounts, buffers_of
from cs336_basics.splitting import check_splitting
from cs336_basics.splitting.splitter import Splitter, search_pretokens
from cs336_basics.text.normalization import normalized


def choose_splitting(splitting: str | None, splitter: Splitter) -> str:
    """Return the checked `splitting` or, if it is None, the fastest one that is possible.

    Raises:
        ValueError: If `splitting` is unknown, or the pattern cannot be compiled.
        ImportError: If compiled code is asked for and not built.

    Warns:
        UserWarning: If `splitting` is None and the pattern cannot be compiled.
    """
    check_splitting(splitting)
    if splitting == "regex":
        return "regex"
    is_built = _is_built()
    if is_built and splitter.has_scanner:
        return "compiled"
    pattern = short_repr(splitter.pattern)
    if splitting is None:
        if is_built:
            warn(
                f"pattern {pattern} cannot be compiled; words are counted in Python, which is many "
                "times slower"
            )
        return "regex"
    in_python: tuple[str | Argument, ...] = ("pass ", Argument("splitting", "regex"))
    if not is_built:
        raise UnavailableError(
            "'compiled' needs compiled code, which is not built",
            argument="splitting",
            remedy=(BUILD, ", or ", *in_python),
        )
    raise InputError(f"{pattern} cannot be compiled", argument="pattern", remedy=in_python)


def _is_built() -> bool:
    try:
        import cs336_basics.counting._counting  # noqa: F401
    except ImportError:
        return False
    return True


class WordCounter:
    """Counts texts and adds up the counts.

    Args:
        splitter: How to split the texts.
        splitting: Name in SPLITTINGS; see `choose_splitting`.
    """

    def __init__(self, splitter: Splitter, splitting: str) -> None:
        self._splitter = splitter
        self._counter: _Counter = _counter(splitter, splitting)
        self.count = self._counter.count
        """Count the pre-tokens of a complete text in UTF-8. (A method would slow down rows.)"""

    def counts(self) -> WordCounts:
        """Return the counts of all texts so far."""
        splitter = self._splitter
        return WordCounts.of_buffers(
            self._counter.result(), splitter.pattern, splitter.special_tokens, splitter.normalizer
        )


class _Counter(Protocol):
    def count(self, text: bytes, /) -> None: ...
    def result(self) -> tuple[Buffer, Buffer, Buffer]: ...


def _counter(splitter: Splitter, splitting: str) -> _Counter:
    if splitting == "regex":
        return RegexCounter(splitter)
    if splitter.normalizer is not None:
        return NormalizingCounter(splitter)
    from cs336_basics.counting._counting import TextCounter

    return TextCounter(splitter.special_tokens, splitter.pattern)


class NormalizingCounter:
    """Counts normalized text with compiled code.

    Most texts are normalized already, and are counted as they are.
    """

    def __init__(self, splitter: Splitter) -> None:
        from cs336_basics.counting._counting import TextCounter

        self._splitter = splitter
        self._counter = TextCounter(splitter.special_tokens, splitter.pattern)
        # Normalization can make the text of a special token, which is then ordinary text.
        self._piece_counter = TextCounter((), splitter.pattern)

    def count(self, text: bytes, /) -> None:
        """See `WordCounter`."""
        normalizer = self._splitter.normalizer
        found = normalized(text, normalizer)
        if found is text:
            self._counter.count(text)
        elif not self._splitter.special_tokens:
            self._piece_counter.count(found)
        else:
            for segment, is_special in self._splitter.split_special_tokens(text.decode()):
                if not is_special:
                    self._piece_counter.count(normalized(segment, normalizer).encode())

    def result(self) -> tuple[Buffer, Buffer, Buffer]:
        """Return `(data, offsets, counts)`, the buffers of a WordCounts."""
        from cs336_basics.counting._counting import TextCounter

        total = TextCounter()
        for counter in (self._counter, self._piece_counter):
            total.add_words(*counter.result())
        return total.result()


class RegexCounter:
    """Counts pre-tokens with the `regex` module and a `Counter`. `TextCounter` is compiled."""

    def __init__(self, splitter: Splitter) -> None:
        self._splitter = splitter
        self._counts: Counter[str] = Counter()

    def count(self, text: bytes, /) -> None:
        """See `WordCounter`."""
        for segment, is_special in self._splitter.split_special_tokens(text.decode()):
            if not is_special:
                piece = normalized(segment, self._splitter.normalizer)
                self._counts.update(search_pretokens(piece, self._splitter.pattern))

    def result(self) -> tuple[Buffer, Buffer, Buffer]:
        """Return `(data, offsets, counts)`, the buffers of a WordCounts."""
        words = [word.encode() for word in self._counts]
        return buffers_of(words, array("q", self._counts.values()))
