"""The sections of a report on a run: its card, loss curve, samples and under-trained tokens."""

from __future__ import annotations

import math
import os
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from cs336_basics._support.errors import InputError
from cs336_basics._support.reading import read_start
from cs336_basics.checkpoints.run_dir import RunDirectory, comparable, thinned
from cs336_basics.formats.run_card import card_of_run
from cs336_basics.model.inspection import NonFiniteWeightsError
from cs336_basics.reports.charts import chart
from cs336_basics.reports.measures import is_part_of_utf8
from cs336_basics.reports.page import Chart, Quote, Section, Table, Tokens
from cs336_basics.tokenizer import Tokenizer, count_token_file
from cs336_basics.training.config import TrainConfig
from cs336_basics.training.config_files import load_config
from cs336_basics.training.learning_curves import Rows, read_curves
from cs336_basics.training.load_run import load_run

SUSPECTED_SHARE = 0.02
"""Share of the tokens that are suspected, as in Land and Bartolo (2024)."""

_MOST_LISTED = 40
_MOST_POINTS = 1000
_LONGEST_SAMPLE = 4000  # bytes


def run_sections(
    path: str | os.PathLike[str], checkpoint: str | os.PathLike[str] | int = "last"
) -> list[Section]:
    """Return the sections of a report on a run.

    Args:
        path: Run directory. If it has no checkpoint yet, there is no section on tokens.
        checkpoint: Checkpoint whose tokens are examined: "last", "best", a step or a path.

    Raises:
        FileNotFoundError, ValueError: If `path` is not a run directory, has no metrics yet, or
            contains a damaged file.
    """
    run = RunDirectory(path)
    rows = read_curves(run.path)
    config = load_config(run.config)
    curves = {
        name: thinned(
            [(row["step"], comparable(row, key)) for row in rows if key in row], _MOST_POINTS
        )
        for key, name in (("train_loss", "training loss"), ("val_loss", "validation loss"))
    }
    drawn = chart(curves, title="Loss against step", x="step", y="loss (nats per token)")
    samples = run.sample_files()
    sections = [
        Section(f"Run {run.name}", [Table(("", "value"), _facts(run, config, rows)), Chart(drawn)])
    ]
    if samples:
        shown = dict.fromkeys([samples[0], samples[-1]])
        quotes = (
            part
            for sample in shown
            for part in (
                f"Step {sample.stem.removeprefix('step_').lstrip('0')}:",
                Quote(read_start(sample, _LONGEST_SAMPLE).lstrip("\n")),
            )
        )
        sections.append(Section("Samples", list(quotes)))
    if checkpoint != "last" or run.steps_saved():
        sections.append(_tokens(run, run.find_checkpoint(checkpoint)))
    text = run.config.read_text(encoding="utf-8", errors="replace")
    return [*sections, Section("Configuration", [Quote(text, run.config.name)])]


def _facts(run: RunDirectory, config: TrainConfig, rows: Rows) -> list[tuple[str, str]]:
    """Return the facts about a run as pairs of name and value."""
    card = card_of_run(run.path, config.data)
    last = {key: value for row in rows for key, value in row.items()}
    best = run.best()
    model = config.model
    facts = {
        "weights": f"{model.num_parameters():,}",
        "layers, heads, d_model, d_ff": f"{model.num_layers}, {model.num_heads}, {model.d_model}, "
        f"{model.d_ff}",
        "vocabulary, context length": f"{model.vocab_size:,}, {model.context_length:,}",
        "steps": f"{last['step']:,} of {config.max_steps:,}",
        "tokens trained on": f"{last['tokens']:,}",
        **({"loss counts": "only the answers"} if config.data.has_turns else {}),
        **({"attention": "within documents"} if config.data.pack == "documents" else {}),
        "training loss": _number(last, "train_loss"),
        "validation loss": _number(last, "val_loss"),
        "best validation loss": f"{best.loss:.4f} at step {best.step:,}" if best.step else "–",
        "perplexity": _number(last, "val_perplexity"),
        "bits per byte, without special tokens": _number(last, "val_bits_per_byte"),
        "time": f"{run.seconds():,.0f} s",
        "tokens per second": f"{last['tokens'] / (run.seconds() or math.nan):,.0f}",
        "device, precision (as configured)": f"{config.device}, {config.precision}",
        **{f"{name}, SHA-256": digest for name, digest in card.data.items()},
        **config.origin_facts(),
        "report written on": f"{platform.platform()}, {os.cpu_count()} cores, torch "
        f"{torch.__version__}",
    }
    return list(facts.items())


def _number(row: dict[str, float], key: str) -> str:
    return f"{row[key]:.4f}" if key in row else "–"


# --------------------------------------------------------------------- under-trained tokens


