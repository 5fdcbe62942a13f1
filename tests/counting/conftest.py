import pytest

from tests.counting.hostile import HOSTILE


@pytest.fixture(scope="module")
def hostile_file(tmp_path_factory):
    """The path to a file with the difficult text."""
    path = tmp_path_factory.mktemp("counting") / "hostile.txt"
    path.write_bytes(HOSTILE)
    return path
