import pytest

from cs336_basics.counting import count_text
from tests.texts import long_text


@pytest.fixture(scope="session")
def words():
    """Word counts of a text of 6,000 characters."""
    return count_text(long_text(7, 6_000))