def distance_from_unused(head: Tensor, unused: Sequence[int]) -> npt.NDArray[np.float64]:
    """Return the cosine distance of each row of the output head from the mean row of unused ids.

    During training, the rows of ids that never occur all move in the same direction, away from the
    model's outputs, so a low distance means that the model has hardly seen a token (Land and
    Bartolo 2024, "Fishing for Magikarp"). Their variant that first removes the principal component
    is worse for small models, because unused ids have precisely this component in common.

    Args:
        head: Matrix of the output head, shape (vocab_size, d_model).
        unused: Ids that cannot occur in a text.

    Raises:
        ValueError: If `unused` is empty or a weight is not finite.
    """
    if not unused:
        raise InputError("every id can occur in a text")
    rows = head.detach().double().cpu()
    if not rows.isfinite().all():
        raise InputError("some weights are not finite")
    mean = rows[list(unused)].mean(0, keepdim=True)
    distance: npt.NDArray[np.float64] = (1 - torch.cosine_similarity(rows, mean)).numpy()
    return distance


def unused_ids(tokenizer: Tokenizer, vocab_size: int) -> list[int]:
    """Return the model's ids that cannot occur in a text.

    These are single bytes that never occur in valid UTF-8, and ids without a token.
    """
    return [
        token_id
        for token_id in range(vocab_size)
        if (token := tokenizer.vocab.get(token_id)) is None
        or (len(token) == 1 and not is_part_of_utf8(token))
    ]


def _tokens(run: RunDirectory, checkpoint: Path) -> Section:
    title = "Under-trained tokens"
    try:
        model, tokenizer = load_run(run.path, checkpoint=checkpoint)
    except NonFiniteWeightsError as error:
        return Section(title, [f"Not measured: {error}."])
    vocab_size = model.config.vocab_size
    unused = unused_ids(tokenizer, vocab_size)
    counts = _occurrences(run, tokenizer, vocab_size)
    if counts is not None:
        unused = [token_id for token_id in unused if not counts[token_id]]
    try:
        distance = distance_from_unused(model.head_weight, unused)
    except InputError as error:
        return Section(title, [f"Not measured: {error}."])
    special = tokenizer.definition.ids_of_special
    ids = [
        token_id
        for token_id, token in tokenizer.vocab.items()
        if token_id < vocab_size and len(token) > 1 and token_id not in special
    ]
    ids.sort(key=lambda token_id: (distance[token_id], token_id))
    suspected = ids[: math.ceil(SUSPECTED_SHARE * len(ids))]
    blocks: list[str | Table | Chart | Quote] = [
        "A token is suspect if its output weights are close, by cosine distance, to the weights of "
        f"the {len(unused)} ids that never occur in a text. The model has hardly seen such a "
        "token, so text that contains it can cause strange output. Land and Bartolo (2024) suspect "
        f"the nearest {SUSPECTED_SHARE:.0%} of all tokens, here {len(suspected):,}. Single bytes "
        f"and special tokens are left out. The weights are from {checkpoint.name}."
    ]
    rows = [
        (str(i), Tokens([tokenizer.vocab[i]]), f"{distance[i]:.4f}") for i in ids[:_MOST_LISTED]
    ]
    if counts is None or len(ids) < 2:
        return Section(title, [*blocks, Table(("id", "token", "distance"), rows)])
    points = [(counts[i] + 1.0, float(distance[i])) for i in thinned(ids, _MOST_POINTS)]
    x = "occurrences in the training text + 1"
    blocks += [
        f"The rank correlation between distance and occurrences in the training text is "
        f"{_rank_correlation(distance[ids], counts[ids]):.2f}; if it is near 1, the distance shows "
        "how often a token was seen. The median number of occurrences is "
        f"{np.median(counts[ids]):,.0f} for all tokens and {np.median(counts[suspected]):,.0f} for "
        "the suspected ones.",
        Chart(chart({"": points}, title=title, x=x, y="distance", log="x", lines=False)),
    ]
    header = ("id", "token", "distance", "in the training text")
    counted = [(*row, f"{counts[int(row[0])]:,}") for row in rows]
    return Section(title, [*blocks, Table(header, counted)])


def _occurrences(
    run: RunDirectory, tokenizer: Tokenizer, vocab_size: int
) -> npt.NDArray[np.int64] | None:
    """Return the occurrences of each id in the training text, or None if the run has no text."""
    files = [*run.data.glob("train.npy"), *run.data.glob("*/train.npy")]  # a mixture has several
    if not files:
        return None
    counts = np.zeros(vocab_size, np.int64)
    for file in files:
        found = count_token_file(tokenizer, file)[:vocab_size]
        counts[: len(found)] += found
    return counts


def _rank_correlation(left: npt.NDArray[Any], right: npt.NDArray[Any]) -> float:
    """Return Spearman's rank correlation coefficient. Equal values share their mean rank."""
    ranks = []
    for values in (left, right):
        _, inverse, number = np.unique(values, return_inverse=True, return_counts=True)
        ranks.append((np.cumsum(number) - (number - 1) / 2)[inverse])
    deviations = [rank - rank.mean() for rank in ranks]
    product = np.prod([np.linalg.norm(deviation) for deviation in deviations])
    return float(deviations[0] @ deviations[1] / product) if product else 0.0
