"""Holding out the end of token files for validation, at a document boundary where there is one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from cs336_basics.data.hold_out import Window
from cs336_basics.tokenizer.files.joined_tokens import JoinedTokens
from cs336_basics.tokenizer.files.token_files import open_token_file
from cs336_basics.tokenizer.ids import TokenArray

_BLOCK = 1 << 20


def hold_out_tokens(
    files: Sequence[str],
    tokens: TokenArray | JoinedTokens,
    fraction: float,
    separator: int,
) -> tuple[JoinedTokens, JoinedTokens]:
    """Divide the ids of token files into those for training and the last documents, as views.

    The second has about `fraction` of the ids. The cut is at the document boundary nearest to that,
    if there is one that leaves between half and twice `fraction`: the beginning of a file, a
    document start, or, in a file without document starts, the id after a separator. Otherwise it is
    between any two ids.

    Args:
        files: the token files.
        tokens: their ids, as `load_token_files` opens them.
        fraction: between 0 and 1.
        separator: id of the special token that ends documents.

    Raises:
        ValueError: there are too few ids; or document starts are damaged.
    """
    joined = tokens if isinstance(tokens, JoinedTokens) else JoinedTokens([tokens])
    total = len(joined)
    if total < 2:
        raise ValueError(
            f"{files[0]} has {total} token{'s' * (total != 1)}, of which none can be held out: "
            "give data.valid_path"
        )
    window = Window.of(total, fraction)
    boundaries = []
    begin = 0
    for file, part in zip(files, joined.parts, strict=True):
        near = window.within(begin, len(part))
        if begin <= window.latest and begin + len(part) >= window.earliest:
            boundaries += [
                begin + position for position in (0, *_near(file, part, near, separator))
            ]
        begin += len(part)
    inside = [cut for cut in boundaries if window.contains(cut) and cut < total]
    cut = min(inside, key=lambda cut: abs(cut - window.target), default=window.target)
    cut = min(cut, total - 1)
    return joined.between(0, cut), joined.between(cut, total)


def _near(file: str, tokens: npt.NDArray[Any], window: Window, separator: int) -> Iterator[int]:
    """Yield the document boundaries of a file next to the target, on both sides."""
    opened = open_token_file(file)
    if opened.has_document_starts:
        starts = opened.document_starts()
        index = int(np.searchsorted(starts, window.target))
        yield from map(int, starts[max(0, index - 1) : index + 1])
        return
    # A boundary at a position is a separator at the position before.
    for start in range(max(window.target - 1, 0), window.latest, _BLOCK):
        found = np.flatnonzero(tokens[start : min(start + _BLOCK, window.latest)] == separator)
        if len(found):
            yield start + int(found[0]) + 1
            break
    for end in range(window.target - 1, max(window.earliest - 1, 0), -_BLOCK):
        start = max(end - _BLOCK, window.earliest - 1, 0)
        found = np.flatnonzero(tokens[start:end] == separator)
        if len(found):
            yield start + int(found[-1]) + 1
            break
