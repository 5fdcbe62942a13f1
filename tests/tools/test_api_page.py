"""docs/api.md agrees with the public names in the code."""

import pytest

from cs336_basics.bpe import TRAINERS
from tools import api_page


@pytest.mark.skipif(
    not all(trainer.is_built for trainer in TRAINERS.values()),
    reason="the extensions are not built",
)
def test_the_page_is_that_of_the_code():
    page = api_page.PAGE.read_text(encoding="utf-8")
    assert page == api_page.render(), "run `python -m tools.api_page`"


def test_a_long_signature_marks_the_arguments_that_must_be_named():
    def function(first: int, *, second: int) -> None: ...

    name = "f" * api_page.WIDTH
    lines = ["    first: int,", "    *,", "    second: int,"]
    assert api_page.signature(name, function).splitlines() == [f"{name}(", *lines, ") -> None"]
