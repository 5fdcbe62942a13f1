from tests.playground.conftest import run_path  # noqa: F401 -- a fixture
