"""The model that a run starts from: `train --init-from RUN | CHECKPOINT | DIRECTORY`.

    config, origin = start_from(config)             # the model's shape, tokenizer and weights
    ...
    weights = origin.weights_for(config.model, tokenizer)

Only the weights and the tokenizer are taken over. The run has its own optimizer, schedule and data,
and starts at step 0.
"""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor

from cs336_basics._support.errors import Argument, InputError, MissingFileError
from cs336_basics._support.files import sha256_file
from cs336_basics._support.messages import short_reason, short_repr
from cs336_basics._support.paths import check_is_regular, printable_path
from cs336_basics._support.text import END_OF_TEXT
from cs336_basics.checkpoints.run_dir import RunDirectory, step_of
from cs336_basics.data.prepare import with_special_tokens
from cs336_basics.model import ModelConfig, TransformerLM
from cs336_basics.model.inspection import check_has_ids, check_is_finite
from cs336_basics.model.resizing import transfer_embeddings
from cs336_basics.model.shapes import named_shapes
from cs336_basics.tokenizer import Tokenizer, token_origins
from cs336_basics.training.config import OriginConfig, TrainConfig
from cs336_basics.training.config_files import load_config
from cs336_basics.training.load_run import load_run


@dataclass(eq=False)
class Origin:
    """A trained model with its tokenizer. Its weights are read when they are needed."""

    path: Path
    """Checkpoint, or directory in Hugging Face's format."""
    config: ModelConfig
    tokenizer_path: Path
    tokenizer: Tokenizer
    files: tuple[Path, ...]
    """Files of the weights."""
    load: Callable[[], TransformerLM]
    """Function that loads the model, and refuses weights that are not finite."""
    name_in_files: Callable[[str], str]
    """Function that translates the name of a weight to the name of its tensor in the files."""
    step: int | None = None
    """Number of optimizer steps, if known."""
    loss: float | None = None
    """Validation loss after these steps, if known."""
    end_of_text_id: int | None = None
    """Id of the token that ends a text, if it is not END_OF_TEXT."""
    _kept: TransformerLM | None = field(default=None, init=False)

    @functools.cached_property
    def weights_hash(self) -> str:
        """The SHA-256 of each file of the weights."""
        return ", ".join(map(sha256_file, self.files))

    def check(self, recorded: OriginConfig) -> None:
        """Check that the model is the one that a configuration names.

        Raises:
            ValueError: If the weights or the tokenizer have another hash.
        """
        for key in ("weights", "tokenizer"):
            expected = getattr(recorded, key)
            if expected is None:  # hashing weights takes long
                continue
            found = self.weights_hash if key == "weights" else self.tokenizer.hash()
            if found != expected:
                raise InputError(
                    (
                        f"must have {key} with the hash in ",
                        Argument(f"origin.{key}"),
                        f" ({expected}), got {found} in {printable_path(self.path)}",
                    ),
                    argument="init_from",
                )

    def check_shapes(self) -> None:
        """Check that the files have the shapes of the model. Only their headers are read.

        Raises:
            ValueError: If a file is damaged, or a tensor is missing or has another shape.
        """
        found = dict(_shapes_in(self.files))
        for name, shape in named_shapes(self.config):
            tensor = self.name_in_files(name)
            if found.get(tensor) != shape:
                raise InputError(
                    f"tensor {tensor!r} must have shape {shape}, got {found.get(tensor, 'none')}",
                    place=printable_path(self.path),
                )

    def load_early(self) -> None:
        """Load the model now, and keep it for `weights_for`.

        Raises:
            ValueError, OSError: If the weights cannot be read or are not finite.
        """
        self._kept = self.load()

    def weights_for(
        self, config: ModelConfig, tokenizer: Tokenizer, report: Callable[[str], None] = print
    ) -> dict[str, Tensor]:
        """Return a state dict for a model with this configuration and tokenizer.

        The model is loaded unless `load_early` has done so, and is not kept.

        If the tokenizer is another one, the vectors of the embedding and the head follow their
        tokens. A token that is new starts as the mean of the tokens that spell it.

        Args:
            config: Configuration from `start_from`.
            tokenizer: Tokenizer of the run.
            report: Callback invoked with a line for each thing that was done.

        Raises:
            ValueError, OSError: If the weights cannot be read or are not finite.
        """
        model = self.load() if self._kept is None else self._kept
        self._kept = None  # training needs the memory
        report(f"starting from {printable_path(self.path)}{self._facts()}")
        if tokenizer.hash() != self.tokenizer.hash():
            rows = token_origins(self.tokenizer, tokenizer)
            if END_OF_TEXT not in self.tokenizer.special_tokens and self.end_of_text_id is not None:
                rows[tokenizer.special_token_id(END_OF_TEXT)] = [self.end_of_text_id]
            transfer_embeddings(model, rows)
            kept = {row[0] for row in rows if len(row) == 1}
            made, unknown = sum(len(row) > 1 for row in rows), rows.count([])
            report(
                f"vocabulary: {len(kept):,} of {len(self.tokenizer):,} tokens keep their vectors; "
                f"{made:,} new ones start as the mean of their parts, and {unknown:,} as the mean "
                "of all"
            )
            if model.config.bigram_rows:
                report("the table of bigrams starts at 0, because its rows depend on the ids")
        if model.config.vocab_size != config.vocab_size:
            raise InputError(
                f"must have {config.vocab_size:,} ids, got {model.config.vocab_size:,}",
                argument="init_from",
            )
        return model.state_dict()

    def _facts(self) -> str:
        facts = [] if self.step is None else [f"step {self.step:,}"]
        facts += [] if self.loss is None else [f"validation loss {self.loss:.4f}"]
        return f" ({', '.join(facts)})" if facts else ""


