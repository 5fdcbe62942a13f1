"""An S3 server on this machine, behind a proxy that fails, throttles and breaks connections."""

from __future__ import annotations

import contextlib
import http.client
import json
import logging
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

import pytest

SLOW_DOWN = (
    b"<?xml version='1.0'?><Error><Code>SlowDown</Code>"
    b"<Message>Please reduce your request rate.</Message></Error>"
)
INTERNAL_ERROR = (
    b"<?xml version='1.0'?><Error><Code>InternalError</Code>"
    b"<Message>We encountered an internal error.</Message></Error>"
)
PUBLIC = (
    "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/s3/aws4_request, "
    "SignedHeaders=host, Signature=none"
)
"""Header added to unsigned requests, which the server would not recognize as S3 requests."""
SECONDS_OF_STALL = 1
TIMEOUT = 0.5


class Proxy(ThreadingHTTPServer):
    """Passes requests on to the server, except those that `fault` chooses.

    Attributes:
        fault: Function of a request's method, its path, and the number of such requests so far. It
            returns None, or the name of a method of `Handler`.
        faults: Method, path and fault of the requests that were not passed on intact.
        sent: Number of bytes in the bodies of responses.
    """

    daemon_threads = True

    def __init__(self, host, port):
        super().__init__(("127.0.0.1", 0), Handler)
        self.upstream = (host, port)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.reset()

    def reset(self):
        self.fault = lambda method, path, number: None
        self.faults = []
        self.numbers = {}
        self.sent = 0


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *arguments):
        pass

    def handle_one_request(self):
        with contextlib.suppress(ConnectionError):  # the client has closed the connection
            super().handle_one_request()
            return
        self.close_connection = True

    def work(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        path = urlsplit(self.path).path
        number = self.server.numbers.get((self.command, path), 0)
        self.server.numbers[self.command, path] = number + 1
        fault = self.server.fault(self.command, path, number)
        if fault is not None:
            self.server.faults.append((self.command, path, fault))
        if fault == "slow_down":
            self.reply(503, {}, SLOW_DOWN)
            return
        if fault == "internal_error":
            self.reply(500, {}, INTERNAL_ERROR)
            return
        if fault == "no_answer":
            self.close_connection = True
            return
        connection = http.client.HTTPConnection(*self.server.upstream)
        headers = {"Authorization": PUBLIC} | dict(self.headers)
        connection.request(self.command, self.path, body, headers)
        response = connection.getresponse()
        self.reply(response.status, dict(response.getheaders()), response.read(), fault)
        connection.close()

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = work

    def reply(self, status, headers, content, fault=None):
        self.send_response(status)
        for name, value in headers.items():
            if name.lower() not in ("transfer-encoding", "connection", "date", "server"):
                self.send_header(name, value)
        if "content-length" not in {name.lower() for name in headers}:
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if fault in ("broken_body", "stall"):
            self.wfile.write(content[: len(content) // 2])
            self.wfile.flush()
            if fault == "stall":
                self.server.stalled.wait(SECONDS_OF_STALL)
            self.close_connection = True
            return
        self.wfile.write(content)
        self.server.sent += len(content)


@contextlib.contextmanager
def s3_server():
    """Start a server with an empty bucket `data`, and yield its proxy.

    The environment contains what fsspec needs, so Ray must be started in the block.
    """
    pytest.importorskip("s3fs", reason="needs s3fs; pip install 'moto[s3]' flask flask-cors s3fs")
    server_module = pytest.importorskip(
        "moto.server", reason="needs moto's server; pip install 'moto[s3]' flask flask-cors s3fs"
    )
    fsspec = pytest.importorskip("fsspec")
    from fsspec.config import conf

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = server_module.ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    proxy = Proxy(*server.get_host_and_port())
    proxy.stalled = threading.Event()
    threading.Thread(target=proxy.serve_forever, daemon=True).start()
    # Limit botocore's attempts, five by default, because s3fs itself repeats failed requests.
    attempts = {"max_attempts": 1}
    options = {"config_kwargs": {"read_timeout": TIMEOUT, "retries": attempts}}
    with pytest.MonkeyPatch.context() as patch:
        for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_MAX_ATTEMPTS"):
            patch.delenv(name, raising=False)
        patch.setenv("AWS_ACCESS_KEY_ID", "test")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "test")
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        patch.setenv("AWS_ENDPOINT_URL", proxy.url)
        patch.setenv("FSSPEC_S3", json.dumps(options))  # read by the worker processes
        patch.setitem(conf, "s3", options)
        try:
            fsspec.filesystem("s3", skip_instance_cache=True).mkdir("data")
            yield proxy
        finally:
            proxy.stalled.set()
            proxy.shutdown()
            proxy.server_close()
            server.stop()
            fsspec.get_filesystem_class("s3").clear_instance_cache()
