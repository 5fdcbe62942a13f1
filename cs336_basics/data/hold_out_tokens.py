"""Holding out the end of token files for validation, at a document boundary where there is one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cs336_basics.data.hold_out import Window
from cs336_basics.tokenizer.files.joined_tokens import JoinedTokens
from cs336_basics.tokenizer.files.token_files import TokenFile

_BLOCK = 1 << 20


def hold_out_tokens(
    files: Sequence[TokenFile], fraction: float, separator: int
) -> tuple[JoinedTokens, JoinedTokens]:
    """Divide the ids of token files into those for training and the last documents, as views.

    The second has about `fraction` of the ids. The cut is at the document boundary nearest to that,
    if there is one that leaves between half and twice `fraction`: the beginning of a file, a
    document start, or, in a file without document starts, the id after a separator. Otherwise it is
    between any two ids.

    Args:
        files: the token files.
        fraction: between 0 and 1.
        separator: id of the special token that ends documents.

    Raises:
        ValueError: there are too few ids; or document starts are damaged.
    """
    joined = JoinedTokens([file.tokens for file in files])
    total = len(joined)
    if total < 2:
        raise ValueError(
            f"{files[0].path} has {total} token{'s' * (total != 1)}, of which none can be held "
            "out: give data.valid_path"
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
    """Return boundaries of a file's documents, those nearest to the window's target included."""
    if file.has_document_starts:
        starts = file.document_starts()
        index = int(np.searchsorted(starts, window.target))
        return [int(start) for start in starts[max(0, index - 1) : index + 1]]
    found = []
    # A boundary at a position is a separator at the position before.
    for start in range(max(window.earliest - 1, 0), window.latest, _BLOCK):
        ids = file.tokens[start : min(start + _BLOCK, window.latest)]
        cuts = start + 1 + np.flatnonzero(ids == separator)
        if len(cuts):
            found.append(int(cuts[np.abs(cuts - window.target).argmin()]))
    return found
