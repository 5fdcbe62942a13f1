"""Find validation text that is also training text, which would make the validation loss too low."""

from __future__ import annotations

import collections
import hashlib
import os
from collections.abc import Iterator, Sequence

from cs336_basics._support.errors import Argument, InputError
from cs336_basics._support.files import sha256_file
from cs336_basics._support.urls import is_url
from cs336_basics.data.documents import read_documents
from cs336_basics.data.sources import TextOrTokens
from cs336_basics.text.corpus import Corpus

MOST_BYTES = 32 << 20
"""Maximum size of a text whose documents are compared, which takes about a second."""


def check_overlap(train: Sequence[TextOrTokens], valid: TextOrTokens | None) -> None:
    """Check that no validation file is a training file, by its real path and by its content.

    Without validation files, the end of the training files is held out. Then no file may be given
    twice.

    Args:
        train: The training corpora. If there are none, nothing is checked.
        valid: The validation files, if any.

    Raises:
        ValueError: If a file is in both. The message includes its name.
    """
    if not train:
        return
    by_path: dict[str, str] = {}
    for file in (file for source in train for file in source.files):
        path = _real_path(file)
        if valid is None and path in by_path:
            raise _overlap(f"contains {file} twice, and its end is held out", "data.train_path")
        by_path[path] = file
    by_size: dict[int, list[str]] = collections.defaultdict(list)
    for path in by_path:
        if not is_url(path):
            by_size[os.path.getsize(path)].append(path)
    for file in valid.files if valid is not None else ():
        path = _real_path(file)
        if path in by_path:
            raise _overlap(f"contains {file}, which is also in ", "data.valid_path")
        # Only files of the same size can have the same content, so few files are read.
        same_size = [] if is_url(path) else by_size.get(os.path.getsize(path), [])
        digest = sha256_file(path) if same_size and os.path.getsize(path) else ""
        for other in same_size:
            if digest and sha256_file(other) == digest:
                raise _overlap(
                    f"contains {file}, which has the same content as {by_path[other]} in ",
                    "data.valid_path",
                )


def _overlap(problem: str, argument: str) -> InputError:
    parts: tuple[str | Argument, ...] = (problem,)
    if argument == "data.valid_path":
        parts += (Argument("data.train_path"),)
    return InputError(
        parts,
        argument=argument,
        remedy=("leave it out of one of them, or pass ", Argument("data.allow_overlap", True)),
    )


def _real_path(file: str) -> str:
    return file if is_url(file) else os.path.realpath(file)


def shared_documents(
    train: Corpus, valid: Corpus, most_bytes: int = MOST_BYTES
) -> tuple[int, int] | None:
    """Count the validation documents that are also training documents.

    Whitespace around a document is ignored, because plain text has some around its separators and
    other formats have not.

    Args:
        train, valid: The texts, in any formats.
        most_bytes: Maximum size of each text.

    Returns:
        Their number and the number of all validation documents. None if a text is larger, or not on
        this machine.
    """
    if any(is_url(source.path) for source in (*train.sources, *valid.sources)):
        return None
    # The stored sizes decide first, so that nothing is read of a large text.
    if max(train.num_bytes, valid.num_bytes) > most_bytes:
        return None
    counts: collections.Counter[bytes] = collections.Counter()
    shared: set[bytes] = set()
    try:
        counts.update(_digests(valid, most_bytes))
        shared.update(digest for digest in _digests(train, most_bytes) if digest in counts)
    except _TooLargeError:
        return None
    return sum(counts[digest] for digest in shared), counts.total()


class _TooLargeError(Exception):
    """Raised if a text is larger than its stored size suggests, such as compressed text."""


def _digests(corpus: Corpus, most_bytes: int) -> Iterator[bytes]:
    num_bytes = 0
    for document in read_documents(corpus):
        data = (
            document if isinstance(document, bytes) else document.encode("utf-8", "surrogatepass")
        )
        num_bytes += len(data)
        if num_bytes > most_bytes:
            raise _TooLargeError
        yield hashlib.blake2b(data.strip(), digest_size=16).digest()
