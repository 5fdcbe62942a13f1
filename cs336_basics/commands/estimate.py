"""`python -m cs336_basics estimate`: estimate a training run, or the preparation of a corpus."""

from __future__ import annotations

import dataclasses
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cs336_basics._support.errors import Argument, InputError, RunError
from cs336_basics._support.validation import Count, option
from cs336_basics.commands._cli import say
from cs336_basics.commands._training_options import CommandLine, RunOptions, TrainingCommand
from cs336_basics.training.config import TrainConfig

if TYPE_CHECKING:
    import torch

    from cs336_basics.data.data_config import DataConfig

VOCAB_SIZE = 32_000
"""Vocabulary size for preparing a corpus, unless --model.vocab-size is given."""

SAMPLE_SIZE = 16_000_000
"""Size in bytes of the sample corpus that is measured if no text is given."""

# torch is imported inside functions, so that help pages do not load it.


@dataclass(kw_only=True)
class Options(RunOptions):
    """Estimate the memory and time of a training run, with the same options as train.

    First compute memory and FLOPs, then measure four steps in another process. With --corpus-bytes,
    estimate the preparation of a corpus instead: counting, merging and encoding.
    """

    no_measure: bool = option("only compute the estimate, without measuring steps", False)
    corpus_bytes: float | None = option(
        "estimate the preparation of a corpus of this size instead of a run", None, gt=0
    )
    corpus_sample: Path | None = option(
        "with --corpus-bytes: plain text from the corpus, whose first 64 MB are measured "
        "(default: the sample corpus, with as many distinct words as web text)",
        None, metavar="FILE", rare=True,
    )  # fmt: skip
    nodes: Count = option("with --corpus-bytes: number of machines", 1, rare=True)
    cores: Count | None = option(
        "with --corpus-bytes: cores of each machine (default: as many as on this machine)",
        None, rare=True,
    )  # fmt: skip
    network: float | None = option(
        "with --corpus-bytes: Gbit/s between each machine and the storage (default: no limit)",
        None, gt=0, rare=True,
    )  # fmt: skip

    def __post_init__(self) -> None:
        """Check that the options for a corpus are given only with --corpus-bytes."""
        super().__post_init__()
        for name, default in (("corpus_sample", None), ("nodes", 1), ("cores", None),
                              ("network", None)):  # fmt: skip
            if self.corpus_bytes is None and getattr(self, name) != default:
                raise InputError(("requires ", Argument("corpus_bytes")), argument=name)


def estimate(command: CommandLine) -> None:
    """Print the computed and the measured figures."""
    if command.options.corpus_bytes is not None:
        given = "model.vocab_size" in command.given
        vocab_size = command.config.model.vocab_size if given else VOCAB_SIZE
        _estimate_corpus(command.options, vocab_size, command.config.data)
        return
    from cs336_basics.training.devices import choose_device
    from cs336_basics.training.origin import shape_from

    command.config = _checked(shape_from(command.config, command.set_by_user()))
    command.choose_fast_path()
    if command.options.fast == "auto":
        say("")
    config = command.config
    device = choose_device(config.device)
    for name, value in computed(config):
        say(f"{name:<24}{value}")
    if not command.options.no_measure:
        try:
            rows = measured(config, device)
        except RunError as error:
            raise RunError(
                error.problem,
                remedy="reduce --batch-size or raise --accumulation to save memory, or pass "
                "--no-measure to skip the measurement",
            ) from error
        for name, value in rows:
            say(f"{name:<24}{value}")


