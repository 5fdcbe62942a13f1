"""Batch: texts that are checked and encoded together."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TypeVar

from cs336_basics._support.messages import short_repr
from cs336_basics.pretokenization.counting.parallel import resolve_num_workers
from cs336_basics.pretokenization.splitter import check_is_str
from cs336_basics.tokenizer.encoders.encoder import AbsentByteError, Encoder
from cs336_basics.tokenizer.text_input import check_is_iterable, explained

_Encoded = TypeVar("_Encoded")

# With fewer bytes, starting a thread would cost more time than it saves.
_BYTES_PER_WORKER = 1 << 18


class Batch:
    """Checked texts, and the special tokens in them that become ids.

    Args:
        texts: Iterable of str.
        choose_special: See `SpecialChoice.choose`.
        allowed_special, disallowed_special: See `Tokenizer.encode`.

    Raises:
        TypeError, ValueError: See `Tokenizer.encode`; the message starts with the index of the
            text.
    """

    def __init__(
        self,
        texts: Iterable[str],
        choose_special: Callable[..., frozenset[str]],
        allowed_special: str | Collection[str] | None,
        disallowed_special: str | Collection[str],
    ) -> None:
        check_is_iterable("texts", texts, "texts")
        if isinstance(texts, Mapping):  # iterating over a batch of Dataset rows gives column names
            raise TypeError(
                f"texts must be a list of texts, such as a column, got {short_repr(texts)}"
            )
        self._texts = list(texts)
        for index, text in enumerate(self._texts):
            if isinstance(text, str) and not disallowed_special:
                continue
            try:
                check_is_str(text)
                choose_special(text, allowed_special, disallowed_special)
            except (TypeError, ValueError) as error:
                raise type(error)(f"text {index:,}: {error}") from None
        self._special = choose_special("", allowed_special, disallowed_special)

    def encode(
        self,
        encoder: Encoder,
        method: Callable[[list[str], frozenset[str], int], _Encoded],
        num_workers: int | None,
    ) -> _Encoded:
        """Call an encoder method, such as `encode_batch`, and add the text's index to its errors.

        Raises:
            ValueError: If a text cannot be encoded. The message includes the index of the first
                such text.
        """
        workers = useful_workers(num_workers, sum(map(len, self._texts)))
        try:
            return method(self._texts, self._special, workers)
        except (UnicodeEncodeError, AbsentByteError):
            # Threads encode in any order, so find the first text that fails.
            for index, text in enumerate(self._texts):
                try:
                    encoder.encode(text, self._special)
                except (UnicodeEncodeError, AbsentByteError) as error:
                    raise ValueError(f"text {index:,}: {explained(error, text)}") from None
            raise


def useful_workers(num_workers: int | None, num_bytes: int) -> int:
    """Return the number of threads to start for `num_bytes` of text."""
    return max(1, min(resolve_num_workers(num_workers), num_bytes // _BYTES_PER_WORKER))
