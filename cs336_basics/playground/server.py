"""The web server of the playground: which requests it accepts, and how it answers them.

Other pages in the same browser can send requests to 127.0.0.1, even under another host name (DNS
rebinding). Every path therefore starts with a secret that changes each time the server starts, and
`Host` and `Origin` must name the server itself.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import socket
import sys
import threading
import webbrowser
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import uvicorn
from anyio import CancelScope, CapacityLimiter, fail_after, from_thread, to_thread
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from cs336_basics._support.messages import short_reason
from cs336_basics.playground.answers import EXPECTED, Answers, Asked
from cs336_basics.playground.connections import SECONDS_TO_SEND, TimedProtocol
from cs336_basics.playground.learning import Emit

ADDRESS = "127.0.0.1"
MOST_BYTES = 1 << 20
"""Maximum size of a request body."""
MOST_STREAMS = 4
"""Maximum number of answers that are streamed at the same time."""

_PAGE = Path(__file__).parent / "page"
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


def make_app(answers: Answers, token: str, port: int) -> ASGIApp:
    """Return the ASGI application.

    Args:
        answers: Functions that answer the requests of the page.
        token: Secret first part of every path.
        port: Port in the headers `Host` and `Origin`.
    """
    limiter = CapacityLimiter(MOST_STREAMS)
    streams = threading.BoundedSemaphore(MOST_STREAMS)
    routes = [
        Route(f"/{token}/api/{name}", _whole(work, limiter), methods=["POST"])
        for name, work in answers.whole.items()
    ]
    routes += [
        Route(f"/{token}/api/{name}", _streamed(work, streams), methods=["POST"])
        for name, work in answers.streamed.items()
    ]
    page = Mount(f"/{token}", StaticFiles(directory=_PAGE, html=True))
    handlers = dict.fromkeys((HTTPException, *EXPECTED), _error)
    return _Guard(Starlette(routes=[*routes, page], exception_handlers=handlers), token, port)


def serve(answers: Answers, port: int, open_browser: bool, say: Callable[[str], object]) -> None:
    """Serve the page until Ctrl-C.

    Args:
        answers: Functions that answer the requests of the page.
        port: Port on 127.0.0.1. 0 chooses a free one.
        open_browser: Whether to open the page in the browser.
        say: Called with a line that contains the address.

    Raises:
        OSError: If the port is in use.
    """
    with socket.socket() as listener:
        if sys.platform != "win32":  # on Windows, this allows two servers on one port
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((ADDRESS, port))
        except OSError as error:
            reason = f"port {port} cannot be used: {error.strerror}; pass another port"
            raise OSError(error.errno, reason) from None
        listener.listen()
        port = listener.getsockname()[1]
        token = secrets.token_urlsafe(16)
        config = uvicorn.Config(
            make_app(answers, token, port),
            log_level="critical",
            access_log=False,
            server_header=False,
            http=TimedProtocol,
            ws="none",
            lifespan="off",
            limit_concurrency=100,
            timeout_graceful_shutdown=0,  # Ctrl-C does not wait for the page to close
        )
        address = f"http://{ADDRESS}:{port}/{token}/"
        say(f"the playground is at {address} (Ctrl-C ends it)")
        if open_browser:
            threading.Thread(target=webbrowser.open, args=[address], daemon=True).start()
        uvicorn.Server(config).run(sockets=[listener])


class _Guard:
    """Refuses requests that do not come from the page, and adds headers to every answer."""

    def __init__(self, app: ASGIApp, token: str, port: int) -> None:
        self._app = app
        self._token = token.encode()
        # Browsers leave out the default port.
        self._port = b"" if port == 80 else f":{port}".encode()
        self._hosts = {name.encode() + self._port for name in (ADDRESS, "localhost")}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise RuntimeError("the playground handles only HTTP requests")

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                added = [(name.lower().encode(), v.encode()) for name, v in _HEADERS.items()]
                message["headers"] = [*message["headers"], *added]
            await send(message)

        try:
            self._check(scope)
        except HTTPException as error:
            await _error(Request(scope), error)(scope, receive, send_with_headers)
            return
        await self._app(scope, receive, send_with_headers)

    def _check(self, scope: Scope) -> None:
        headers: dict[bytes, list[bytes]] = {}
        for name, value in scope["headers"]:
            headers.setdefault(name.lower(), []).append(value)
        hosts, origins = (
            [value if self._port else value.removesuffix(b":80") for value in headers.get(name, [])]
            for name in (b"host", b"origin")
        )
        if len(hosts) != 1 or hosts[0] not in self._hosts:
            raise HTTPException(403, "the Host header must name this server")
        if any(origin != b"http://" + hosts[0] for origin in origins):
            raise HTTPException(403, "requests must come from the page of this server")
        first = scope["path"].encode("utf-8", "surrogateescape").split(b"/")[1:2]
        if not first or not secrets.compare_digest(first[0], self._token):
            raise HTTPException(
                403,
                "this link is from an earlier start of the playground, or incomplete; open the "
                "link that the command printed",
            )


Endpoint = Callable[[Request], Awaitable[Response]]


def _whole(work: Callable[[Asked], Any], limiter: CapacityLimiter) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        asked = await _body(request)
        result = b""  # of no interest if the client left
        with CancelScope() as scope:
            watch = asyncio.create_task(_call_when_client_leaves(request, scope.cancel))
            try:
                # Work that still waits for a thread is cancelled.
                result = await to_thread.run_sync(lambda: _json(work(asked)), limiter=limiter)
            finally:
                watch.cancel()
        return Response(result, media_type="application/json")

    return endpoint


async def _call_when_client_leaves(request: Request, call: Callable[[], object]) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
    call()


def _streamed(work: Callable[[Asked, Emit], None], streams: threading.BoundedSemaphore) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        asked = await _body(request)
        return _Lines(lambda emit: work(asked, emit), streams)

    return endpoint


class _Lines(StreamingResponse):
    """Each row as a line of JSON. If there is an error, it is the last line."""

    def __init__(self, work: Callable[[Emit], None], streams: threading.BoundedSemaphore) -> None:
        super().__init__((), media_type="application/x-ndjson")
        self._work = work
        self._streams = streams

    async def stream_response(self, send: Send) -> None:
        """Send the rows, computed in a thread."""

        async def send_row(row: Any) -> None:
            line = _json(row) + b"\n"
            await send({"type": "http.response.body", "body": line, "more_body": True})

        def emit(row: Any) -> None:
            from_thread.check_cancelled()  # the page was closed, or the server ends
            from_thread.run(send_row, row)

        def work() -> None:
            if not self._streams.acquire(blocking=False):
                message = f"{MOST_STREAMS} other views are running; stop one of them first"
                emit({"error": message})
                return
            try:
                self._work(emit)
            except EXPECTED as error:
                emit({"error": short_reason(error)})
            finally:
                self._streams.release()

        start = {"status": self.status_code, "headers": self.raw_headers}
        await send({"type": "http.response.start", **start})
        await to_thread.run_sync(work)
        await send({"type": "http.response.body"})


async def _body(request: Request) -> Asked:
    """Return the object in a request.

    Raises:
        HTTPException: If the body is too large, too slow or not a JSON object.
    """
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        raise HTTPException(415, "the Content-Type must be application/json")
    body = bytearray()
    try:
        with fail_after(SECONDS_TO_SEND):
            async for block in request.stream():
                body += block
                if len(body) > MOST_BYTES:
                    raise HTTPException(413, f"a request must have at most {MOST_BYTES:,} bytes")
    except TimeoutError:
        raise HTTPException(
            408, f"a request must arrive within {SECONDS_TO_SEND} seconds"
        ) from None
    except ClientDisconnect:
        raise HTTPException(400, "the request ended early") from None
    try:
        asked = json.loads(body)
    except (ValueError, RecursionError):
        raise HTTPException(400, "the request is not JSON") from None
    if not isinstance(asked, dict):
        raise HTTPException(400, "the request must be a JSON object")
    return asked


def _json(value: Any) -> bytes:
    # ASCII only, because texts may contain unpaired surrogates, which UTF-8 cannot represent.
    return json.dumps(value, separators=(",", ":"), allow_nan=False).encode()


def _error(_: Request, error: Exception) -> Response:
    """Return the answer to a request that is refused or raises an expected exception."""
    status, message = 400, short_reason(error)
    if isinstance(error, HTTPException):
        status, message = error.status_code, error.detail
    return Response(_json({"error": message}), status, media_type="application/json")
