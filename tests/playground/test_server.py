"""The playground's server: hostile requests, limits and streams."""

import contextlib
import itertools
import json
import re
import socket
import threading
import time
import urllib.parse
import urllib.request
from collections import Counter

import pytest

pytest.importorskip("starlette", reason="needs the playground extra")
pytest.importorskip("uvicorn", reason="needs the playground extra")
testclient = pytest.importorskip("starlette.testclient", reason="starlette's client needs httpx")

from cs336_basics._support.errors import InputError  # noqa: E402
from cs336_basics.playground.answers import make_answers  # noqa: E402
from cs336_basics.playground.connections import TimedProtocol  # noqa: E402
from cs336_basics.playground.server import (  # noqa: E402
    MOST_BYTES,
    MOST_STREAMS,
    Answers,
    make_app,
)
from tests.processes import wait  # noqa: E402

TOKEN, PORT = "secret", 8336
BASE = f"http://127.0.0.1:{PORT}"


def client_of(answers):
    return testclient.TestClient(make_app(answers, TOKEN, PORT), base_url=BASE)


@pytest.fixture(scope="module")
def client():
    return client_of(make_answers())


def post(client, name, body, **options):
    return client.post(f"/{TOKEN}/api/{name}", json=body, **options)


def error_of(response, status):
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/json"
    return response.json()["error"]


def test_the_page_and_its_files_need_nothing_from_elsewhere(client):
    page = client.get(f"/{TOKEN}/")
    assert page.status_code == 200
    names = re.findall(r'(?:src|href)="([^":]+)"', page.text)
    assert {"style.css", "main.js"} <= set(names)
    for name in names:
        answer = client.get(f"/{TOKEN}/{name}")
        assert answer.status_code == 200
        assert "://" not in answer.text
    policy = page.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1", "127.0.0.1:80", "[::1]:8336", ""])
def test_another_host_is_refused_as_in_dns_rebinding(client, host):
    for method in (client.get, client.post):
        response = method(f"/{TOKEN}/", headers={"Host": host})
        assert "Host" in error_of(response, 403)


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://127.0.0.1:1", ""])
def test_a_page_of_another_origin_is_refused(client, origin):
    response = post(client, "tokens", {"text": "a"}, headers={"Origin": origin})
    assert "page of this server" in error_of(response, 403)


def test_the_page_itself_is_answered(client):
    for host in (f"127.0.0.1:{PORT}", f"localhost:{PORT}"):
        headers = {"Host": host, "Origin": f"http://{host}"}
        answer = post(client, "tokens", {"text": "a"}, headers=headers)
        assert answer.status_code == 200
        assert answer.headers["content-type"] == "application/json"


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "127.0.0.1:80"])
def test_the_default_port_may_be_left_out(host):
    app = make_app(make_answers(), TOKEN, 80)
    client = testclient.TestClient(app, base_url="http://127.0.0.1")
    for origin in (f"http://{host}", f"http://{host.removesuffix(':80')}"):
        answer = post(client, "tokens", {"text": "a"}, headers={"Host": host, "Origin": origin})
        assert answer.status_code == 200
    other = {"Host": host, "Origin": "http://127.0.0.1:8080"}
    assert "page of this server" in error_of(post(client, "tokens", {}, headers=other), 403)
    assert "Host" in error_of(client.get(f"/{TOKEN}/", headers={"Host": "127.0.0.1:8080"}), 403)


@pytest.mark.parametrize(
    "path", ["/", "/x/", "/secre/", "/secret2/", "//secret/", "/%ff/api/start"]
)
def test_a_missing_or_wrong_token_is_refused(client, path):
    assert "link" in error_of(client.post(BASE + path), 403)


@pytest.mark.parametrize(
    "path", ["../server.py", "..%2fserver.py", "%2e%2e/server.py", "/etc/passwd", "%00", "api/x"]
)
def test_no_other_file_can_be_read(client, path):
    response = client.get(f"/{TOKEN}/{path}")
    assert response.status_code in (403, 404)
    assert "import" not in response.text
    assert "root:" not in response.text


@pytest.mark.parametrize(
    ("body", "part"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b'{"text": ' + b"9" * 5000 + b"}", "not JSON"),
        (b"[]", "must be a JSON object"),
        (b"{}", "text is required"),
        (b'{"text": 1}', "text must be text, got 1"),
        (b'{"text": "a", "tokenizer": true}', "tokenizer must be an integer"),
        (b'{"text": "a", "tokenizer": -1}', "tokenizer must be at least 0"),
        (b'{"text": "a", "tokenizer": 1}', "tokenizer must be below 1, got 1"),
        (b'{"text": "a", "path": "/etc/passwd"}', "path is not an option"),
        (b'{"text": "\\ud800"}', "surrogate"),
    ],
)
def test_malformed_requests_are_errors(client, body, part):
    headers = {"Content-Type": "application/json"}
    response = client.post(f"/{TOKEN}/api/tokens", content=body, headers=headers)
    assert part in error_of(response, 400)


