"""The model and tokenizer of a run, for generating text, or for use elsewhere."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import torch

from cs336_basics.checkpoints.checkpoint import read_checkpoint
from cs336_basics.checkpoints.run_dir import RunDirectory
from cs336_basics.generation import Sampling, generate_text
from cs336_basics.model import ModelConfig, TransformerLM
from cs336_basics.tokenizer import Tokenizer
from cs336_basics.training.config_files import load_config
from cs336_basics.training.devices import choose_device

_MOST_ANGLES = 1 << 24
"""Entries of the table of RoPE's angles that are accepted with a checkpoint of any size."""

DEFAULT_SAMPLING = Sampling(temperature=0.8, top_p=0.95)
"""How text is drawn unless the caller says otherwise, here and in the command `generate`."""


class LoadedRun(NamedTuple):
    """The model and the tokenizer of a run, which generate text together."""

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
    ) -> str:
        """Return the text that continues a prompt, without the prompt; see `stream`."""
        return "".join(
            self.stream(
                prompt,
                max_new_tokens,
                sampling,
                stop=stop,
                generator=generator,
                use_cache=use_cache,
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
    ) -> Iterator[str]:
        """Yield the text that continues a prompt, in strings of whole characters, as it comes.

        Args:
            prompt: how the text begins; an empty one begins a new document.
            sampling: how each token is drawn; None: DEFAULT_SAMPLING.
            max_new_tokens, stop, generator, use_cache: see `generate_text`.

        Raises:
            TypeError, ValueError: see `generate_text`.
        """
        return generate_text(
            self.model,
            self.tokenizer,
            prompt,
            max_new_tokens,
            sampling or DEFAULT_SAMPLING,
            stop=stop,
            generator=generator,
            use_cache=use_cache,
        )


def load_run(
    path: str | os.PathLike[str],
    *,
    checkpoint: str | os.PathLike[str] | None = None,
    device: str = "cpu",
) -> LoadedRun:
    """Load the model and the tokenizer of a run.

    Args:
        path: the run directory.
        checkpoint: the checkpoint with the weights; None: the newest of the run.
        device: where the model goes: cpu, cuda, cuda:N, mps or auto.

    Raises:
        FileNotFoundError: it is not a run directory, or there is no checkpoint.
        ValueError: the checkpoint is damaged, or its weights do not fit the run's model; or this
            machine has no such device.
    """
    run = RunDirectory(path)
    if not run.config.is_file():
        raise FileNotFoundError(f"{run.path} is not a run directory (no {run.config.name})")
    source = checkpoint or run.newest_checkpoint()
    if source is None:
        raise FileNotFoundError(f"{run.checkpoints} has no checkpoint yet")
    tokenizer = Tokenizer.from_directory(run.tokenizer)
    config = load_config(run.config).model
    check_model_size(config, run, [Path(source)])
    model = TransformerLM(config)
    read_checkpoint(source, model, None)
    return LoadedRun(model.to(choose_device(device)), tokenizer)


def check_model_size(config: ModelConfig, run: RunDirectory, checkpoints: Sequence[Path]) -> None:
    """Check that one of the checkpoints can hold a model, before memory is taken for the model.

    Args:
        config: the model's.
        run: the run that has it, for the message.
        checkpoints: their files.

    Raises:
        FileNotFoundError: there is no such checkpoint.
        ValueError: the model is larger than each, or its table of RoPE's angles is huge.
    """
    num_bytes = max((path.stat().st_size for path in checkpoints), default=0)
    angles = config.context_length * config.d_head
    # (A weight is at least a byte. No weights depend on the length of the context.)
    if config.num_parameters() > num_bytes or angles > max(num_bytes, _MOST_ANGLES):
        raise ValueError(
            f"{checkpoints[-1]} does not fit the run {run.path}: it has {num_bytes:,} bytes, and "
            f"{run.config.name} describes a model of {config.num_parameters():,} weights with a "
            f"context of {config.context_length:,} tokens"
        )
