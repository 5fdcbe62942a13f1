"""Calibration: times the implementations of a training step on this machine, for one model shape.

A step is num_layers times a Transformer block, plus everything around the blocks: embedding, final
norm, output head and loss. The two are timed separately, forward and backward, on random tokens, so
a candidate that has to be compiled compiles one block or the head, and not a whole model. Clipping
and the optimizer are left out: no choice here changes them.

Candidates run alternately, so that other load on the machine affects all of them, and the median of
each counts.
"""

from __future__ import annotations

import dataclasses
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.nn import ModuleList

from cs336_basics.model import ModelConfig, TransformerLM
from cs336_basics.training.config import TrainConfig
from cs336_basics.training.devices import exact_arithmetic
from cs336_basics.training.loss import LanguageModelLoss

Clock = Callable[[], float]

_BUDGET = 36.0
"""Seconds after which no further candidate is prepared, unless its group has none yet.

The one compilation that may still come, and the timed runs, keep the whole below a minute.
"""
_ROUNDS = 4
_FLOPS = 1e11
"""Arithmetic of one timed run, about half a second on two cores: the batch is cut down to this."""


@dataclass(frozen=True)
class Candidate:
    """One way to compute one of the two parts of a step."""

    part: Literal["block", "loss"]
    choice: str | int
    """The kind of attention of a block, or the number of chunks of the loss."""
    precision: str
    compiled: bool


@dataclass(frozen=True)
class Timing:
    """How long a candidate takes."""

    candidate: Candidate
    seconds: float
    """Median of a forward and backward pass."""
    setup_seconds: float
    """The first pass, which includes compilation."""


@dataclass(frozen=True)
class Candidates:
    """What may be chosen. The first entry of each is preferred where times cannot be compared."""

    attention: tuple[str, ...]
    loss_chunks: tuple[int, ...]
    precision: tuple[str, ...]
    compiled: tuple[bool, ...]

    def contain(self, candidate: Candidate) -> bool:
        """Return whether a calibration of these candidates may have timed this one."""
        choices = {"block": self.attention, "loss": self.loss_chunks}
        return (
            candidate.choice in choices.get(candidate.part, ())
            and candidate.precision in self.precision
            # Also where only compiled code is allowed: a compiler that fails leaves nothing else.
            and candidate.compiled in (False, *self.compiled)
        )


@dataclass(frozen=True)
class Choice:
    """The fastest combination."""

    attention: str
    loss_chunks: int
    precision: str
    compiled: bool


@dataclass(frozen=True)
class Calibration:
    """All timings of a search. They hold for `sequences` sequences of the context length."""

    sequences: int
    timings: tuple[Timing, ...]

    def covers(self, candidates: Candidates) -> bool:
        """Return whether every attention and every number of chunks was timed."""
        timed = {timing.candidate.choice for timing in self.timings}
        return timed >= {*candidates.attention, *candidates.loss_chunks}

    def best(self, part: str, precision: str, compiled: bool) -> Timing | None:
        """Return the fastest candidate of a part, or None where none was timed."""
        found = [
            timing
            for timing in self.timings
            if (timing.candidate.part, timing.candidate.precision, timing.candidate.compiled)
            == (part, precision, compiled)
        ]
        return min(found, key=lambda timing: timing.seconds, default=None)

    def seconds(self, precision: str, compiled: bool, num_layers: int) -> float:
        """Return the time of the fastest step of `num_layers` blocks; infinite if not timed."""
        block, loss = (self.best(part, precision, compiled) for part in ("block", "loss"))
        if block is None or loss is None:
            return float("inf")
        return num_layers * block.seconds + loss.seconds

    def setup_seconds(self, precision: str, num_layers: int) -> float:
        """Return an estimate of the time that compiling the whole model takes."""
        block, loss = (self.best(part, precision, True) for part in ("block", "loss"))
        if block is None or loss is None:
            return float("inf")
        return num_layers * block.setup_seconds + loss.setup_seconds

    def choose(self, num_layers: int, passes: float) -> Choice:
        """Return the combination that is fastest over a run.

        Args:
            num_layers: blocks of the model.
            passes: forward and backward passes of the whole run, each of `sequences` sequences.

        Raises:
            ValueError: no combination was timed completely.
        """
        costs = {}
        for precision in sorted({timing.candidate.precision for timing in self.timings}):
            for compiled in (False, True):
                cost = passes * self.seconds(precision, compiled, num_layers)
                if compiled:
                    cost += self.setup_seconds(precision, num_layers)
                costs[precision, compiled] = cost
        if not costs or min(costs.values()) == float("inf"):
            raise ValueError("the calibration timed no complete step")
        precision, compiled = min(costs, key=lambda key: costs[key])
        block = self.best("block", precision, compiled)
        loss = self.best("loss", precision, compiled)
        assert block is not None
        assert loss is not None
        return Choice(str(block.candidate.choice), int(loss.candidate.choice), precision, compiled)