def test_forms_of_other_pages_and_other_methods_are_refused(client):
    response = client.post(f"/{TOKEN}/api/tokens", data={"text": "a"})
    assert "application/json" in error_of(response, 415)
    assert client.get(f"/{TOKEN}/api/tokens").status_code == 404


def test_large_requests_are_refused_before_they_are_read(client):
    read = []

    def blocks():
        for _ in range(100):
            read.append(1)
            yield b"x" * 100_000

    headers = {"Content-Type": "application/json"}
    response = client.post(f"/{TOKEN}/api/tokens", content=blocks(), headers=headers)
    assert f"{MOST_BYTES:,}" in error_of(response, 413)
    text = "x" * 100_001
    assert "100,000 characters, got 100,001" in error_of(
        post(client, "tokens", {"text": text}), 400
    )


def test_requests_at_the_same_time_are_answered():
    texts = [f"word {number}" for number in range(20)]
    found = {}

    def work(text):
        found[text] = json.load(ask(address, "tokens", {"text": text}))["num_characters"]

    with running(make_answers()) as address:
        threads = [threading.Thread(target=work, args=[text]) for text in texts]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert found == {text: len(text) for text in texts}


def test_work_that_waits_is_dropped_when_its_client_leaves():
    go_on, begun, counts = threading.Event(), threading.Semaphore(0), Counter()

    def work(asked):
        counts[asked["name"]] += 1
        begun.release()
        go_on.wait(10)
        return 1

    with running(Answers({"work": work}, {})) as address:
        first = [open_request(address, "work", {"name": "first"}) for _ in range(MOST_STREAMS)]
        for _ in first:
            assert begun.acquire(timeout=10)
        for _ in range(30):
            open_request(address, "work", {"name": "left"}).close()
        last = open_request(address, "work", {"name": "last"})
        time.sleep(0.5)  # the server notices that the clients have left
        go_on.set()
        assert last.recv(100).startswith(b"HTTP/1.1 200")
        for connection in (*first, last):
            connection.close()
    assert counts == {"first": MOST_STREAMS, "last": 1}


def test_a_body_that_does_not_arrive_is_refused(monkeypatch):
    monkeypatch.setattr("cs336_basics.playground.server.SECONDS_TO_SEND", 0.1)
    with running(make_answers()) as address, open_request(address, "tokens", {}, missing=1) as one:
        assert one.recv(100).startswith(b"HTTP/1.1 408")


def open_request(address, name, asked, missing=0):
    """Send a request without its last `missing` bytes, and return the open connection."""
    url = urllib.parse.urlsplit(address)
    body = json.dumps(asked)
    lines = [
        f"POST {url.path}api/{name} HTTP/1.1", f"Host: {url.netloc}",
        "Content-Type: application/json", f"Content-Length: {len(body) + missing}", "", body,
    ]  # fmt: skip
    connection = socket.create_connection((url.hostname, url.port), timeout=10)
    connection.sendall("\r\n".join(lines).encode())
    return connection


# --- streams ---------------------------------------------------------------------------------


def streams_of(rows):
    def work(asked, emit):
        for row in rows:
            emit(row)

    return client_of(Answers({}, {"stream": work}))


def lines_of(response):
    return [json.loads(line) for line in response.text.splitlines()]


def test_a_stream_is_lines_and_its_error_is_the_last_one():
    def rows():
        yield {"a": "\n\ud800"}
        raise InputError("no more")

    assert lines_of(post(streams_of([1, [2]]), "stream", {})) == [1, [2]]
    assert lines_of(post(streams_of(rows()), "stream", {})) == [
        {"a": "\n\ud800"},
        {"error": "no more"},
    ]


def test_streams_are_limited_and_end_with_the_page(tmp_path):
    closed = threading.Semaphore(0)

    def work(asked, emit):
        try:
            for number in itertools.count():
                emit(number)
                time.sleep(0.01)
        finally:
            closed.release()

    with running(Answers({}, {"stream": work})) as address:
        opened = [ask(address) for _ in range(MOST_STREAMS)]
        for response in opened:
            assert response.readline() == b"0\n"
        assert b"stop one of them first" in ask(address).read()
        for response in opened:
            response.close()
        for _ in opened:
            assert closed.acquire(timeout=10)
        line = wait(lambda: b"error" not in (line := ask(address).readline()) and line)
        assert line == b"0\n"


def ask(address, name="stream", asked=None):
    headers = {"Content-Type": "application/json"}
    body = json.dumps(asked or {}).encode()
    request = urllib.request.Request(f"{address}api/{name}", body, headers)
    return urllib.request.urlopen(request, timeout=10)


@contextlib.contextmanager
def running(answers):
    """Run the server in a thread, and yield its address."""
    import uvicorn

    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        options = {"log_level": "critical", "lifespan": "off", "timeout_graceful_shutdown": 0}
        app = make_app(answers, TOKEN, port)
        server = uvicorn.Server(uvicorn.Config(app, ws="none", http=TimedProtocol, **options))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{port}/{TOKEN}/"
        finally:
            server.should_exit = True
            thread.join()
