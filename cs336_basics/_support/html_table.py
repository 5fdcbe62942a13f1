"""HTML tables, which notebooks display instead of the `repr`."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence


def html_table(
    caption: str, header: Sequence[str], rows: Iterable[tuple[str, Sequence[int | str]]]
) -> str:
    """Return an HTML table. Each row is a pair of a name and its values.

    All text is escaped. Integers are shown with thousands separators.
    """
    head = "".join(f'<th scope="col">{html.escape(name)}</th>' for name in header)
    body = "".join(
        f'<tr><th scope="row" style="text-align:left">{html.escape(name)}</th>'
        + "".join(f'<td style="text-align:right">{_cell(value)}</td>' for value in values)
        + "</tr>"
        for name, values in rows
    )
    return (
        f'<table><caption style="text-align:left;white-space:nowrap">'
        f"{html.escape(caption)}</caption>"
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    )


def _cell(value: int | str) -> str:
    return f"{value:,}" if isinstance(value, int) else html.escape(value)
