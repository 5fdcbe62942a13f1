"""Read and sample the documents in a corpus."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from cs336_basics._support.arguments import checked_integer
from cs336_basics._support.errors import InputError
from cs336_basics._support.messages import counted
from cs336_basics._support.text import END_OF_TEXT
from cs336_basics._support.warnings import warn
from cs336_basics.splitting.splitter import Splitter
from cs336_basics.text.corpus import Corpus
from cs336_basics.text.reading_record import ReadingRecord
from cs336_basics.text.sources import TextBlock

LONGEST_DOCUMENT = 1 << 20
"""Number of bytes of plain text after which a document is divided at a safe cut. This limits memory
use, because a file of any size may be a single document."""


@dataclass(frozen=True)
class DocumentSample:
    """A sample of the documents in a corpus.

    Attributes:
        spaced: Evenly spaced documents, starting with the first one.
        beginning: First documents in the corpus.
        num_documents: Number of documents in the corpus.
    """

    spaced: list[str]
    beginning: list[str]
    num_documents: int


def sample_documents(
    corpus: Corpus, number: int, *, beginning_bytes: int = 0, separator: str = END_OF_TEXT
) -> DocumentSample:
    """Return a sample of the documents in a corpus. The corpus is read twice.

    Args:
        corpus: Corpus to sample.
        number: Maximum number of documents in `spaced`. If the corpus has n documents, the sample
            contains the documents at indices 0, n // number, 2n // number, ...
        beginning_bytes: Minimum number of bytes in `beginning`, unless the corpus is smaller.
        separator: Separator between documents in plain text.

    Raises:
        ValueError: If there are no documents, or a sampled document is not valid UTF-8 and
            `corpus.errors` is "strict"; see also `Piece.texts`.
        FileNotFoundError, OSError, ImportError: See `Piece.texts`.

    Warns:
        UserWarning: If a sampled document is not valid UTF-8.
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
        raise InputError("no documents, only whitespace", place=_names_in(corpus))
    number = min(number, total)
    chosen = {index * total // number for index in range(number)}
    documents = enumerate(read_documents(corpus, separator))
    spaced = [document for index, document in documents if index in chosen]
    texts = _as_texts(spaced + first, corpus)
    return DocumentSample(texts[: len(spaced)], texts[len(spaced) :], total)


def read_documents(corpus: Corpus, separator: str = END_OF_TEXT) -> Iterator[str | bytes]:
    """Yield the nonempty documents in a corpus, in order.

    Each row is a document. Plain text is divided at `separator`, and whitespace around each
    document is stripped. Documents that are bytes may contain invalid UTF-8.

    Raises:
        ValueError, FileNotFoundError, OSError, ImportError: See `Piece.texts`.
    """
    splitter = Splitter(special_tokens=[separator])
    for source in corpus.sources:
        yield from _in_blocks(source.texts(splitter.safe_cuts), separator.encode())


def _in_blocks(blocks: Iterable[TextBlock], separator: bytes) -> Iterator[str | bytes]:
    """Yield the documents in one file."""
    waiting: list[bytes] = []  # parts of a document that continues in the next block
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


def _as_texts(documents: list[str | bytes], corpus: Corpus) -> list[str]:
    """Return documents as str, and warn if some are not valid UTF-8."""
    if corpus.errors == "strict":
        utf8, where = ReadingRecord().utf8_of, f"a sampled document of {_names_in(corpus)}"
        return [utf8(text, "strict", file=where).decode() for text in documents]
    # JSON escapes can produce lone surrogates, which become invalid bytes.
    found = [d.encode("utf-8", "surrogatepass") if isinstance(d, str) else d for d in documents]
    texts = [data.decode("utf-8", "replace") for data in found]
    changed = sum(text.encode() != data for text, data in zip(texts, found, strict=True))
    if changed:
        warn(
            f"{_names_in(corpus)}: invalid UTF-8 in {counted(changed, 'sampled document')} was "
            "read as U+FFFD"
        )
    return texts


def _names_in(corpus: Corpus) -> str:
    """Return the names of the first files, for messages."""
    return ", ".join(corpus.files[:3]) + (", ..." if len(corpus.files) > 3 else "")
