"""Connections that are closed if the headers of a request do not arrive in time.

uvicorn closes a connection that is idle after an answer, but it waits for the rest of a request
without a limit. A hundred such connections would shut out everyone else.
"""

from __future__ import annotations

import asyncio

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

SECONDS_TO_SEND = 10
"""Maximum number of seconds that a client may take to send headers, or a body."""


class TimedProtocol(H11Protocol):
    """HTTP/1.1 with a time limit for the headers of each request."""

    seconds: float = SECONDS_TO_SEND
    """The limit. A connection is closed after one to two times as many seconds."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start to watch a new connection."""
        super().connection_made(transport)
        self._check_later()

    def _check_later(self) -> None:
        self.loop.call_later(self.seconds, self._check, self.cycle)

    def _check(self, last_request: object) -> None:
        """Close the connection if no headers have been completed since the last check.

        Args:
            last_request: uvicorn's state of the last request at the last check.
        """
        if self.transport.is_closing():
            return
        if self.conn.their_state is h11.IDLE and self.cycle is last_request:
            self.transport.close()
        else:
            self._check_later()
