"""The documents of a corpus, one by one, and samples of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from cs336_basics._support.arguments import checked_integer
from cs336_basics._support.text import END_OF_TEXT
from cs336_basics._support.warnings import warn
from cs336_basics.pretokenization.reading.corpus import Corpus
from cs336_basics.pretokenization.reading.readers import TextBlock, read_texts
from cs336_basics.pretokenization.splitter import Splitter

LONGEST_DOCUMENT = 1 << 20
"""Bytes of plain text without a separator after which a document is cut, where that does not change
its pre-tokens: a file may hold a single document of any size."""


@dataclass(frozen=True)
class DocumentSample:
    """Some documents of a corpus.

    Attributes:
        spaced: documents at equal distances, the first one included.
        beginning: the first documents.
        num_documents: how many there are in all.
    """

    spaced: list[str]
    beginning: list[str]
    num_documents: int


def sample_documents(
    corpus: Corpus, number: int, *, beginning_bytes: int = 0, separator: str = END_OF_TEXT
) -> DocumentSample:
    """Return documents of a corpus, which is read twice; only these are in memory.

    Args:
        corpus: the text.
        number: how many documents `spaced` has, at equal distances: of n documents those with the
            indices 0, n // number, 2n // number, ... All, if there are fewer.
        beginning_bytes: `beginning` has the first documents, until they have this many bytes.
        separator: separates the documents of plain text.

    Raises:
        ValueError: there is no document; one that is taken is not UTF-8, and the corpus is strict;
            or as `read_texts`.
        FileNotFoundError, OSError, ImportError: as `read_texts`.

    Warns:
        UserWarning: a document that is taken is not UTF-8.
    """
    number = checked_integer("number", number, 1)
    total = 0
    first: list[str | bytes] = []
    num_bytes = 0
    for document in read_documents(corpus, separator):
        total += 1
        if num_bytes < beginning_bytes:
            first.append(document)
            num_bytes += len(document)
    if total == 0:
        raise ValueError(f"{', '.join(corpus.files[:3])}: there is no document, only white space")
    number = min(number, total)
    chosen = {index * total // number for index in range(number)}
    documents = read_documents(corpus, separator)
    spaced, changed = _texts(
        [document for index, document in enumerate(documents) if index in chosen], corpus.errors
    )
    beginning, also_changed = _texts(first, corpus.errors)
    if changed + also_changed:
        warn(
            f"{corpus.files[0]}: {changed + also_changed:,} of the documents that were taken are "
            "not all UTF-8; other bytes are read as U+FFFD"
        )
    return DocumentSample(spaced, beginning, total)


def read_documents(corpus: Corpus, separator: str = END_OF_TEXT) -> Iterator[str | bytes]:
    """Yield the documents of a corpus that are not empty, in order.

    A row is a document. Plain text is separated by `separator`, and loses the white space around
    each document. Bytes need not be UTF-8.

    Raises:
        ValueError, FileNotFoundError, OSError, ImportError: as `read_texts`.
    """
    splitter = Splitter(special_tokens=[separator])
    for file in corpus.files:
        yield from _in_blocks(read_texts(corpus, file, splitter), separator.encode())


def _in_blocks(blocks: Iterable[TextBlock], separator: bytes) -> Iterator[str | bytes]:
    """Yield the documents of one file."""
    waiting: list[bytes] = []  # a document that goes on in the next block
    for block in blocks:
        if block.offset is None:
            if block.text:
                yield block.text
            continue
        data = block.text.encode() if isinstance(block.text, str) else block.text
        first, *others = data.split(separator)
        waiting.append(first)
        if not others and sum(map(len, waiting)) < LONGEST_DOCUMENT:
            continue
        for document in (b"".join(waiting), *others[:-1]):
            if text := document.strip():
                yield text
        waiting = others[-1:]
    if text := b"".join(waiting).strip():
        yield text


def _texts(documents: list[str | bytes], errors: str) -> tuple[list[str], int]:
    """Return documents as text, and how many of them hold something that is not UTF-8."""
    texts: list[str] = []
    num_changed = 0
    for document in documents:
        # A lone surrogate, from an escape of JSON, becomes bytes that are not UTF-8.
        data = document.encode("utf-8", "surrogatepass") if isinstance(document, str) else document
        try:
            texts.append(data.decode())
        except UnicodeDecodeError as error:
            if errors == "strict":
                raise ValueError(
                    f"a document is not UTF-8 at its byte {error.start:,} ({error.reason}): pass "
                    'errors="replace" to read such bytes as U+FFFD'
                ) from None
            texts.append(data.decode("utf-8", "replace"))
            num_changed += 1
    return texts, num_changed
