"""A local web server for the tests, and the text that it serves."""

import contextlib
import dataclasses
import gzip
import hashlib
import http.server
import re
import threading

import pytest

from cs336_basics.data.datasets import DATASETS

# The text is longer than one block of the copy loop, even if it is compressed.
TEXT = b"".join(
    f"Once there was a café with {hashlib.sha512(b'%d' % n).hexdigest()} cats.\r\n".encode()
    for n in range(15_000)
)
PACKED = gzip.compress(TEXT, 1, mtime=0)


class Server:
    """A web server with a configurable response for each path.

    Attributes:
        answers: Dict that maps paths to responses (status, headers, body).
        requests: Path of each request.
        ranges: Range header of each request, or None if it has none.
        breaks: For each of the next responses, the number of bytes to send before the connection
            breaks.
        has_ranges: Whether the server supports Range headers.
        stalls_after: Number of bytes to send before the server stops sending, or None for no limit.
        closed: Event that is set at the end of the test.
    """

    def __init__(self):
        self.answers = {}
        self.requests = []
        self.ranges = []
        self.breaks = []
        self.has_ranges = True
        self.stalls_after = None
        self.closed = threading.Event()
        server = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                server.requests.append(self.path)
                server.ranges.append(self.headers.get("Range"))
                status, headers, body = server.answers.get(self.path, (404, {}, b"not here"))
                first = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
                if status == 200 and first and server.has_ranges:
                    start, size = int(first[1]), len(body)
                    if start >= size:
                        self.start(416, {"Content-Length": "0"})
                        return
                    body = body[start:]
                    status = 206
                    headers = {**headers, "Content-Range": f"bytes {start}-{size - 1}/{size}"}
                self.start(status, {"Content-Length": str(len(body)), **headers})
                with contextlib.suppress(ConnectionError):  # the client disconnected
                    if server.stalls_after is not None:
                        self.wfile.write(body[: server.stalls_after])
                        server.closed.wait(60)
                        return
                    self.wfile.write(body[: server.breaks.pop(0) if server.breaks else None])

            def start(self, status, headers):
                self.send_response(status)
                for name, value in headers.items():
                    if value is not None:
                        self.send_header(name, value)
                self.end_headers()

            def log_message(self, *args):
                pass

        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        self.host = f"http://127.0.0.1:{self.http.server_port}"
        self.url = f"{self.host}/mirror"
        threading.Thread(target=self.http.serve_forever, args=(0.01,), daemon=True).start()

    def offer(self, name, body, status=200, **headers):
        headers = {key.replace("_", "-"): value for key, value in headers.items()}
        self.answers[f"/mirror/{name}"] = (status, headers, body)

    def offer_as_hub(self, name, body):
        """Serve a dataset file at its path on the Hugging Face hub."""
        repository = {"Tiny": "roneneldan/TinyStories", "owt_": "stanford-cs336/owt-sample"}
        self.answers[f"/datasets/{repository[name[:4]]}/resolve/main/{name}"] = (200, {}, body)


def names_in(directory):
    return sorted(path.name for path in directory.iterdir())


@pytest.fixture
def server(monkeypatch, tmp_path_factory):
    """A web server that also replaces the hub. Each downloadable dataset has the content TEXT."""
    # Requests to this machine are sent directly, even if the environment sets a proxy.
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    sha256 = hashlib.sha256(TEXT).hexdigest()
    for name in ("tinystories", "owt"):
        files = {
            split: dataclasses.replace(file, num_bytes=len(TEXT), sha256=sha256)
            for split, file in DATASETS[name].files.items()
        }
        monkeypatch.setitem(DATASETS, name, dataclasses.replace(DATASETS[name], files=files))
    server = Server()
    monkeypatch.setenv("HF_ENDPOINT", server.host)
    yield server
    server.closed.set()
    server.http.shutdown()
    server.http.server_close()
