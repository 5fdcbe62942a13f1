"""Downloads over HTTP, within limits, that continue where they were interrupted.

The bytes go into a file that the caller names, FILE.part, and FILE.part.json has their URL and the
validator (ETag or Last-Modified) of the server's answer. A later call requests the rest with
`Range` and `If-Range`: a server whose file has changed, or that cannot send ranges, sends all of it
(RFC 9110, sections 13.1.5 and 14.2). Without a validator every call starts from the beginning.

What a server announces is never trusted: the caller gives a limit, and verifies the content.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any
from urllib.parse import urljoin, urlsplit

from cs336_basics._support.disk import naming
from cs336_basics._support.files import write_json
from cs336_basics._support.journal import open_regular
from cs336_basics._support.messages import short_reason, short_repr
from cs336_basics._support.progress import byte_bar
from cs336_basics._support.reading import read_json_object

with contextlib.suppress(ImportError):  # Windows lacks it: there, two downloads may mix
    import fcntl

BLOCK = 1 << 20
TIMEOUT_SECONDS = 60.0
"""The longest wait for the next bytes of a server."""
ATTEMPTS = 5
"""How often a connection may break, one time after the other, without a megabyte of progress."""
PAUSE_SECONDS = 1.0
"""The wait after the first of these attempts; it doubles with each of them."""

_MAX_REDIRECTS = 10
_MAX_RECORD = 1 << 16  # bytes
_LONGEST_HEADER = 1024


class DownloadError(OSError):
    """A file could not be fetched; the message names the URL and the file."""


class WrongContentError(DownloadError):
    """What arrived cannot be the file: nothing of it is kept."""


class _ConnectionBrokenError(Exception):
    """The connection broke after some bytes; what arrived is kept."""


class _NoConnectionError(DownloadError):
    """There was no answer."""


@dataclass(frozen=True)
class Source:
    """What is downloaded, and what is known of it.

    Attributes:
        url: its address.
        limit: the most bytes that are taken.
        num_bytes: its size, None if it is not known.
        failure: how messages begin, such as "cannot fetch FILE from URL: ".
        label: of the progress bar.
    """

    url: str
    limit: int
    num_bytes: int | None
    failure: str
    label: str


@contextlib.contextmanager
def downloaded(source: Source, part: Path, *, progress: bool = False) -> Iterator[str | None]:
    """Download into `part`, or what is missing there, for the block; then remove it.

    After a lost connection the request is repeated for the rest, as long as there is progress.
    After an exception `part` has the bytes received so far, for the next call, unless it is a
    WrongContentError, which the block may raise, too.

    Yields:
        The SHA-256 that the Hugging Face hub announced for the file, None if it did not.

    Raises:
        DownloadError: no connection, the server refuses, sends a web page, or sends or announces
            another number of bytes; another process is downloading into `part`.
        OSError: `part` cannot be written.
    """
    with _locked(part, source) as file:
        try:
            announced = _complete(source, part, file, progress)
            yield announced
        except WrongContentError:
            file.truncate(0)
            raise
        file.truncate(0)


def _complete(source: Source, part: Path, file: IO[bytes], progress: bool) -> str | None:
    """Download what is missing, in several attempts; return the announced SHA-256."""
    import requests  # only downloads need it

    failures = 0
    reason = ""  # why the connection broke
    with requests.Session() as session:
        # Redirections are followed here: `requests` reads their content, which may have no end,
        # even where it does not follow them.
        session.get_redirect_target = lambda resp: None  # type: ignore[method-assign]
        while True:
            held = file.seek(0, os.SEEK_END)
            try:
                return _Attempt(source, part, file, session).run(progress)
            except _NoConnectionError:
                if not reason:
                    raise
            except _ConnectionBrokenError as error:
                reason = str(error)
            now = file.seek(0, os.SEEK_END)
            failures = 0 if now - held >= BLOCK else failures + 1
            if failures == ATTEMPTS:
                of_all = f" of {source.num_bytes:,}" if source.num_bytes else ""
                raise DownloadError(
                    f"{source.failure}the connection broke after {now:,}{of_all} bytes ({reason}); "
                    "repeat the command to continue"
                )
            time.sleep(PAUSE_SECONDS * 2 ** max(0, failures - 1))


def record_of(part: Path) -> Path:
    """Return FILE.json, which describes FILE: a text, or a partial download with its URL."""
    return part.with_name(part.name + ".json")


class _Attempt:
    """One request for a file, or for its end.

    Args:
        source, part: as `downloaded`.
        file: `part`, open for appending.
        session: of `requests`.
    """

    def __init__(self, source: Source, part: Path, file: IO[bytes], session: Any) -> None:
        self.source = source
        self.part = part
        self.file = file
        self.session = session
        self.announced: str | None = None

    def run(self, progress: bool) -> str | None:
        """Append what the server sends; return the SHA-256 that the hub announced.

        Raises:
            _ConnectionBrokenError: the connection broke.
            DownloadError: see `downloaded`.
        """
        held = self.file.seek(0, os.SEEK_END)
        validator = self._recorded_validator() if held else None
        if validator is None:
            held = 0
        elif held == self.source.num_bytes:
            return None  # only the verification is missing
        answer = self._ask(held, validator)
        try:
            if held and answer.status_code == 416 and _size_in_range(answer.headers) == held:
                return self.announced  # as above, of a file whose size was not known
            if held and not _continues(answer, held, validator):
                held = 0
                if answer.status_code in (206, 416):  # another range than that: all of it, then
                    answer.close()
                    answer = self._ask(0, None)
            self._check(answer, held)
            if held == 0:
                self._start_over(answer)
            self._receive(answer, held, progress)
            return self.announced
        finally:
            answer.close()

    def _ask(self, held: int, validator: str | None) -> Any:
        """Return the answer to a request for the bytes from `held` on, after redirections."""
        # Unencoded, so that offsets and sizes are those of the file.
        headers = {"Accept-Encoding": "identity"}
        if validator is not None:
            headers |= {"Range": f"bytes={held}-", "If-Range": validator}
        url = self.source.url
        for _ in range(_MAX_REDIRECTS + 1):
            answer = self._get(url, headers)
            # The hub sends it with the redirection to the server that has the file.
            linked = answer.headers.get("X-Linked-ETag", "").strip('"')
            if re.fullmatch("[0-9a-f]{64}", linked):
                self.announced = linked
            if not answer.is_redirect:
                return answer
            answer.close()
            target = answer.headers["Location"]
            try:
                url = urljoin(url, target)
                is_web = urlsplit(url).scheme in ("http", "https")
            except ValueError:  # it is no address
                url, is_web = target, False
            if not is_web:
                raise self._error(f"the server redirects to {short_repr(url)}")
        raise self._error(f"the server redirects more than {_MAX_REDIRECTS} times")

    def _get(self, url: str, headers: dict[str, str]) -> Any:
        import requests
        import urllib3

        try:
            return self.session.get(
                url, headers=headers, stream=True, timeout=TIMEOUT_SECONDS, allow_redirects=False
            )
        except (requests.ConnectionError, requests.Timeout) as error:
            reason = "no connection; is there a network, and is the address right?"
            raise _NoConnectionError(self.source.failure + reason) from error
        except (requests.RequestException, urllib3.exceptions.HTTPError) as error:
            raise self._error(short_reason(error)) from error

    def _check(self, answer: Any, held: int) -> None:
        """Refuse an answer that cannot be the file, before its content is read."""
        if answer.status_code != (206 if held else 200):
            words = short_repr(answer.reason or "")[1:-1]
            raise self._error(f"the server answered {answer.status_code} {words}".rstrip())
        if answer.headers.get("Content-Type", "").startswith("text/html"):
            raise self._error(
                "the server answered with a web page; does this network ask for a login?"
            )
        length = _content_length(answer.headers)
        known = self._known_size(answer)
        if length is not None and known is not None and held + length != known:
            raise self._wrong(
                f"the server announces {held + length:,} bytes, and the file has {known:,}"
            )
        if length is not None and held + length > self.source.limit:
            raise self._wrong(
                f"the server announces {held + length:,} bytes, and the file has "
                f"{self.source.limit:,} at most"
            )

    def _start_over(self, answer: Any) -> None:
        """Drop what there is, and record what comes instead."""
        self.file.truncate(0)
        record = {"url": self.source.url, "validator": _validator_of(answer.headers)}
        write_json(record_of(self.part), record)

    def _receive(self, answer: Any, held: int, progress: bool) -> None:
        """Append the content of an answer, to the end that was announced."""
        from urllib3.exceptions import HTTPError

        known = self._known_size(answer)
        length = _content_length(answer.headers)
        end = known if length is None else held + length  # without a length: until it is closed
        with byte_bar(progress, end or 0, self.source.label) as bar:
            bar.update(held)
            while True:
                try:
                    block = answer.raw.read(BLOCK, decode_content=False)
                except (HTTPError, OSError) as error:
                    raise _ConnectionBrokenError(_kind_of(error)) from error
                if not block:
                    break
                held += len(block)
                if held > self.source.limit:
                    raise self._wrong(
                        f"the server sends more than {self.source.limit:,} bytes, and the file has "
                        "no more"
                    )
                with naming(self.part):
                    self.file.write(block)
                    self.file.flush()
                bar.update(len(block))
        if end is not None and held < end:
            raise _ConnectionBrokenError("it was closed before the end")

    def _known_size(self, answer: Any) -> int | None:
        """Return the number of bytes of a complete answer, as far as the caller knew it."""
        encoded = answer.headers.get("Content-Encoding", "identity") != "identity"
        return None if encoded else self.source.num_bytes

    def _recorded_validator(self) -> str | None:
        """Return what identifies the version of the file of which there is a part."""
        try:
            record = read_json_object(record_of(self.part), _MAX_RECORD)
        except (OSError, ValueError):
            return None
        validator = record.get("validator")
        if record.get("url") != self.source.url or not isinstance(validator, str):
            return None
        return validator if _is_header_value(validator) else None

    def _error(self, reason: str) -> DownloadError:
        return DownloadError(self.source.failure + reason)

    def _wrong(self, reason: str) -> WrongContentError:
        return WrongContentError(f"{self.source.failure}{reason}: it is a different file")


@contextlib.contextmanager
def _locked(part: Path, source: Source) -> Iterator[IO[bytes]]:
    """Open a partial download for this process alone; remove it in the end if it is empty."""
    if part.exists():
        open_regular(part).close()  # refuses a FIFO, for which opening it would wait
    try:
        with naming(part), open(part, "a+b") as file:
            if not _lock(file, part):
                raise DownloadError(
                    f"{source.failure}another process is downloading it into {part}"
                )
            try:
                yield file
            finally:
                if os.name != "nt":
                    _remove_empty(part)
    finally:
        if os.name == "nt":  # which cannot remove an open file
            _remove_empty(part)


def _lock(file: IO[bytes], part: Path) -> bool:
    """Lock an open file, until it is closed; tell whether no other process has done so."""
    if os.name == "nt":
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True  # a file system without locks
    try:  # the process that had locked it may have removed it
        return os.path.samestat(os.fstat(file.fileno()), os.stat(part))
    except FileNotFoundError:
        return False


def _remove_empty(part: Path) -> None:
    with contextlib.suppress(OSError):  # after an error, a second one must not hide it
        if part.stat().st_size == 0:
            record_of(part).unlink(missing_ok=True)
            part.unlink()


def _continues(answer: Any, held: int, validator: str | None) -> bool:
    """Tell whether an answer is the rest of the file from `held` on."""
    found = re.match(r"bytes ([0-9]{1,18})-", answer.headers.get("Content-Range", ""))
    if answer.status_code != 206 or found is None or int(found[1]) != held:
        return False
    etag = answer.headers.get("ETag")
    return etag is None or etag == validator or not _is_etag(validator)


def _size_in_range(headers: Mapping[str, str]) -> int | None:
    """Return the size of a file of which a server cannot send a range."""
    found = re.fullmatch(r"bytes \*/([0-9]{1,18})", headers.get("Content-Range", ""))
    return None if found is None else int(found[1])


def _is_etag(validator: str | None) -> bool:
    return validator is not None and validator.startswith('"')


def _is_header_value(text: str) -> bool:
    return 0 < len(text) <= _LONGEST_HEADER and text.isascii() and text.isprintable()


def _validator_of(headers: Mapping[str, str]) -> str | None:
    """Return the strong ETag of an answer, else its Last-Modified: what If-Range can compare."""
    etag = headers.get("ETag", "")
    if etag.startswith('"') and _is_header_value(etag):
        return etag
    modified = headers.get("Last-Modified", "")
    return modified if _is_header_value(modified) else None


def _content_length(headers: Mapping[str, str]) -> int | None:
    """Return the announced number of bytes, None where there is no number."""
    text = headers.get("Content-Length", "")
    return int(text) if re.fullmatch(r"[0-9]{1,18}", text) else None


def _kind_of(error: Exception) -> str:
    """Return in a few words what broke a connection."""
    from urllib3.exceptions import IncompleteRead, ReadTimeoutError

    if isinstance(error, ReadTimeoutError):
        return f"nothing arrived for {TIMEOUT_SECONDS:.0f} seconds"
    if isinstance(error, IncompleteRead) or any(isinstance(a, IncompleteRead) for a in error.args):
        return "it was closed before the end"
    return short_reason(error)
