"""Runs for the page: learning curves and samples from the run directory, and the model."""

from __future__ import annotations

import functools
import math
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cs336_basics._support.errors import InputError
from cs336_basics._support.reading import read_start
from cs336_basics._support.text import END_OF_TEXT
from cs336_basics._support.validation import Amount, Checked, Count, build, option
from cs336_basics.checkpoints.run_dir import RunDirectory, comparable, thinned
from cs336_basics.playground.texts import check_length, shown_token

if TYPE_CHECKING:
    import torch

    from cs336_basics.generation import Sampling
    from cs336_basics.playground.learning import Emit
    from cs336_basics.training.load_run import LoadedRun

MOST_POINTS = 2_000
"""Maximum number of points of a learning curve."""
MOST_SAMPLES = 20
"""Maximum number of samples; the newest are shown."""
MOST_SAMPLE_BYTES = 20_000
MOST_PROMPT = 20_000
"""Maximum length in characters of a text for a model."""
MOST_ATTENDED = 256
"""Maximum number of tokens whose attention is shown."""
MOST_NEXT = 20
"""Maximum number of most likely next tokens that the page shows."""


@dataclass(kw_only=True)
class RunRequest(Checked):
    """A run, a text for its model, how to continue it, and the attention to show."""

    run: int = option("number of the run in the list", 0, ge=0)
    text: str = option("the text", "")
    token: Amount | None = option("index of a token of the text; unset: the last one", None)
    temperature: float = option("sampling temperature", 0.8, ge=0)
    top_k: Count | None = option("sample from the K most likely tokens", None)
    top_p: float = option("total probability for nucleus sampling", 0.95, gt=0, le=1)
    max_new_tokens: int = option("maximum number of new tokens", 200, ge=1, le=5000)
    seed: int = option("random seed", 0, ge=0, lt=2**63)
    layer: int = option("index of the layer", 0, ge=0)
    head: int = option("index of the head", 0, ge=0)


