"""Encode text on a Ray cluster.

`encode_files_ray` encodes the files of a corpus. `Encode` is a function for Ray Data that encodes
the texts in a dataset's rows. To count words on a cluster, pass `execution="ray"` to `count_words`.
docs/several-processes.md has examples.
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from typing import Any

from cs336_basics._support.errors import Argument, InputError, InputTypeError
from cs336_basics._support.messages import short_repr
from cs336_basics.execution.jobs import unpickled
from cs336_basics.tokenizer.files.ray_encoding import encode_files_ray
from cs336_basics.tokenizer.files.token_folders import download_token_files
from cs336_basics.tokenizer.tokenizer import Tokenizer, check_is_tokenizer

__all__ = ["Encode", "download_token_files", "encode_files_ray"]


class Encode:
    """A function for Ray Data's `map_batches` that adds a column with the ids of each text.

    Each worker process loads the tokenizer once. Example: `dataset.map_batches(Encode(tokenizer))`.

    Args:
        tokenizer: Tokenizer that encodes the texts. Special tokens in a text become their ids.
        column: Name of the column that contains the texts.
        output: Name of the column to add. It contains lists of uint16, or of uint32 if the
            vocabulary has ids of 65,536 or more.
    """

    def __init__(
        self, tokenizer: Tokenizer, column: str = "text", *, output: str = "input_ids"
    ) -> None:
        check_is_tokenizer(tokenizer)
        self._pickled = pickle.dumps(tokenizer)
        self._column = column
        self._output = output

    def __call__(self, batch: Any) -> Any:
        """Return the batch with the ids added.

        Args:
            batch: Dict of columns (`batch_format="numpy"`, the default of `map_batches`) or pyarrow
                table (`batch_format="pyarrow"`).

        Raises:
            TypeError: If the batch has another format, or a text is not a str.
            ValueError: If the batch does not have the column, or a text cannot be encoded.
        """
        import pyarrow as pa

        if isinstance(batch, pa.Table):
            names = batch.column_names
        elif isinstance(batch, Mapping):
            names = list(batch)
        else:
            raise InputTypeError(
                f"must be a dict of columns or a pyarrow table, not {type(batch).__name__}",
                argument="batch",
                remedy=(
                    "pass ",
                    Argument("batch_format", "numpy"),
                    " or ",
                    Argument("batch_format", "pyarrow"),
                    " to map_batches",
                ),
            )
        if self._column not in names:
            raise InputError(
                f"must be one of {short_repr(names)}, got {short_repr(self._column)}",
                argument="column",
            )
        tokenizer = unpickled(self._pickled)
        column = batch[self._column]
        if isinstance(batch, pa.Table):
            ids, offsets = tokenizer.encode_batch_array(column.to_pylist(), num_workers=1)
            lists = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), pa.array(ids))
            return batch.append_column(self._output, lists)
        found = tokenizer.encode_batch_array(column, num_workers=1).arrays()
        # Ray stores Arrow arrays as lists. It would store NumPy arrays as its own tensor type,
        # which other Parquet readers do not support.
        return {**batch, self._output: [pa.array(ids) for ids in found]}