def sequences_to_time(config: TrainConfig) -> int:
    """Return how many sequences of a micro-batch are timed: all, or what `_FLOPS` allows."""
    model = config.model
    feed_forward = (3 if model.ffn == "swiglu" else 2) * model.d_model * model.d_ff
    block = 4 * model.d_model**2 + feed_forward + 2 * model.d_model * model.context_length
    largest = max(block, model.vocab_size * model.d_model)  # in multiplications for each token
    affordable = int(_FLOPS / (6 * largest * model.context_length))
    return max(1, min(config.batch_size // config.accumulation, affordable))


def calibrate(
    config: TrainConfig,
    device: torch.device,
    candidates: Candidates,
    *,
    clock: Clock = time.perf_counter,
    prepare: Callable[[Candidate], Callable[[], None]] | None = None,
) -> Calibration:
    """Time the candidates and return what was found.

    Precision and loss chunks are decided first, without compiling; then attention, compiled if that
    is allowed; then the winner is compared with its uncompiled form. A candidate that fails (no
    memory, no working compiler) is omitted.

    Args:
        config: gives the shape, the micro-batch and the number of threads.
        device: where to compute.
        candidates: what to compare.
        clock: seconds, as `time.perf_counter` gives them.
        prepare: returns a function that runs a candidate once; None: the real one.
    """
    sequences = sequences_to_time(config)
    prepare = prepare or Workload(config, device, sequences).prepare
    search = _Search(candidates, prepare, clock)
    threads = torch.get_num_threads()
    if config.num_workers is not None:
        torch.set_num_threads(config.num_workers)
    try:
        with torch.random.fork_rng(devices=[]), exact_arithmetic(device, config.deterministic):
            search.run()
    finally:
        torch.set_num_threads(threads)
        torch.compiler.reset()
    return Calibration(sequences, tuple(search.timings))


class _Search:
    """A search over candidates, one choice after the other."""

    def __init__(
        self,
        candidates: Candidates,
        prepare: Callable[[Candidate], Callable[[], None]],
        clock: Clock,
    ) -> None:
        self.candidates = candidates
        self.timings: list[Timing] = []
        self._prepare = prepare
        self._clock = clock
        self._end = clock() + _BUDGET

    def run(self) -> None:
        """Fill `timings`."""
        allowed = self.candidates
        precision = allowed.precision[0]
        if len(allowed.precision) > 1:
            precision = self._fastest_precision()
        attention, chunks = allowed.attention, allowed.loss_chunks
        # The loss takes longest to compile, and its chunks rank alike with and without: only the
        # winner is compiled. Kernels of attention rank differently, so each is.
        loss = self._time("loss", chunks, [precision], compiled=False)
        if loss is not None:
            chunks = (int(loss.choice),)
        compiled_works = False
        if True in allowed.compiled:
            block = self._time("block", attention, [precision], compiled=True)
            loss = self._time("loss", chunks, [precision], compiled=True)
            if block is not None and loss is not None:
                compiled_works = True
                attention = (str(block.choice),)  # compared with its uncompiled form below
        if False in allowed.compiled or not compiled_works:
            self._time("block", attention, [precision], compiled=False)

    def _fastest_precision(self) -> str:
        """Time both precisions without compilation and return the faster one."""
        allowed = self.candidates
        best = self._time("block", allowed.attention[:1], allowed.precision, compiled=False)
        return allowed.precision[0] if best is None else best.precision

    def _time(
        self,
        part: Literal["block", "loss"],
        choices: Sequence[str | int],
        precisions: Sequence[str],
        compiled: bool,
    ) -> Candidate | None:
        """Time a group of candidates alternately; return the fastest, None where all failed."""
        known = {timing.candidate for timing in self.timings}
        ready: dict[Candidate, tuple[Callable[[], None], float]] = {}
        group = [Candidate(part, c, p, compiled) for c in choices for p in precisions]
        for candidate in group:
            if candidate in known or (ready and self._clock() > self._end):
                continue
            start = self._clock()
            try:
                run = self._prepare(candidate)
                run()
            except (RuntimeError, MemoryError):
                continue
            ready[candidate] = run, self._clock() - start
        seconds: dict[Candidate, list[float]] = {candidate: [] for candidate in ready}
        for _ in range(_ROUNDS):
            for candidate, (run, _) in ready.items():
                start = self._clock()
                run()
                seconds[candidate].append(self._clock() - start)
        self.timings += [
            Timing(candidate, statistics.median(seconds[candidate]), setup)
            for candidate, (_, setup) in ready.items()
        ]
        timed = [timing for timing in self.timings if timing.candidate in group]
        best = min(timed, key=lambda timing: timing.seconds, default=None)
        return None if best is None else best.candidate


class Workload:
    """The two parts of a training step, on random tokens of the real shape."""

    def __init__(self, config: TrainConfig, device: torch.device, sequences: int) -> None:
        self.config = config
        self.device = device
        self.shape = (sequences, config.model.context_length)

    def prepare(self, candidate: Candidate) -> Callable[[], None]:
        """Return a function that runs a candidate forward and backward once."""
        model = self.config.model
        if candidate.part == "block":
            model = dataclasses.replace(model, attention=candidate.choice)  # type: ignore[arg-type]
            return self._block(dataclasses.replace(model, num_layers=1), candidate)
        return self._loss(int(candidate.choice), candidate)

    def _block(self, model: ModelConfig, candidate: Candidate) -> Callable[[], None]:
        vocabulary = dataclasses.replace(model, vocab_size=1)  # only the block is of interest
        block = TransformerLM(vocabulary, device=self.device).layers[0]
        x = torch.randn(*self.shape, model.d_model, device=self.device, requires_grad=True)
        upstream = torch.randn_like(x)
        forward = torch.compile(block, dynamic=False) if candidate.compiled else block
        reduced = candidate.precision == "bfloat16"

        def run() -> None:
            with torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=reduced):
                out: Tensor = forward(x)
            torch.autograd.backward(out, upstream.to(out.dtype))
            self._finish(x, *block.parameters())

        return run

    def _loss(self, num_chunks: int, candidate: Candidate) -> Callable[[], None]:
        model = TransformerLM(
            dataclasses.replace(self.config.model, num_layers=1), device=self.device
        )
        model.layers = ModuleList()  # all but the blocks
        loss_of = LanguageModelLoss(model, num_chunks, candidate.precision)
        forward = torch.compile(loss_of, dynamic=False) if candidate.compiled else loss_of
        tokens = torch.randint(self.config.model.vocab_size, self.shape, device=self.device)

        def run() -> None:
            torch.autograd.backward(forward(tokens, tokens))
            self._finish(*model.parameters())

        return run

    def _finish(self, *tensors: Tensor) -> None:
        """Free the gradients, as `zero_grad` does, and wait for the device."""
        for tensor in tensors:
            tensor.grad = None
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
