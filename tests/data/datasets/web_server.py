"""A web server on this machine, and a text that it offers."""

import dataclasses
import gzip
import hashlib
import http.server
import re
import threading

import pytest

from cs336_basics.data.datasets import DATASETS, downloads

# More than one block of the copying loop, both before and after compression.
TEXT = b"".join(
    f"Once there was a café with {hashlib.sha512(b'%d' % n).hexdigest()} cats.\r\n".encode()
    for n in range(15_000)
)
PACKED = gzip.compress(TEXT, 1, mtime=0)


class Server:
    """A web server whose answers are set by path: (status, headers, body), or a function of the
    request's handler that writes the answer.

    Attributes:
        requests: the path of every request.
        ranges: its Range and If-Range, None where it has none.
    """

    def __init__(self):
        self.answers = {}
        self.requests = []
        self.ranges = []
        server = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                server.requests.append(self.path)
                server.ranges.append((self.headers.get("Range"), self.headers.get("If-Range")))
                answer = server.answers.get(self.path, (404, {}, b"not here"))
                if callable(answer):
                    answer(self)
                    return
                status, headers, body = answer
                self.start(status, {"Content-Length": str(len(body)), **headers})
                self.wfile.write(body)

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
        self.url = f"http://127.0.0.1:{self.http.server_port}/mirror"
        threading.Thread(target=self.http.serve_forever, args=(0.01,), daemon=True).start()

    def offer(self, name, body, status=200, **headers):
        headers = {key.replace("_", "-"): value for key, value in headers.items()}
        self.answers[f"/mirror/{name}"] = (status, headers, body)

    def offer_ranges(self, name, body, *, etag='"1"', breaks=(), modified=None):
        """Offer a file as a server that knows Range and If-Range.

        Args:
            breaks: for each of the first answers, the bytes after which the connection breaks.
        """
        breaks = list(breaks)

        def answer(handler):
            validators = {"ETag": etag, "Last-Modified": modified}
            first = re.fullmatch(r"bytes=(\d+)-", handler.headers.get("Range", ""))
            current = handler.headers.get("If-Range") in {None, etag, modified}
            start = int(first[1]) if first and current else 0
            if start and start >= len(body):
                handler.start(416, {"Content-Range": f"bytes */{len(body)}", "Content-Length": "0"})
                return
            size = {"Content-Length": str(len(body) - start)}
            if start:
                size["Content-Range"] = f"bytes {start}-{len(body) - 1}/{len(body)}"
            handler.start(206 if start else 200, {**validators, **size})
            handler.wfile.write(body[start:][: breaks.pop(0) if breaks else None])

        self.answers[f"/mirror/{name}"] = answer


def names_in(directory):
    return sorted(path.name for path in directory.iterdir())


@pytest.fixture
def server(monkeypatch):
    """A web server for a test; conftest.py of the folders that use it import it.

    TEXT is the text of every dataset that is downloaded, and broken connections are taken up again
    at once.
    """
    # A proxy set in the environment must not see requests to this machine.
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    for name in ("HF_ENDPOINT", "HF_HUB_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(downloads, "PAUSE_SECONDS", 0)
    sha256 = hashlib.sha256(TEXT).hexdigest()
    for name in ("tinystories", "owt"):
        files = {
            split: dataclasses.replace(file, num_bytes=len(TEXT), sha256=sha256)
            for split, file in DATASETS[name].files.items()
        }
        monkeypatch.setitem(DATASETS, name, dataclasses.replace(DATASETS[name], files=files))
    server = Server()
    yield server
    server.http.shutdown()
    server.http.server_close()
