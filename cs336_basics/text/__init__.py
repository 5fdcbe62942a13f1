"""Reading text: files and rows to documents. Only `sources/` distinguishes formats of files.

All text takes the same road, whether it is counted or encoded, on one machine or on many:

1. Open: a `Corpus` is a list of sources, a source has pieces, and a piece yields blocks of text
   (`corpus.py`, `sources/`). Plain text is cut into blocks only where it is safe (`cuts.py`).
2. Repair: invalid UTF-8 is replaced or rejected, and recorded (`reading_record.py`, `utf8.py`).
3. Cut out special tokens, and split into pre-tokens (`splitting/`). If a tokenizer has a
   normalizer, it normalizes the text between special tokens (`normalization.py`) before it splits.
4. Count (`counting/`) or encode (`tokenizer/`).

A job (`counting/count_job.py`) is the only place that calls the stages one after another;
compiled code that reads files itself follows the same order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cs336_basics._support.lazy import LazyModule, lazy_names

__all__ = ["Corpus", "MissingFieldError"]

if TYPE_CHECKING:
    from cs336_basics.text import normalization
    from cs336_basics.text.corpus import Corpus
    from cs336_basics.text.sources import MissingFieldError
else:
    # Few texts are normalized. Its tables come from `unicodedata`.
    normalization = LazyModule("cs336_basics.text.normalization")
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "cs336_basics.text.corpus": "Corpus",
            "cs336_basics.text.sources": "MissingFieldError",
        },
    )
