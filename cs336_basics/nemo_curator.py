"""A NeMo Curator stage that encodes documents into Megatron's indexed datasets.

This module needs nemo-curator; the rest of the package does not import it.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from cs336_basics._support.lazy import needed_for
from cs336_basics._support.text import END_OF_TEXT
from cs336_basics.tokenizer import Tokenizer

with needed_for("cs336_basics.nemo_curator", "nemo-curator"):
    from nemo_curator.stages.text.io.writer import megatron_tokenizer

__all__ = ["MegatronTokenizerWriter"]


@dataclass
class MegatronTokenizerWriter(megatron_tokenizer.MegatronTokenizerWriter):  # type: ignore[misc]
    """Encode documents into the same files as NeMo Curator's `MegatronTokenizerWriter`.

    Unlike NeMo Curator's stage, this stage does not encode with transformers. It is therefore
    faster, and it also runs where transformers 5 is installed.

    Args:
        path: Path or URL of the folder for the .bin and .idx files, one pair for each task.
        model_identifier: Tokenizer directory, tokenizer.json or name on Hugging Face's hub, as for
            `Tokenizer.from_pretrained`. Each worker must be able to read it.
        append_eod: Whether to append `eos_token` to every document.
        eos_token: Special token at the end of a document.
        options: Further options of NeMo Curator's stage, such as `text_field`. `cache_dir`,
            `hf_token` and `transformers_init_kwargs` are not supported. The environment variables
            HF_HOME and HF_TOKEN configure downloads.

    Raises:
        ValueError: If an option is not supported, or `model_identifier` is missing.
    """

    eos_token: str = END_OF_TEXT

    def __post_init__(self) -> None:
        for name in ("cache_dir", "hf_token", "transformers_init_kwargs"):
            if getattr(self, name):
                raise ValueError(
                    f"{name} is not supported; omit it (the environment variables HF_HOME and "
                    "HF_TOKEN configure downloads)"
                )
        super().__post_init__()

    def setup_on_node(self, _node_info: Any = None, _worker_metadata: Any = None) -> None:
        """Download the tokenizer if it is on the hub."""
        Tokenizer.from_pretrained(self.model_identifier)

    def setup(self, _worker_metadata: Any = None) -> None:
        """Read the tokenizer.

        Raises:
            ValueError: If `append_eod` is true and `eos_token` is not a special token.
            FileNotFoundError, OSError, ImportError, ValueError: See `Tokenizer.from_pretrained`.
        """
        tokenizer = Tokenizer.from_pretrained(self.model_identifier)
        known = self.append_eod or self.eos_token in tokenizer.special_tokens
        self.tokenizer = _Batches(
            tokenizer, tokenizer.special_token_id(self.eos_token) if known else None
        )

    def write_data(
        self,
        bin_file: IO[bytes],
        token_dtype: npt.DTypeLike,
        eod_token_id: int,
        tokens_batch: tuple[npt.NDArray[Any], npt.NDArray[np.int64]],
        sequence_lengths: list[int],
    ) -> None:
        """Write the ids of a batch, and append each document's length to `sequence_lengths`."""
        ids, offsets = tokens_batch
        if self.append_eod:
            ids = np.insert(ids, offsets[1:], eod_token_id)
        bin_file.write(ids.astype(token_dtype, copy=False).tobytes())
        sequence_lengths.extend((np.diff(offsets) + self.append_eod).tolist())


class _Batches:
    """The part of a transformers tokenizer that the stage uses, with arrays instead of lists."""

    def __init__(self, tokenizer: Tokenizer, eos_token_id: int | None) -> None:
        self._tokenizer = tokenizer
        self.vocab_size = tokenizer.vocab_size
        self.eos_token_id = eos_token_id

    def batch_encode_plus(self, texts: tuple[str, ...], **_: Any) -> SimpleNamespace:
        # One thread, because executors run several workers at a time.
        return SimpleNamespace(input_ids=self._tokenizer.encode_batch_array(texts, num_workers=1))
