"""Tables of text."""

from __future__ import annotations

from collections.abc import Sequence


def table_lines(
    header: Sequence[str], rows: Sequence[Sequence[str]], num_names: int = 1
) -> list[str]:
    """Return a table as lines. The first `num_names` columns are aligned left, the others right."""
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if column < num_names else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in (header, *rows)
    ]