def _shapes_in(files: Sequence[Path]) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield the name and the shape of each tensor in safetensors files."""
    from safetensors import SafetensorError, safe_open

    for path in files:
        check_is_regular(path, path.stat().st_mode)
        try:
            with safe_open(path, "pt") as file:
                for name in file.keys():  # noqa: SIM118 -- not a dict
                    yield name, tuple(file.get_slice(name).get_shape())
        except SafetensorError as error:
            raise InputError(
                f"not a safetensors file: {short_reason(error)}", place=printable_path(path)
            ) from error


def find_origin(path: str | os.PathLike[str]) -> Origin:
    """Return the trained model in a run, a checkpoint of a run or a Hugging Face directory.

    The weights are not read yet.

    Args:
        path: Directory of a run, whose newest checkpoint is used; a checkpoint of a run; or a
            directory with `config.json`, safetensors files and `tokenizer.json`.

    Raises:
        FileNotFoundError: If the path does not exist, or a file in it is missing.
        ValueError: If the path is something else, or the model cannot be represented.
    """
    path = Path(os.path.abspath(os.path.expanduser(path)))
    if not path.exists():
        raise MissingFileError(
            f"{printable_path(path)} does not exist",
            remedy="pass a run, a checkpoint of a run, or a directory with a model in Hugging "
            "Face's format",
        )
    run = RunDirectory(path if path.is_dir() else path.parent.parent)
    if run.config.is_file() and (path.is_dir() or step_of(path) is not None):
        return _of_run(run, None if path.is_dir() else path)
    if (path / "config.json").is_file():
        return _of_huggingface(path)
    raise InputError(
        "must be a run, a checkpoint in the directory checkpoints of a run, or a directory with a "
        f"model in Hugging Face's format, got {short_repr(str(path))}",
        argument="init_from",
    )


def _of_run(run: RunDirectory, checkpoint: Path | None) -> Origin:
    checkpoint = checkpoint or run.newest_checkpoint()
    if checkpoint is None:
        raise MissingFileError("no checkpoint yet", place=str(run.checkpoints))
    step = step_of(checkpoint)
    rows = [row for row in run.read_metrics() if row["step"] == step]
    losses = [row["val_loss"] for row in rows if "val_loss" in row]
    return Origin(
        checkpoint,
        load_config(run.config).model,
        run.tokenizer,
        Tokenizer.from_directory(run.tokenizer),
        (checkpoint,),
        load=lambda: load_run(run.path, checkpoint=checkpoint).model,
        name_in_files="model.{}".format,
        step=step,
        loss=losses[-1] if losses else None,
    )


def _of_huggingface(directory: Path) -> Origin:
    # Imported here, because only this function of training needs the formats.
    from cs336_basics.formats.huggingface.huggingface_models import find_model, load_model
    from cs336_basics.formats.huggingface.llama import llama_name

    def load() -> TransformerLM:
        model = load_model(directory)
        check_is_finite(model, printable_path(directory))
        return model

    found = find_model(directory)
    tokenizer = Tokenizer.from_pretrained(directory)
    check_has_ids(
        found.config, tokenizer.vocab_size, "restore the model's own tokenizer", str(directory)
    )
    return Origin(
        directory,
        found.config,
        directory,
        tokenizer,
        found.files,
        load=load,
        name_in_files=llama_name,
        end_of_text_id=found.end_of_text_id,
    )


def run_tokenizer(config: TrainConfig) -> Tokenizer:
    """Return the tokenizer of a run that starts from a model: its own, or another one.

    A run separates documents with END_OF_TEXT, and instruction data has two more special tokens. A
    tokenizer without them gets them as its last tokens.
    """
    assert config.data.tokenizer is not None
    return with_special_tokens(Tokenizer.from_pretrained(config.data.tokenizer), config.data)


def start_from(
    config: TrainConfig, given: Collection[str] = ()
) -> tuple[TrainConfig, Origin | None]:
    """Return a configuration with the model and the tokenizer of `config.init_from`, and the model.

    The weights are loaded before the text is encoded, which may take hours, so weights that cannot
    be used are refused at once. The model is kept in memory until `Origin.weights_for` is called:
    it is loaded once, and its file may change or be removed while the text is encoded.

    Args:
        config: Configuration of a new run. It is returned unchanged if `init_from` is not set.
        given: Fields that the user has set. They must agree with the model.

    Raises:
        ValueError, OSError: See `shape_from`. Also if the weights cannot be read or are not finite.
    """
    if config.init_from is None:
        return config, None
    origin = find_origin(config.init_from)
    config = _shaped(config, origin, given)
    origin.load_early()
    record = dataclasses.replace(config.origin, weights=origin.weights_hash)
    return dataclasses.replace(config, origin=record), origin


def shape_from(config: TrainConfig, given: Collection[str] = ()) -> TrainConfig:
    """Return a configuration with the shape and the tokenizer of the model `config.init_from`.

    The weights are not read, except to compare their hash with `config.origin.weights`, if it is
    set.

    Args:
        config: Configuration of a new run. It is returned unchanged if `init_from` is not set.
        given: Fields that the user has set. They must agree with the model.

    Raises:
        ValueError, OSError: See `find_origin`. Also if a field in `given` contradicts the model, a
            hash in `config.origin` is another one, or the files have other shapes.
    """
    if config.init_from is None:
        return config
    origin = find_origin(config.init_from)
    config = _shaped(config, origin, given)
    origin.check_shapes()
    return config


def _shaped(config: TrainConfig, origin: Origin, given: Collection[str]) -> TrainConfig:
    """Return a configuration with the shape and the tokenizer of a model.

    The context length and the implementation of attention may be chosen. The hash of the tokenizer,
    the step and the loss of the model are recorded in `origin`.
    """
    origin.check(config.origin)
    data = config.data
    if data.tokenizer is None:
        try:
            data = dataclasses.replace(data, tokenizer=str(origin.tokenizer_path))
        except InputError as error:
            raise error.renamed(lambda name: f"data.{name}") from None
    config = dataclasses.replace(config, data=data)
    tokenizer = run_tokenizer(config)
    values: dict[str, Any] = {"attention": config.model.attention}
    if "model.context_length" in given:
        values["context_length"] = config.model.context_length
    if tokenizer.hash() != origin.tokenizer.hash():  # otherwise, the model may have unused ids
        values["vocab_size"] = tokenizer.vocab_size
    model = dataclasses.replace(origin.config, **values)
    for name in given:
        section, _, key = name.partition(".")
        if section == "model" and getattr(config.model, key) != getattr(model, key):
            raise InputError(
                f"must be {getattr(model, key)}, as in the model to start from, got "
                f"{getattr(config.model, key)}",
                argument=name,
                remedy="remove it",
            )
    record = dataclasses.replace(
        config.origin, tokenizer=origin.tokenizer.hash(), step=origin.step, loss=origin.loss
    )
    return dataclasses.replace(config, model=model, origin=record)