class Runs:
    """Answers requests about runs.

    Args:
        paths: The run directories.

    Raises:
        FileNotFoundError: If a path is not a run directory.
    """

    def __init__(self, paths: Sequence[Path]) -> None:
        self._runs = [RunDirectory(path) for path in paths]
        for run in self._runs:
            run.check_exists()
        self.names = [str(path) for path in paths]
        self._loading = threading.Lock()

    def _run(self, request: RunRequest) -> RunDirectory:
        if request.run >= len(self._runs):
            raise InputError(f"must be below {len(self._runs)}, got {request.run}", argument="run")
        return self._runs[request.run]

    def curves(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """Return the losses of a run by step, and its newest samples."""
        run = self._run(build(RunRequest, asked))
        rows = run.read_metrics()
        samples = run.sample_files()[::-1][:MOST_SAMPLES]
        seconds = run.seconds()
        return {
            "losses": {kind: _points(rows, kind) for kind in ("train_loss", "val_loss")},
            "seconds": seconds if math.isfinite(seconds) else 0.0,
            "samples": [
                {"name": path.stem, "text": read_start(path, MOST_SAMPLE_BYTES)} for path in samples
            ],
        }

    def generate(self, asked: Mapping[str, Any], emit: Emit) -> None:
        """Call `emit` with pieces of a text that continues the given text."""
        request = build(RunRequest, asked)
        loaded = self._loaded(request)
        import torch

        generator = torch.Generator().manual_seed(request.seed)
        new = loaded.stream(
            request.text, request.max_new_tokens, _sampling(request), generator=generator
        )
        for text in new:
            emit({"text": text})

    def next_tokens(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """Return the most likely tokens after a token of a text, and whether the filters keep them.

        The token that follows in the text is included, even if it is unlikely.
        """
        request = build(RunRequest, asked)
        loaded = self._loaded(request)
        from cs336_basics.generation.sampling import at_temperature

        context = loaded.model.config.context_length
        ids = loaded.tokenizer.encode(request.text)
        end = len(ids) if request.token is None else min(request.token + 1, len(ids))
        before, following = ids[:end], ids[end : end + 1]
        logits = _logits(loaded, before[-context:] or [_start_id(loaded)])[-1]
        probabilities = at_temperature(logits, request.temperature or 1)
        kept = _sampling(request).filtered(probabilities)
        top = probabilities.topk(min(MOST_NEXT, len(probabilities))).indices.tolist()
        return {
            "after": [shown_token(loaded.tokenizer, token_id) for token_id in before[-1:]],
            "index": end - 1,
            "tokens": [
                {
                    **shown_token(loaded.tokenizer, token_id),
                    "probability": float(probabilities[token_id]),
                    "kept": bool(kept[token_id] > 0)
                    and (request.temperature > 0 or token_id == top[0]),
                    "follows": token_id in following,
                }
                for token_id in dict.fromkeys([*top, *following])
                if token_id in loaded.tokenizer.vocab
            ],
        }

    def losses(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """Return the tokens at the start of a text, each with its cross-entropy loss in nats."""
        request = build(RunRequest, asked)
        loaded = self._loaded(request)
        import torch

        context = loaded.model.config.context_length
        ids = loaded.tokenizer.encode(request.text)
        shown = ids[:context]
        tokens = []
        if shown:
            logits = _logits(loaded, [_start_id(loaded), *shown[:-1]])
            losses = torch.nn.functional.cross_entropy(
                logits, torch.tensor(shown), reduction="none"
            )
            for token_id, loss in zip(shown, losses.tolist(), strict=True):
                tokens.append({**shown_token(loaded.tokenizer, token_id), "loss": loss})
        return {"tokens": tokens, "num_tokens": len(ids)}

    def attention(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """Return how much a token at the start of a text attends to the tokens before it."""
        request = build(RunRequest, asked)
        loaded = self._loaded(request)
        import torch

        from cs336_basics.model.inspection import attention_weights

        config = loaded.model.config
        ids = loaded.tokenizer.encode(request.text)[: min(config.context_length, MOST_ATTENDED)]
        if request.head >= config.num_heads:
            raise InputError(
                f"must be below {config.num_heads}, got {request.head}", argument="head"
            )
        weights: list[float] = []
        index = len(ids) - 1
        if ids:
            index = index if request.token is None else min(request.token, index)
            found = attention_weights(loaded.model, torch.tensor(ids), request.layer)
            weights = _finite(found[request.head, index], "attention").tolist()
        return {
            "tokens": [shown_token(loaded.tokenizer, token_id) for token_id in ids],
            "weights": weights,
            "index": index,
            "num_layers": config.num_layers,
            "num_heads": config.num_heads,
        }

    def _loaded(self, request: RunRequest) -> LoadedRun:
        """Return the model and the tokenizer for a request."""
        check_length(request.text, MOST_PROMPT)
        with self._loading:
            return _load(self._run(request).path)


@functools.lru_cache(maxsize=2)
def _load(path: Path) -> LoadedRun:
    from cs336_basics.training.load_run import load_run

    return load_run(path)


def _sampling(request: RunRequest) -> Sampling:
    from cs336_basics.generation import Sampling

    return Sampling(temperature=request.temperature, top_k=request.top_k, top_p=request.top_p)


def _start_id(loaded: LoadedRun) -> int:
    return loaded.tokenizer.special_token_id(END_OF_TEXT)


def _logits(loaded: LoadedRun, ids: Sequence[int]) -> torch.Tensor:
    """Return the logits after each token, as a float64 tensor of shape (len(ids), vocab_size)."""
    import torch

    with torch.no_grad():
        logits: torch.Tensor = loaded.model(torch.tensor([list(ids)]))[0].double()
    return _finite(logits, "logits")


def _finite(values: torch.Tensor, name: str) -> torch.Tensor:
    """Return values of a model. JSON cannot represent values that are not finite.

    Raises:
        ValueError: If a value is infinite or NaN, although all weights are finite.
    """
    if not values.isfinite().all():
        raise InputError(f"the model's {name} must be finite, got inf or NaN")
    return values


def _points(rows: Sequence[Mapping[str, Any]], kind: str) -> list[tuple[int, float]]:
    points = [(row["step"], comparable(row, kind)) for row in rows if kind in row]
    return thinned([point for point in points if math.isfinite(point[1])], MOST_POINTS)
