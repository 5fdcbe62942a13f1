"""Truncation and padding: turn sequences of different lengths into one array with a mask."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, SupportsIndex

from cs336_basics._support.arguments import (
    MAX_INT64,
    check_choice,
    check_is_iterable,
    checked_bool,
    checked_integer,
)
from cs336_basics._support.errors import Argument, InputError, InputTypeError
from cs336_basics._support.lazy import np, npt
from cs336_basics._support.messages import counted, short_repr
from cs336_basics._support.ragged import items_at, offsets_of
from cs336_basics._support.text import END_OF_TEXT
from cs336_basics.tokenizer.ids import (
    EncodedBatch,
    is_plain_array,
    plain_ids,
    sequences_of,
    shortened,
)
from cs336_basics.tokenizer.length_settings import LengthSettings
from cs336_basics.tokenizer.post_processor import PostProcessor
from cs336_basics.tokenizer.text_input import text_column

if TYPE_CHECKING:
    from cs336_basics.tokenizer.tokenizer import Tokenizer

fill_rows: Callable[..., None] | None
try:
    from cs336_basics.tokenizer._padding import fill_rows
except ImportError:  # not compiled
    fill_rows = None

_COMPILED = ("=u2", "=u4", "=i8")
"""Dtypes of ids that `fill_rows` copies."""

MAX_ELEMENTS = 1 << 30
"""Maximum number of ids in an array returned by `pad`. Without this limit, a single long sequence
among many short ones could exhaust memory."""


class PaddedBatch(NamedTuple):
    """Sequences of ids as one array.

    Attributes:
        ids: Shape (batch, longest), int64.
        mask: Shape (batch, longest), bool. True for ids of a sequence, False for padding.
    """

    ids: npt.NDArray[np.int64]
    mask: npt.NDArray[np.bool_]


def truncate(
    sequences: Iterable[Iterable[SupportsIndex]] | EncodedBatch,
    max_length: int,
    *,
    side: str = "right",
) -> list[Any]:
    """Return each sequence, shortened to at most `max_length` ids.

    Args:
        sequences: Lists or arrays of ids, or the result of `encode_batch_array`.
        max_length: Maximum number of ids in a sequence, at least 0.
        side: Side from which ids are removed: `"right"` keeps the start, `"left"` keeps the end.

    Returns:
        A slice of each sequence that is too long (a view if the sequence is an array), and the
        other sequences unchanged.

    Raises:
        TypeError: If `sequences` does not contain sequences.
        ValueError: If `side` is unknown, `max_length` is negative, or an array is not
            one-dimensional.
    """
    max_length = checked_integer("max_length", max_length, 0)
    _check_side(side)
    kept: list[Any] = []
    check_is_iterable("sequences", sequences, "sequences of ids")
    for index, sequence in enumerate(sequences_of(sequences)):
        kept.append(shortened(_sliceable(sequence, index), max_length, side))
    return kept


def pad(
    sequences: Iterable[Iterable[SupportsIndex]] | EncodedBatch,
    *,
    pad_id: int = 0,
    side: str = "right",
    max_length: int | None = None,
    multiple_of: int = 1,
) -> PaddedBatch:
    """Return sequences of ids as one array, with a mask that separates ids from padding.

    Args:
        sequences: Lists or arrays of ids, of any lengths, or the result of `encode_batch_array`,
            which can be padded many times faster.
        pad_id: Padding value. Any number works because the mask marks the padding. Examples are the
            id of a special token, and -100, which PyTorch's cross-entropy ignores in targets.
        side: Side to pad: `"right"`, or `"left"` for generation, which needs the newest ids in the
            last column.
        max_length: Maximum number of ids in a sequence. Longer sequences keep their start; to keep
            their end, call `truncate` first. Defaults to no limit.
        multiple_of: Divisor of the array's width, which is rounded up. If it equals `max_length`,
            all arrays have the same width.

    Returns:
        Ids of shape (batch, longest), dtype int64, and a bool mask of the same shape.

    Raises:
        TypeError: If `sequences` does not contain sequences, or an id is not an integer; the
            message starts with the index of the sequence.
        ValueError: If an array has more than one dimension, an id or `pad_id` does not fit int64,
            `side` is unknown, `max_length` is not a multiple of `multiple_of`, or the array would
            have more than MAX_ELEMENTS ids.
    """
    _check_side(side)
    multiple_of = checked_integer("multiple_of", multiple_of, 1)
    pad_id = checked_integer("pad_id", pad_id, -MAX_INT64 - 1, MAX_INT64)
    if max_length is not None:
        max_length = checked_integer("max_length", max_length, 1)
        if max_length % multiple_of:
            raise InputError(
                f"must be a multiple of multiple_of ({multiple_of}), got {max_length}",
                argument="max_length",
            )
    if isinstance(sequences, EncodedBatch):
        batch = _truncated_batch(sequences, max_length)
    else:
        batch = _joined(truncate(sequences, max_length or sys.maxsize))
    lengths = np.diff(batch.offsets)[:, None]
    width = -(-int(lengths.max(initial=0)) // multiple_of) * multiple_of
    if len(lengths) * width > MAX_ELEMENTS:
        raise InputError(
            f"the array must have at most {MAX_ELEMENTS:,} ids, got "
            f"{counted(len(lengths), 'row')} of {width:,} ids",
            remedy="pass max_length, or sort the sequences by length and pad smaller batches",
        )
    return _rows(batch, lengths, width, pad_id, side)


def _rows(
    batch: EncodedBatch, lengths: npt.NDArray[np.int64], width: int, pad_id: int, side: str
) -> PaddedBatch:
    """Return the sequences of a batch as rows of `width` ids; `lengths` has shape (batch, 1)."""
    if fill_rows is not None and is_plain_array(batch.ids) and batch.ids.dtype in _COMPILED:
        padded = np.empty((len(lengths), width), np.int64)
        mask = np.empty(padded.shape, np.bool_)
        fill_rows(
            np.ascontiguousarray(batch.ids),
            np.ascontiguousarray(batch.offsets[:-1], np.int64),
            lengths[:, 0],
            pad_id,
            side == "left",
            padded,
            mask.view(np.uint8),
        )
        return PaddedBatch(padded, mask)
    columns = np.arange(width)
    mask = columns < lengths if side == "right" else columns >= width - lengths
    padded = np.full(mask.shape, pad_id, np.int64)
    padded[mask] = batch.ids
    return PaddedBatch(padded, mask)


def checked_pad_id(tokenizer: Tokenizer, pad_id: int | str) -> int:
    """Return the id of the padding, which may be given as a special token."""
    if not isinstance(pad_id, str):
        return pad_id
    try:
        return tokenizer.special_token_id(pad_id)
    except InputError as error:
        raise error.renamed(lambda _: "pad_id") from None


def model_inputs(
    tokenizer: Tokenizer,
    text: str | Iterable[str] | Mapping[str, Any],
    padding: bool | str,
    truncation: bool,
    max_length: int | None,
    pad_id: int | str | None,
    text_pair: str | Iterable[str] | None = None,
    add_special_tokens: bool = True,
) -> dict[str, list[Any]]:
    """Return the `input_ids` and the `attention_mask` of one or several texts.

    See `Tokenizer.__call__`.
    """
    if isinstance(text, Mapping):
        text = text_column(text)
    if text_pair is not None and isinstance(text, str) != isinstance(text_pair, str):
        raise InputTypeError(
            "must be one text if text is one text, and several if text is several, got "
            f"{short_repr(text_pair)}",
            argument="text_pair",
        )
    settings = tokenizer.definition.length_settings or LengthSettings()
    limit, width = _lengths(padding, truncation, max_length, settings)
    lists = tokenizer.encode_batch([text] if isinstance(text, str) else text)
    seconds = None
    if text_pair is not None:
        seconds = tokenizer.encode_batch([text_pair] if isinstance(text_pair, str) else text_pair)
    checked_bool("add_special_tokens", add_special_tokens)
    post_processor = tokenizer.definition.post_processor
    if post_processor is not None or seconds is not None:
        lists = _processed(
            post_processor or PostProcessor(),
            lists,
            seconds,
            add_special_tokens,
            limit,
            settings.truncation_side,
        )
    if pad_id is None:
        pad_id = settings.pad_id
    if pad_id is None:
        pad_id = tokenizer.definition.special_ids.get(END_OF_TEXT, 0)
    pad_id = checked_pad_id(tokenizer, pad_id)
    ids, mask = _padded_lists(lists, padding, limit, width, pad_id, settings)
    if isinstance(text, str):
        return {"input_ids": ids[0], "attention_mask": mask[0]}
    return {"input_ids": ids, "attention_mask": mask}


def _processed(
    post_processor: PostProcessor,
    lists: list[list[int]],
    seconds: list[list[int]] | None,
    add_special_tokens: bool,
    max_length: int | None,
    side: str,
) -> list[list[int]]:
    """Return the ids that the post-processor makes of each text or pair of texts."""
    if seconds is not None and len(seconds) != len(lists):
        raise InputError(
            f"must have as many texts as text, {len(lists):,}, got {len(seconds):,}",
            argument="text_pair",
        )
    no_seconds: list[list[int] | None] = [None] * len(lists)
    pairs = zip(lists, no_seconds if seconds is None else seconds, strict=True)
    if max_length is None:
        return [post_processor.ids(first, second, add_special_tokens) for first, second in pairs]
    return [
        post_processor.truncated_ids(first, second, add_special_tokens, max_length, side)
        for first, second in pairs
    ]


def _lengths(
    padding: bool | str, truncation: bool, max_length: int | None, settings: LengthSettings
) -> tuple[int | None, int | None]:
    """Return the number of ids to truncate to, and the number to pad to, or None for neither."""
    if padding not in (False, True, "longest", "max_length"):
        raise InputError(
            f"must be True, False, 'longest' or 'max_length', got {short_repr(padding)}",
            argument="padding",
        )
    checked_bool("truncation", truncation)
    pads_to_length = padding == "max_length"
    limit = width = max_length
    if max_length is None:
        limit, width = settings.max_length, settings.padded_length
        width = limit if width is None else width
    if (
        (truncation and limit is None)
        or (pads_to_length and width is None)
        or (max_length is not None and not truncation and not pads_to_length)
    ):
        raise InputError(
            (
                "must be set with ",
                Argument("truncation", True),
                " or ",
                Argument("padding", "max_length"),
                f", and only then, got {short_repr(max_length)}",
            ),
            argument="max_length",
        )
    limit = checked_integer("max_length", limit, 1) if truncation else None
    width = checked_integer("max_length", width, 1) if pads_to_length else None
    return limit, width


def _padded_lists(
    lists: list[list[int]],
    padding: bool | str,
    limit: int | None,
    width: int | None,
    pad_id: int,
    settings: LengthSettings,
) -> tuple[list[list[int]], list[list[int]]]:
    """Truncate and pad lists of ids, and return them with their masks."""
    if limit is not None:
        lists = truncate(lists, limit, side=settings.truncation_side)
    if not padding:
        return lists, [[1] * len(ids) for ids in lists]
    number = len(lists)
    if width is not None:
        for index, ids in enumerate(lists):
            if len(ids) > width:
                raise InputError(
                    f"must be at least {len(ids):,}, the number of ids, got {width:,}",
                    argument="max_length",
                    place=f"text {index:,}",
                    remedy=("pass ", Argument("truncation", True)),
                )
        lists = [*lists, [pad_id]]  # prevents a width of 0 if all lists are empty
    multiple_of = settings.multiple_of if width is None else width
    padded = pad(lists, pad_id=pad_id, multiple_of=multiple_of, side=settings.padding_side)
    return padded.ids[:number].tolist(), padded.mask[:number].astype(np.int8).tolist()


def _truncated_batch(batch: EncodedBatch, max_length: int | None) -> EncodedBatch:
    """Keep the start of each sequence in a batch."""
    lengths = np.diff(batch.offsets)
    if max_length is None or lengths.max(initial=0) <= max_length:
        return batch
    kept = np.minimum(lengths, max_length)
    return EncodedBatch(items_at(batch.ids, batch.offsets[:-1], kept), offsets_of(kept))


def _check_side(side: str) -> None:
    check_choice("side", side, ("right", "left"))


def _sliceable(sequence: Any, index: int) -> Any:
    """Return a sequence of ids as an object that supports `len` and slicing."""
    if isinstance(sequence, (list, tuple)) or (is_plain_array(sequence) and sequence.ndim == 1):
        return sequence
    try:
        return list(plain_ids(sequence))
    except InputError as error:
        raise error.at(f"sequence {index:,}") from None


def _joined(rows: list[Any]) -> EncodedBatch:
    """Return lists and arrays of ids as one batch."""
    arrays = [np.zeros(0, np.int64)]
    for index, row in enumerate(rows):
        try:
            # Lists of ints and arrays are converted at once, and ids of other types one by one.
            if is_plain_array(row) and row.dtype.kind in "iu" and row.dtype != np.uint64:
                array = row
            elif not is_plain_array(row) and set(map(type, row)) <= {int}:
                array = np.array(row, np.int64)
            else:
                array = np.array(list(plain_ids(row)), np.int64)
        except InputError as error:
            raise error.at(f"sequence {index:,}") from None
        except OverflowError:
            raise InputError(
                f"sequence {index:,}: an id in {short_repr(row)} does not fit int64"
            ) from None
        arrays.append(array)
    lengths = np.array([len(array) for array in arrays[1:]], np.int64)
    return EncodedBatch(np.concatenate(arrays), offsets_of(lengths))
