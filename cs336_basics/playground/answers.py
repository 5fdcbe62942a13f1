"""The answers that the page can request, by name."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from cs336_basics._support.errors import ReportedError
from cs336_basics._support.messages import short_reason
from cs336_basics.bpe import DEFAULT_TRAINER, get_trainer
from cs336_basics.data.datasets import sample_documents
from cs336_basics.playground.learning import Emit, race, stages, watch
from cs336_basics.playground.runs import Runs
from cs336_basics.playground.texts import MOST_TEXT, MOST_WORD, Texts, load_tokenizer
from cs336_basics.tokenizer import Tokenizer

EXPECTED = (ReportedError, OSError, ImportError)
"""Exceptions whose messages are shown on the page."""

Asked = Mapping[str, Any]
"""Object in the body of a request."""


class Answers(NamedTuple):
    """Functions that answer the requests of the page.

    Attributes:
        whole: Mapping of name -> function from the object in a request to an object, as JSON.
        streamed: Mapping of name -> function of the object in a request and an `Emit`, which it
            calls with one row after the other. Each row must follow soon.
    """

    whole: Mapping[str, Callable[[Asked], Any]]
    streamed: Mapping[str, Callable[[Asked, Emit], None]]


def make_answers(tokenizers: Sequence[str] = (), runs: Sequence[str] = ()) -> Answers:
    """Load the tokenizers and runs, and return an object that answers requests about them.

    Args:
        tokenizers: Names for `load_tokenizer`. Defaults to the tokenizers of the runs
            or, if there are no runs, to a tokenizer trained on the sample corpus.
        runs: Run directories.

    Raises:
        FileNotFoundError, ValueError, OSError, ImportError: If a tokenizer or a run cannot be
            loaded.
    """
    about_runs = Runs([Path(run) for run in runs])
    names = list(tokenizers) or [str(Path(run, "tokenizer")) for run in runs]
    loaded = {name: load_tokenizer(name) for name in names}
    texts = Texts(loaded or {"sample corpus, 2,000 tokens": sample_tokenizer()})
    described = {
        "tokenizers": texts.names,
        "stages": stages(),
        "read_units": {stage: get_trainer(stage).read_unit for stage in stages()},
        "runs": about_runs.names,
        "most_text": MOST_TEXT,
        "most_word": MOST_WORD,
    }

    def start(asked: Mapping[str, Any]) -> dict[str, Any]:
        return described

    whole = {"start": start, "tokens": texts.tokens, "merges": texts.merges, "watch": watch}
    whole |= {
        "parts": texts.parts,
        "curves": about_runs.curves,
        "next_tokens": about_runs.next_tokens,
        "losses": about_runs.losses,
        "attention": about_runs.attention,
    }
    return Answers(whole, {"race": race, "generate": about_runs.generate})


def answer(answers: Answers, name: str, body: str, emit: Callable[[str], object]) -> str:
    """Return the answer to a request in the reader's browser, where Pyodide runs the library.

    `tools/site/worker.js` calls this function in place of the server.

    Args:
        answers: Functions that answer the requests of the page.
        name: Name in `answers`.
        body: JSON object of the request.
        emit: Called with the JSON of each row of a streamed answer. Pyodide has no threads, so the
            page stops such an answer by ending the worker.

    Returns:
        JSON object of the answer, or an object with an `error`.
    """
    try:
        asked = json.loads(body)
        if name in answers.streamed:
            answers.streamed[name](asked, lambda row: emit(_json(row)))
            return "{}"
        return _json(answers.whole[name](asked))
    except EXPECTED as error:
        return _json({"error": short_reason(error)})


def _json(value: Any) -> str:
    return json.dumps(value, allow_nan=False)  # a browser cannot parse NaN


def sample_tokenizer() -> Tokenizer:
    """Return a tokenizer with 2,000 tokens, trained on part of the sample corpus."""
    special = ["<|endoftext|>"]
    trainer = get_trainer(DEFAULT_TRAINER)(num_workers=1)
    documents = itertools.islice(sample_documents(), 500)
    vocab, merges = trainer.train_from_iterator(documents, 2000, special)
    return Tokenizer(vocab, merges, special)
