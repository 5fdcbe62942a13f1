"""Rows of a campaign, and the cases that they check."""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil
import random
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any


@dataclasses.dataclass(frozen=True)
class Case:
    """One case of a row.

    Attributes:
        chooser: Generator whose seed depends on the row, the campaign's seed and the case.
        folder: New directory, which is removed afterwards.
        value: Element of the row's `cases`, or None if its cases are random.
        notes: Counts for the report of things that are not failures, such as skipped tests.
    """

    chooser: random.Random
    folder: Path
    value: Any = None
    notes: Counter[str] = dataclasses.field(default_factory=Counter)


@dataclasses.dataclass(frozen=True)
class Row:
    """One kind of check.

    Attributes:
        name: Name on the command line.
        check: Function that checks a case and returns the number of things that it has checked. It
            raises an exception if something is wrong, and calls `pytest.skip` if the case cannot
            run on this machine.
        counts: What `check` counts, such as "texts".
        cases: Function that returns all cases of a finite row. Otherwise, every case is random.
        seconds: Longest time of a case. A case that takes longer is a failure.
        share: Weight of the row when the rows share the time, about the minutes of one core that it
            needs in an hour.
        in_normal_run: Whether the normal run of the tests checks a case.
    """

    name: str
    check: Callable[[Case], int]
    counts: str
    cases: Callable[[], Sequence[Any]] | None = None
    seconds: float = 300
    share: float = 1
    in_normal_run: bool = True

    @property
    def title(self) -> str:
        return (self.check.__doc__ or "").strip().partition("\n")[0].removesuffix(".")

    def num_cases(self) -> int | None:
        return None if self.cases is None else len(self.cases())

    def run(self, seed: int, number: int) -> tuple[int, Counter[str]]:
        """Check a case. Return the number of checked things and the notes.

        A finite row is shuffled by the seed, so that campaigns that do not finish it check
        different cases.
        """
        value = None
        if self.cases is not None:
            values = self.cases()
            order = random.Random(f"{self.name} {seed}").sample(range(len(values)), len(values))
            value = values[order[number]]
        chooser = random.Random(f"{self.name} {seed} {number}")
        with tempfile.TemporaryDirectory(prefix="campaign-") as folder, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            case = Case(chooser, Path(folder), value)
            return self.check(case), case.notes


_ROWS: dict[str, Row] = {}


def row(counts: str, **options: Any) -> Callable[[Callable[[Case], int]], Callable[[Case], int]]:
    """Make a function a row that is named like the function."""

    def add(check: Callable[[Case], int]) -> Callable[[Case], int]:
        name = check.__name__.replace("_", "-")
        _ROWS[name] = Row(name, check, counts, **options)
        return check

    return add


def all_rows() -> dict[str, Row]:
    """Import the modules `*_rows` of this package, and return their rows by name.

    The rows import what they check inside their functions, because importing takes seconds.
    """
    import tests.campaign

    for module in sorted(found.name for found in pkgutil.iter_modules(tests.campaign.__path__)):
        if module.endswith("_rows"):
            importlib.import_module(f"tests.campaign.{module}")
    return dict(_ROWS)
