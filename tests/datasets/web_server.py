"""A web server on this machine, and a text that it offers."""

import gzip
import hashlib
import http.server
import threading

import pytest

# More than one block of the copying loop, both before and after compression.
TEXT = b"".join(
    f"Once there was a café with {hashlib.sha512(b'%d' % n).hexdigest()} cats.\r\n".encode()
    for n in range(15_000)
)
PACKED = gzip.compress(TEXT, 1, mtime=0)


class Server:
    """A web server whose answers are set by path: (status, headers, body)."""

    def __init__(self):
        self.answers = {}
        self.requests = []
        server = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                server.requests.append(self.path)
                status, headers, body = server.answers.get(self.path, (404, {}, b"not here"))
                self.send_response(status)
                for name, value in {"Content-Length": str(len(body)), **headers}.items():
                    if value is not None:
                        self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args):
                pass

        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}/mirror"
        threading.Thread(target=self.http.serve_forever, args=(0.01,), daemon=True).start()

    def offer(self, name, body, status=200, **headers):
        headers = {key.replace("_", "-"): value for key, value in headers.items()}
        self.answers[f"/mirror/{name}"] = (status, headers, body)


def names_in(directory):
    return sorted(path.name for path in directory.iterdir())


@pytest.fixture
def server(monkeypatch):
    """A web server for a test; conftest.py of the folders that use it import it."""
    # A proxy set in the environment must not see requests to this machine.
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    server = Server()
    yield server
    server.http.shutdown()
    server.http.server_close()
