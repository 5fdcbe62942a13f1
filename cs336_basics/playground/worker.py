"""Answer requests in the reader's browser, where Pyodide runs the library in a web worker.

`tools/site/worker.js` calls this module in place of the server.
"""

from __future__ import annotations

import json
from collections.abc import Callable

from cs336_basics._support.messages import short_reason
from cs336_basics.playground.answers import EXPECTED, Answers


def answer(answers: Answers, name: str, body: str, emit: Callable[[str], object]) -> str:
    """Return the answer to a request.

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
            answers.streamed[name](asked, lambda row: emit(json.dumps(row)))
            return "{}"
        return json.dumps(answers.whole[name](asked))
    except EXPECTED as error:
        return json.dumps({"error": short_reason(error)})
