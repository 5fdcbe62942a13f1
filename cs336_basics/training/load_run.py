"""Loading a run's model and tokenizer."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import torch

from cs336_basics._support.errors import InputError, MissingFileError
from cs336_basics.checkpoints.checkpoint import read_checkpoint
from cs336_basics.checkpoints.run_dir import RunDirectory
from cs336_basics.generation import Sampling, generate_text
from cs336_basics.generation.precision import Precision
from cs336_basics.model import ModelConfig, TransformerLM
from cs336_basics.model.config import context_fits
from cs336_basics.model.inspection import check_has_ids, check_is_finite
from cs336_basics.model.shapes import weights
from cs336_basics.tokenizer import Tokenizer
from cs336_basics.tokenizer.definition import TOKENIZER_FILE
from cs336_basics.training.busy_cores import warn_if_threads_spin
from cs336_basics.training.config_files import load_config
from cs336_basics.training.devices import choose_device
from cs336_basics.training.owner_of_run import owner_of_run

DEFAULT_SAMPLING = Sampling(temperature=0.8, top_p=0.95)
"""Default sampling settings of `LoadedRun` and the `generate` command."""


class LoadedRun(NamedTuple):
    """A run's model and tokenizer, with methods that generate text."""

    model: TransformerLM
    tokenizer: Tokenizer

    def generate(
        self,
        prompt: str = "",
        max_new_tokens: int = 256,
        sampling: Sampling | None = None,
        *,
        stop: Sequence[str] = (),
        generator: torch.Generator | None = None,
        use_cache: bool = True,
        precision: Precision = "auto",
    ) -> str:
        """Return text that continues a prompt, without the prompt; see `stream`."""
        return "".join(
            self.stream(
                prompt,
                max_new_tokens,
                sampling,
                stop=stop,
                generator=generator,
                use_cache=use_cache,
                precision=precision,
            )
        )

    def stream(
        self,
        prompt: str = "",
        max_new_tokens: int = 256,
        sampling: Sampling | None = None,
        *,
        stop: Sequence[str] = (),
        generator: torch.Generator | None = None,
        use_cache: bool = True,
        precision: Precision = "auto",
    ) -> Iterator[str]:
        """Yield the continuation of a prompt as it is generated, in complete characters.

        Args:
            prompt: Start of the text. An empty prompt starts a new document.
            sampling: How to draw each token. Defaults to DEFAULT_SAMPLING.
            max_new_tokens, stop, generator, use_cache, precision: See `generate_text`. For the
                text of exactly these weights, pass `precision="float32"`.

        Raises:
            TypeError, ValueError: See `generate_text`.
        """
        return generate_text(
            self.model,
            self.tokenizer,
            prompt,
            max_new_tokens,
            DEFAULT_SAMPLING if sampling is None else sampling,
            stop=stop,
            generator=generator,
            use_cache=use_cache,
            precision=precision,
        )


def load_run(
    path: str | os.PathLike[str],
    *,
    checkpoint: str | os.PathLike[str] | int = "last",
    device: str = "cpu",
) -> LoadedRun:
    """Load a run's model and tokenizer.

    A UserWarning is issued if other programs use the cores and torch's threads wait for them
    actively (see docs/generate-text.md).

    Args:
        path: The run directory, which may start with `~`.
        checkpoint: Checkpoint of this run with the weights: "last", "best", a step or a path; see
            `RunDirectory.find_checkpoint`.
        device: Device for the model: cpu, cuda, cuda:N, mps or auto.

    Raises:
        FileNotFoundError: If `path` is not a run directory, or has no checkpoint or no tokenizer.
        ValueError: If the run has no such checkpoint, the checkpoint is damaged, belongs to another
            run, does not fit the run's model or has weights that are not finite, the tokenizer has
            more ids than the model, or this machine does not have the device.

    Example:
        >>> from cs336_basics import load_run
        >>> run = load_run("runs/stories")
        >>> text = run.generate("Once upon a time", max_new_tokens=20)
    """
    run = RunDirectory(path)
    run.check_exists()
    source = run.find_checkpoint(checkpoint)
    restore = "restore the run's own tokenizer"
    if not (file := run.tokenizer / TOKENIZER_FILE).exists():
        raise MissingFileError(f"{file} does not exist", remedy=restore)
    tokenizer = Tokenizer.from_directory(run.tokenizer)
    whole_config = load_config(run.config)
    config = whole_config.model
    check_has_ids(config, tokenizer.vocab_size, restore, str(run.tokenizer))
    check_model_size(config, run, [source])
    model = TransformerLM(config)
    read_checkpoint(source, model, None, owner_of_run(run, whole_config, tokenizer))
    check_is_finite(model, os.fspath(source))
    model = model.to(choose_device(device))
    if device == "cpu":
        warn_if_threads_spin()
    return LoadedRun(model, tokenizer)


_BYTES_TO_DESCRIBE_A_TENSOR = 64  # at least: `"model.layers.0.ffn.w1.weight":{"dtype":...,...},`


def check_model_size(config: ModelConfig, run: RunDirectory, checkpoints: Sequence[Path]) -> None:
    """Check that a checkpoint is large enough for a model, before the model is allocated.

    Args:
        config: Configuration of the model.
        run: The run, for the error message.
        checkpoints: Files of the checkpoints.

    Raises:
        FileNotFoundError: If a checkpoint does not exist.
        ValueError: If the model or its table of RoPE angles is too large for every checkpoint.
    """
    num_bytes = max((path.stat().st_size for path in checkpoints), default=0)
    # A weight takes at least a byte, and the header describes each tensor.
    num_tensors = sum(weight.copies for weight in weights(config))
    least = max(config.num_parameters(), num_tensors * _BYTES_TO_DESCRIBE_A_TENSOR)
    if least > num_bytes or not context_fits(config, num_bytes):
        raise InputError(
            f"{num_bytes:,} bytes are too few for the model in {run.config}, "
            f"which has {config.num_parameters():,} weights and a context of "
            f"{config.context_length:,} tokens",
            place=str(checkpoints[-1]),
        )
