"""Hold out the end of token files for validation, at a document boundary if there is one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cs336_basics._support.errors import Argument, InputError
from cs336_basics.data.hold_out import Window
from cs336_basics.tokenizer.files.joined_tokens import JoinedTokens
from cs336_basics.tokenizer.files.token_files import TokenFile

_BLOCK = 1 << 20


def hold_out_tokens(
    files: Sequence[TokenFile], fraction: float, separator: int
) -> tuple[JoinedTokens, JoinedTokens]:
    """Split token files, holding out the ids of the last documents for validation.

    The cut is at the nearest document boundary that holds out between half and twice `fraction` of
    the ids, or between any two ids if there is no such boundary. A document boundary is the start
    of a file, a document start, or, in a file without document starts, the position after a
    separator.

    Returns:
        The training ids and the validation ids, as views.

    Raises:
        ValueError: If there are fewer than two ids, or the document starts are damaged.
    """
    joined = JoinedTokens([file.tokens for file in files])
    total = len(joined)
    if total < 2:
        raise InputError(
            f"at least 2 tokens are needed to hold some out for validation, got {total}",
            place=str(files[0].path),
            remedy=("set ", Argument("data.valid_path")),
        )
    window = Window.of(total, fraction)
    boundaries, begin = [], 0
    for file in files:
        within = window.within(begin, len(file.tokens))
        boundaries += [begin, *(begin + cut for cut in _boundaries(file, within, separator))]
        begin += len(file.tokens)
    near = [cut for cut in boundaries if window.earliest <= cut <= window.latest and cut < total]
    cut = min(near, key=lambda cut: abs(cut - window.target), default=window.target)
    cut = min(cut, total - 1)
    return joined.between(0, cut), joined.between(cut, total)


def _boundaries(file: TokenFile, window: Window, separator: int) -> list[int]:
    """Return some document boundaries of a file, including those nearest to the target."""
    if file.has_document_starts:
        starts = file.document_starts()
        index = int(np.searchsorted(starts, window.target))
        return [int(start) for start in starts[max(0, index - 1) : index + 1]]
    found = []
    # The boundary is one position after the separator.
    for start in range(max(window.earliest - 1, 0), window.latest, _BLOCK):
        ids = file.tokens[start : min(start + _BLOCK, window.latest)]
        cuts = start + 1 + np.flatnonzero(ids == separator)
        if len(cuts):
            found.append(int(cuts[np.abs(cuts - window.target).argmin()]))
    return found
