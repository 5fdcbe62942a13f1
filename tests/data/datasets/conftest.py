from tests.data.datasets.web_server import server  # noqa: F401 -- a fixture