def _estimate_corpus(options: Options, vocab_size: int, data: DataConfig) -> None:
    """Measure a piece of a corpus, and print estimates for preparing the whole corpus."""
    from cs336_basics.data.corpus_estimate import Cluster, estimate_rows, measure_rates
    from cs336_basics.data.datasets.sample import write_sample
    from cs336_basics.execution.workers import resolve_num_workers

    assert options.corpus_bytes is not None
    cluster = Cluster(options.nodes, options.cores or resolve_num_workers(None), options.network)
    with tempfile.TemporaryDirectory() as folder:
        text = options.corpus_sample or write_sample(Path(folder, "sample.txt"), SAMPLE_SIZE)
        rates = measure_rates(text, vocab_size, data.pattern, data.normalizer)
    piece = str(options.corpus_sample)
    if options.corpus_sample is None:
        piece = "the sample corpus; web text takes twice as long, so pass --corpus-sample"
        rates = rates.with_words_of_the_web()
    rows = [
        ("measured on one core", f"{rates.num_bytes / 1e6:,.1f} MB of {piece}"),
        ("counting", f"{rates.counting / 1e6:,.0f} MB/s"),
        ("encoding", f"{rates.encoding / 1e6:,.0f} MB/s, {rates.bytes_per_token:.2f} bytes/token"),
        ("distinct words", f"{rates.num_words:,}, growing as bytes^{rates.growth:.2f}"),
        ("", ""),
        (
            "estimated",
            f"{_size(options.corpus_bytes)} on {cluster.nodes:,} x {cluster.cores:,} cores, "
            f"{vocab_size:,} tokens",
        ),
    ]
    for name, number, unit, limit in estimate_rows(rates, options.corpus_bytes, cluster):
        shown = f"{number:,.0f}" if not unit else (_duration if unit == "s" else _size)(number)
        note = f"; limit: {limit}" if unit == "s" else f" {limit}"
        rows.append((name, f"about {shown}{note}".rstrip()))
    for name, value in rows:
        say(f"{name:<24}{value}".rstrip())


def _checked(config: TrainConfig) -> TrainConfig:
    """Run the checks of `train`, and return the configuration that it would use.

    The dataset may be missing, because users estimate a run before they download its data.
    """
    from cs336_basics.tokenizer import Tokenizer
    from cs336_basics.training.start import check_start

    data = config.data
    if data.train_path is None and not data.mix:
        data = dataclasses.replace(data, dataset="sample")
    check_start(dataclasses.replace(config, data=data))
    if data.tokenizer is None:
        return config
    return config.with_vocab_size(Tokenizer.from_directory(data.tokenizer).vocab_size)


def computed(config: TrainConfig) -> list[tuple[str, str]]:
    """Return the figures computed from the configuration, as rows of name and value."""
    from cs336_basics.training.devices import flops_per_token, training_flops
    from cs336_basics.training.memory import step_memory

    tokens = config.max_steps * config.batch_size * config.model.context_length
    memory = step_memory(config)
    note = " without compilation" if config.compile else ""
    return [
        ("parameters", f"{config.model.num_parameters():,}"),
        ("tokens", f"{tokens:,}"),
        ("FLOPs per token", f"{flops_per_token(config.model):,}"),
        ("FLOPs of the run", f"{training_flops(config):.3g}"),
        ("weights", _megabytes(memory.weights)),
        ("gradients", _megabytes(memory.gradients)),
        ("optimizer", _megabytes(memory.optimizer)),
        ("activations", _megabytes(memory.activations) + note),
        ("tensors at the peak", _megabytes(memory.total) + note),
    ]


def measured(config: TrainConfig, device: torch.device) -> list[tuple[str, str]]:
    """Return the figures measured over a few steps, as rows of name and value.

    Raises:
        RunError: If the steps fail, for example because memory runs out.
    """
    from cs336_basics.training.devices import device_name
    from cs336_basics.training.measure import measure_steps

    found = measure_steps(config)
    tokens = config.max_steps * config.batch_size * config.model.context_length
    seconds = tokens / found.tokens_per_second
    return [
        ("device", device_name(device)),
        ("peak memory", f"{_megabytes(found.peak)} (measured)"),
        ("tokens per second", f"{found.tokens_per_second:,.0f} (measured)"),
        ("time", f"about {_duration(seconds)}, plus evaluation"),
    ]


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.{0 if size >= 1e7 else 2}f} MB"


def _size(num_bytes: float) -> str:
    for power, unit in ((12, "TB"), (9, "GB")):
        if num_bytes >= 10**power:
            return f"{num_bytes / 10**power:,.1f} {unit}"
    return f"{num_bytes / 1e6:,.1f} MB"


def _duration(seconds: float) -> str:
    minutes, hours = seconds / 60, seconds / 3600
    if hours >= 48:
        return f"{hours / 24:,.1f} days"
    if hours >= 2:
        return f"{hours:,.1f} hours"
    return f"{minutes:,.1f} minutes" if minutes >= 2 else f"{seconds:,.1f} seconds"


COMMAND = TrainingCommand(
    "estimate",
    Options,
    estimate,
    "estimate --config tinystories --fast auto",
    "estimate --config my.yaml --batch-size 128 --device cuda",
    "estimate --config huge.yaml --no-measure",
    "estimate --corpus-bytes 10e12 --corpus-sample web.txt --nodes 20 --cores 64 --network 100",
    uses_torch=True,
)
