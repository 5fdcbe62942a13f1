"""Connections whose requests do not arrive are closed, and only these."""

import contextlib
import json
import socket
import time

import pytest

pytest.importorskip("starlette", reason="needs the playground extra")
pytest.importorskip("uvicorn", reason="needs the playground extra")

from cs336_basics.playground.connections import TimedProtocol
from cs336_basics.playground.server import Answers
from tests.playground.test_server import open_request, running


@pytest.fixture
def address(monkeypatch):
    def slow(asked):
        time.sleep(0.5)
        return 7

    monkeypatch.setattr(TimedProtocol, "seconds", 0.1)
    with running(Answers({"slow": slow}, {})) as address:
        yield address


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\nHost: a"])
def test_a_connection_without_complete_headers_is_closed(address, sent):
    host, port = address.split("/")[2].split(":")
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        connection.sendall(sent)
        assert connection.recv(100) == b""


def test_a_connection_is_closed_after_its_answer_and_not_before(address):
    with open_request(address, "slow", {}) as connection:  # takes longer than the limit
        answer = b""
        while not answer.endswith(b"7"):
            answer += connection.recv(1000)
        connection.sendall(b"GET / HT")  # the rest of a second request does not arrive
        # If the server has not read all of it, the closed connection is reset.
        with contextlib.suppress(ConnectionResetError):
            assert connection.recv(100) == b""
    assert json.loads(answer.partition(b"\r\n\r\n")[2]) == 7
