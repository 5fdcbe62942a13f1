"""The training loop. `Trainer.fit` is the loop; read it first, top to bottom.

A run that was killed and resumed equals one that never stopped, bit for bit on a CPU with the same
number of threads, because nothing in a step depends on anything but the weights, the optimizer's
state, the seed and the number of the step: the batch comes from a generator keyed by (seed, step),
the learning rate is computed from the step, and nothing else is random once the weights are drawn.
"""

from __future__ import annotations

import contextlib
import math
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import Module
from tqdm import tqdm

from cs336_basics._files import atomic_writer
from cs336_basics._text import END_OF_TEXT
from cs336_basics.generation import Sampling, generate
from cs336_basics.model import TransformerLM
from cs336_basics.runs.checkpoint import load_checkpoint
from cs336_basics.runs.checkpoint_dir import (
    is_sharded,
    save_checkpoint_directory,
    verify_checkpoint_directory,
)
from cs336_basics.runs.loggers import Logger
from cs336_basics.runs.run_dir import RunDirectory
from cs336_basics.training.clipping import clip_gradients_foreach
from cs336_basics.training.config import TrainConfig
from cs336_basics.training.data import BatchLoader, read_windows, release_pages
from cs336_basics.training.devices import (
    check_precision,
    device_name,
    exact_arithmetic,
    flops_per_token,
    peak_flops,
)
from cs336_basics.training.devices import (
    choose_device as choose_device,  # also for those who know it from here
)
from cs336_basics.training.distributed import World, gradients_stay_here, replicate, shard
from cs336_basics.training.loss import LanguageModelLoss, checkpoint_activations
from cs336_basics.training.optimizers import build_optimizer
from cs336_basics.training.schedule import scheduled_learning_rate

if TYPE_CHECKING:
    from cs336_basics.tokenizer import Tokenizer


TokenArray = npt.NDArray[np.integer[Any]]

_SECONDS_BETWEEN_LINES = 10.0  # of progress, where there is no terminal to draw a bar on


class NonFiniteLossError(RuntimeError):
    """The loss or the gradients became infinite or NaN."""


class TrainingInterrupted(Exception):  # noqa: N818 -- an interruption is not an error
    """Ctrl-C or SIGTERM: the run was saved and can be resumed."""

    def __init__(self, signal_number: int, step: int) -> None:
        super().__init__(f"stopped by {signal.Signals(signal_number).name} after step {step}")
        self.signal_number = signal_number
        self.step = step


@dataclass
class TrainResult:
    """How a run ended. Losses are in nats per token; seconds count all sessions of the run."""

    step: int
    tokens: int
    seconds: float
    train_loss: float
    val_loss: float
    val_perplexity: float
    val_bits_per_byte: float | None
    best_val_loss: float
    sample: str | None


class Trainer:
    """Trains a TransformerLM on token arrays and keeps a run directory.

    Args:
        config: what to train, and how.
        train_tokens: token ids, one-dimensional, an array or a memory map.
        valid_tokens: token ids to evaluate on.
        run: where metrics, checkpoints, samples and the plot go.
        tokenizer: turns samples into text, and knows of how many bytes of text each token is, for
            bits per byte; None: neither samples nor bits per byte.
        world: the processes that train this model together; each has a Trainer of its own.
        loggers: are given each row of metrics as well.
        report: is given lines to show.

    Raises:
        ValueError: the tokens do not fit the model, or the device cannot do what is asked.
    """

    def __init__(
        self,
        config: TrainConfig,
        train_tokens: TokenArray,
        valid_tokens: TokenArray,
        run: RunDirectory,
        *,
        tokenizer: Tokenizer | None = None,
        world: World | None = None,
        loggers: Sequence[Logger] = (),
        report: Callable[[str], None] = print,
    ) -> None:
        check_tokens("training", train_tokens, config)
        check_tokens("validation", valid_tokens, config)
        self.config = config
        self.train_tokens = train_tokens
        self.valid_tokens = valid_tokens
        self.run = run
        self.tokenizer = tokenizer
        self.token_bytes = None if tokenizer is None else bytes_of_tokens(tokenizer, config)
        self.world = world = world or World()
        self.loggers = loggers
        self.report = report
        check_batch_size(config, world)
        if config.num_workers is not None:
            torch.set_num_threads(config.num_workers)
        self.device = choose_device(config.device)
        if self.device.type == "cuda" and world.size > 1:
            self.device = torch.device("cuda", world.local_rank)  # one GPU for each process
        check_precision(config.precision, self.device)
        torch.manual_seed(config.seed)
        # Weights are drawn on the CPU, so that a seed gives the same ones on every device.
        self.model = TransformerLM(config.model).to(self.device)
        if config.checkpoint_activations:
            checkpoint_activations(self.model)
        sharded = world.size > 1 and config.parallel == "fsdp"
        if sharded:
            shard(self.model, world, self.device, compiled=config.compile)
        self.optimizer = build_optimizer(
            self.model,
            config.optimizer,
            lr=config.schedule.max_learning_rate,
            precision=config.precision,
            fused=config.fused_optimizer,
        )
        # What wraps the model is called, never saved: checkpoints keep the names of self.model.
        self.loss_module: Module = LanguageModelLoss(
            self.model, config.loss_chunks, config.precision
        )
        if world.size > 1 and config.parallel == "ddp":
            self.loss_module = replicate(self.loss_module, self.device)
        self.loss_of: Callable[[Tensor, Tensor], Tensor] = self.loss_module
        if config.compile and not sharded:
            self.loss_of = torch.compile(self.loss_module, dynamic=False)
        self.batches = BatchLoader(
            train_tokens,
            config.batch_size,
            config.model.context_length,
            self.device,
            lambda step: step_generator(config.seed, step),
            share=(world.rank, world.size),
        )
        self.peak_flops = peak_flops(device_name(self.device), config.precision)
        self.step = 0
        """Optimizer steps taken so far."""
        self.unchecked: list[tuple[int, Tensor, Tensor]] = []
        """Step, loss and gradient norm of steps that nobody has looked at yet."""
        self.best_val_loss = math.inf
        self.seconds_before = 0.0
        """Wall-clock time of this run's earlier sessions."""
        self.stop = _StopSignals()

    def fit(self) -> TrainResult:
        """Train from the current step to the last one.

        Returns:
            how the run ended.

        Raises:
            NonFiniteLossError: naming the step; the checkpoints are those of earlier steps.
            TrainingInterrupted: after Ctrl-C or SIGTERM, with a checkpoint saved.
        """
        config = self.config
        self.model.train()
        clock = self.clock = _Clock(self.seconds_before)
        exact = exact_arithmetic(self.device, config.deterministic)

        with self.stop, exact, self._progress() as progress:
            if self._evaluation_is_missing():  # stopped after a checkpoint, before its evaluation
                self._evaluate_and_record(self.step)

            for step in range(self.step + 1, config.max_steps + 1):
                clock.start_step()
                learning_rate = self._set_learning_rate(step)
                inputs, targets = self._batch(step)

                loss = torch.zeros((), device=self.device)
                self.optimizer.zero_grad()
                for number, (x, y) in enumerate(zip(inputs, targets, strict=True), start=1):
                    with self._gradients_meet(last=number == len(inputs)):
                        micro_loss = self.loss_of(x, y) / config.accumulation
                        torch.autograd.backward(micro_loss)
                    loss += micro_loss.detach()
                loss = self.world.mean(loss)
                grad_norm = clip_gradients_foreach(
                    self.model.parameters(), config.optimizer.max_grad_norm
                )
                self.unchecked.append((step, loss, grad_norm))
                if self._may_wait_for_device(step):
                    self._check_finite()  # before the step is taken
                self.optimizer.step()
                self.step = step
                clock.end_step()

                if self._row_is_due(step):
                    row = {
                        "step": step,
                        "tokens": self._tokens_in(step),
                        "train_loss": float(loss),
                        "lr": learning_rate,
                        "grad_norm": float(grad_norm),
                    }
                    timing = self._timing(clock)
                    self._record(row, timing)
                    progress.show({**row, **timing})
                progress.update()

                # The checkpoint comes before the evaluation, so that nothing that goes wrong in
                # an evaluation costs the steps before it.
                stopping = self._is_stopping()
                if self._checkpoint_is_due(step) or stopping:
                    self._save(step)
                    if self.world.is_first:  # a resumed run's clock goes on from here
                        self.run.append_checkpoint_time(step, clock.seconds())
                if stopping:
                    raise TrainingInterrupted(self.stop.signal_number or signal.SIGTERM, step)
                if self._evaluation_is_due(step):
                    self._evaluate_and_record(step)

        return self._result()

    def _is_stopping(self) -> bool:
        """Return whether one of the processes was told to stop."""
        return self.world.any(self.stop.signal_number is not None)

    # What one step is made of.

    def _set_learning_rate(self, step: int) -> float:
        """Give the optimizer the learning rate of a step (steps count from 1) and return it."""
        learning_rate = scheduled_learning_rate(step, self.config.schedule, self.config.max_steps)
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate
        return learning_rate

    def _batch(self, step: int) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
        """Return this process's inputs and targets of a step, each cut into micro-batches.

        The batch of a step is drawn whole, so it does not depend on how it is cut.
        """
        x, y = self.batches.batch(step, ahead=step < self.config.max_steps)
        return x.chunk(self.config.accumulation), y.chunk(self.config.accumulation)

    def _gradients_meet(self, last: bool) -> Any:
        """With several processes: exchange gradients after the last micro-batch only."""
        return contextlib.nullcontext() if last else gradients_stay_here(self.loss_module)

    def _may_wait_for_device(self, step: int) -> bool:
        """Return whether the host may look at results of this step now.

        A GPU works through steps that the host queues ahead of it; to look at a number is to wait
        for it. So there several steps are checked at a time, always before one that is saved.
        """
        return self.device.type == "cpu" or self._row_is_due(step) or self._checkpoint_is_due(step)

    def _check_finite(self) -> None:
        """Check the losses and gradient norms of the steps since the last check.

        Raises:
            NonFiniteLossError: naming the first bad step.
        """
        for step, loss, grad_norm in self.unchecked:
            if not (math.isfinite(loss) and math.isfinite(grad_norm)):
                raise NonFiniteLossError(
                    self._explain_divergence(step, float(loss), float(grad_norm))
                )
        self.unchecked.clear()

    def _explain_divergence(self, step: int, loss: float, grad_norm: float) -> str:
        kept = self.run.newest_checkpoint()
        return (
            f"step {step}: the loss is {loss}, the gradient norm {grad_norm}: training diverged. "
            f"Nothing of it was saved; the newest checkpoint is {kept or 'none'}. "
            f"{self._advice_on_divergence()}"
        )

    def _advice_on_divergence(self) -> str:
        return (
            "In a new run, try a longer warm-up or a smaller schedule.max_learning_rate (now "
            f"{self.config.schedule.max_learning_rate})"
        )

    def _row_is_due(self, step: int) -> bool:
        return step % self.config.log_every == 0 or step in (1, self.config.max_steps)

    def _timing(self, clock: _Clock) -> dict[str, float]:
        """Return the time so far, the speed of late and, where the device's peak is known, MFU."""
        speed = self._tokens_in(1) / clock.seconds_per_step()
        timing = {"seconds": clock.seconds(), "tokens_per_second": speed}
        if self.peak_flops is not None:
            used = speed * flops_per_token(self.config.model)
            timing["mfu"] = used / (self.peak_flops * self.world.size)
        return timing

    def _record(self, row: dict[str, Any], timing: dict[str, float]) -> None:
        """Write a row of metrics, and hand it to the loggers."""
        if self.world.is_first:
            self.run.append_metrics(row, timing)
            for logger in self.loggers:
                logger.log({**row, **timing})

    # Evaluation.

    def _evaluation_is_due(self, step: int) -> bool:
        return step % self.config.eval_every == 0 or step == self.config.max_steps

    def _evaluation_is_missing(self) -> bool:
        rows = self.run.read_metrics()
        done = any("val_loss" in row and row["step"] == self.step for row in rows)
        return self.step > 0 and self._evaluation_is_due(self.step) and not done

    def evaluate(self) -> tuple[float, float | None]:
        """Return the mean validation loss in nats per token, and bits per byte of the text.

        The windows are the same every time: stretches of context_length tokens that do not
        overlap, all of them or `eval_batches` batches spread evenly over the data. What is left
        at the end, shorter than a window, is not counted.

        Bits per byte do not depend on the tokenizer, so models with different ones can be compared
        by them: what all predicted tokens cost together, over the bytes of text that just these
        tokens stand for (a special token: those of its name). None where there is no tokenizer.

        Raises:
            TrainingInterrupted: in `fit`, after Ctrl-C or SIGTERM. The checkpoint of this step was
                saved before, and a resumed run begins with this evaluation.
        """
        config, world = self.config, self.world
        length = config.model.context_length
        windows = (len(self.valid_tokens) - 1) // length
        chosen = min(windows, config.eval_batches * config.batch_size) or windows
        starts = np.arange(chosen) * windows // chosen * length
        size = config.batch_size // config.accumulation // world.size
        total = count = num_bytes = 0.0
        was_training = self.model.training
        self.model.eval()
        with torch.no_grad():
            # Each process takes its part of `size * world.size` windows at a time.
            for first in range(
                world.rank * size, len(starts) + world.rank * size, size * world.size
            ):
                if self._is_stopping():
                    raise TrainingInterrupted(self.stop.signal_number or signal.SIGTERM, self.step)
                mine = starts[first : first + size]
                # Where there is nothing left, a process computes along: the others may need it.
                batch = read_windows(
                    self.valid_tokens, mine if len(mine) else starts[:1], length + 1
                )
                inputs, targets = batch[:, :-1].contiguous(), batch[:, 1:].contiguous()
                loss = self.loss_of(inputs.to(self.device), targets.to(self.device))
                total += float(loss) * len(mine) * length
                count += len(mine) * length
                if self.token_bytes is not None:
                    num_bytes += int(self.token_bytes[targets[: len(mine)]].sum())
        self.model.train(was_training)
        total, count, num_bytes = world.sum([total, count, num_bytes])
        return total / count, total / math.log(2) / num_bytes if num_bytes else None

    def _evaluate_and_record(self, step: int) -> None:
        """Evaluate, sample, remember the best checkpoint, and write it all down."""
        val_loss, bits_per_byte = self.evaluate()
        if not math.isfinite(val_loss):
            raise NonFiniteLossError(
                f"step {step}: the validation loss is {val_loss}: training diverged, and the "
                f"weights of this step cannot be used. In {self.run.checkpoints} use those of an "
                f"earlier one. {self._advice_on_divergence()}"
            )
        row = {
            "step": step,
            "tokens": self._tokens_in(step),
            "val_loss": val_loss,
            "val_perplexity": math.exp(min(val_loss, 700.0)),  # beyond that a float is too small
        }
        message = (
            f"step {step}: validation loss {val_loss:.4f}, perplexity {row['val_perplexity']:.2f}"
        )
        if bits_per_byte is not None:
            row["val_bits_per_byte"] = bits_per_byte
            message += f", {bits_per_byte:.4f} bits per byte"
        self._say(message)
        improved = val_loss < self.best_val_loss
        self.best_val_loss = min(val_loss, self.best_val_loss)
        if improved and self.world.is_first:
            self.run.mark_best(step, val_loss)
            self._remove_old_checkpoints()
        if self.tokenizer is not None and self.config.sample_tokens > 0:
            # By all processes, since a model that is sharded needs them all.
            text = self.sample(step)
            if self.world.is_first:
                with atomic_writer(self.run.sample(step), "w") as file:
                    file.write(text + "\n")
        # Last, because a resumed run takes this row as the sign that all of the above was done.
        self._record(row, {"seconds": self.clock.seconds()})
        if self.world.is_first:
            self.run.plot_losses()
        self.world.wait()

    def sample(self, step: int) -> str:
        """Return a text sampled from the model: the same one for the same weights and step."""
        assert self.tokenizer is not None
        config = self.config
        eos_id = self.tokenizer.special_token_id(END_OF_TEXT)
        prompt_ids = self.tokenizer.encode(config.sample_prompt) or [eos_id]
        seed = np.random.SeedSequence([config.seed, step]).generate_state(1, np.uint64)
        # A sharded model's blocks are compiled, and would be again for each length of the cache.
        stance = torch.compiler.set_stance if config.compile else contextlib.nullcontext
        with stance("force_eager"):
            new_ids = list(
                generate(
                    self.model,
                    prompt_ids,
                    config.sample_tokens,
                    Sampling(temperature=config.sample_temperature, top_p=config.sample_top_p),
                    eos_id=eos_id,
                    generator=torch.Generator().manual_seed(int(seed[0])),
                )
            )
        return config.sample_prompt + self.tokenizer.decode(new_ids)

    # Checkpoints.

    def _checkpoint_is_due(self, step: int) -> bool:
        return step % self.config.checkpoint_every == 0 or self._evaluation_is_due(step)

    def _remove_old_checkpoints(self) -> None:
        # One that was saved for a signal pushes none out, and goes when the next is there: in the
        # end a run that was stopped has the checkpoints of one that was not.
        self.run.keep_newest_checkpoints(self.config.keep_checkpoints, self._checkpoint_is_due)

    def _save(self, step: int) -> None:
        self._check_finite()
        if self.world.is_first:
            # The rows up to this step must not be younger than the checkpoint.
            self.run.sync_metrics()
            self.run.checkpoints.mkdir(exist_ok=True)
        if self.world.is_first or is_sharded(self.model):
            save_checkpoint_directory(self.run.checkpoint(step), self.model, self.optimizer, step)
        if self.world.is_first:
            self._remove_old_checkpoints()

    def resume(self, checkpoint: Path | None = None, *, skip_damaged: bool = False) -> None:
        """Load a checkpoint of this run, the newest one unless another is named.

        Where there was none yet, the run starts from the beginning.

        Args:
            checkpoint: the one to load.
            skip_damaged: pass over checkpoints that are damaged, to the newest that is not.

        Raises:
            ValueError: the checkpoint cannot be read or does not belong to this configuration; or
                there were some and none is left.
        """
        if self.world.is_first:
            self.run.remove_temporary_files()
        source = checkpoint or self.world.share(self._newest_checkpoint(skip_damaged))
        if source is not None:
            try:
                self.step = load_checkpoint(source, self.model, self.optimizer)
            except (MemoryError, torch.OutOfMemoryError):
                raise  # of which the checkpoint knows nothing
            except Exception as error:
                raise ValueError(self._explain_damage(source, error)) from error
        if self.step > self.config.max_steps:
            raise ValueError(
                f"{source} was saved at step {self.step}, after the last step: "
                f"max_steps is {self.config.max_steps}"
            )
        self.world.wait()
        if self.world.is_first:
            for path in self.run.set_aside_after(self.step, source):
                self._say(f"set aside: {path} (the run goes on from {source or 'its beginning'})")
            self.run.truncate_metrics(self.step)
        self.world.wait()
        if source is not None and not self.run.checkpoint(self.step).exists():
            self._save(self.step)  # it came from elsewhere; from here on it is this run's own
        rows = self.run.read_metrics()
        losses = [row["val_loss"] for row in rows if "val_loss" in row]
        if self.run.best_step() is not None:
            self.best_val_loss = min(losses, default=math.inf)
        self.seconds_before = self.run.seconds()
        self.world.wait()

    def _newest_checkpoint(self, skip_damaged: bool) -> Path | None:
        """Return the newest checkpoint, or the newest whole one, saying which were passed over."""
        if not self.world.is_first:
            return None  # the first process says
        steps = self.run.steps_saved()
        if not steps and any("val_loss" in row for row in self.run.read_metrics()):
            # To start again would cut off the metrics, the last that is left of the run.
            raise ValueError(
                f"{self.run.checkpoints} has none of the checkpoints that this run has saved: put "
                "them back or name one with --resume-from; or start a new run in another directory"
            )
        if not skip_damaged:
            return self.run.newest_checkpoint()
        for step in reversed(steps):
            try:
                verify_checkpoint_directory(self.run.checkpoint(step))
                return self.run.checkpoint(step)
            except (ValueError, OSError) as error:
                self._say(f"passed over: {error}")
        if steps:
            raise ValueError(
                f"no checkpoint in {self.run.checkpoints} is whole: name another with "
                "--resume-from, or start a new run in another directory"
            )
        return None

    def _explain_damage(self, source: Path, error: Exception) -> str:
        saved = [self.run.checkpoint(step) for step in self.run.steps_saved()]
        others = [str(path) for path in saved if path != source]
        return (
            f"the checkpoint {source} cannot be used: {' '.join(str(error).split())}. To go on "
            f"from another one: --resume-from {others[-1] if others else 'CHECKPOINT'} "
            "(--skip-damaged finds the newest that is whole)"
        )

    # What is shown and returned.

    def _tokens_in(self, steps: int) -> int:
        return steps * self.config.batch_size * self.config.model.context_length

    def _say(self, text: str) -> None:
        if not self.world.is_first:
            return
        with tqdm.external_write_mode():  # the bar steps aside for the line
            self.report(text)

    def _progress(self) -> _Progress:
        return _Progress(self.step, self.config.max_steps, self._say, self.world.is_first)

    def _result(self) -> TrainResult:
        if self.world.is_first:
            self.run.plot_losses()  # a session that was killed may have left it behind the metrics
        rows = self.run.read_metrics()
        # The training row is missing where a checkpoint came without the metrics of its run.
        train_row = {"train_loss": math.nan, **_last(rows, "train_loss")}
        val_row = _last(rows, "val_loss")
        sample = self.run.sample(self.step)
        return TrainResult(
            step=self.step,
            tokens=self._tokens_in(self.step),
            seconds=val_row.get("seconds", 0.0),
            train_loss=train_row["train_loss"],
            val_loss=val_row["val_loss"],
            val_perplexity=val_row["val_perplexity"],
            val_bits_per_byte=val_row.get("val_bits_per_byte"),
            best_val_loss=self.best_val_loss,
            sample=sample.read_text(encoding="utf-8") if sample.exists() else None,
        )


def _last(rows: list[dict[str, Any]], key: str) -> dict[str, Any]:
    """Return the last row that has this key, or an empty one."""
    return next((row for row in reversed(rows) if key in row), {})


def step_generator(seed: int, step: int) -> np.random.Generator:
    """Return the random generator of a step: its stream depends on nothing but (seed, step).

    Philox is a block cipher run over a counter, so streams with different keys are independent
    and any step can be reached without the ones before it (Salmon et al. 2011, "Parallel Random
    Numbers: As Easy as 1, 2, 3").
    """
    return np.random.Generator(np.random.Philox(key=np.array([seed, step], dtype=np.uint64)))


def bytes_of_tokens(tokenizer: Tokenizer, config: TrainConfig) -> Tensor:
    """Return how many bytes of text each id of the model's vocabulary stands for: (vocab_size,).

    An id that the tokenizer does not have stands for none.
    """
    tokens = (tokenizer.vocab.get(token_id, b"") for token_id in range(config.model.vocab_size))
    return torch.tensor([len(token) for token in tokens])


def check_batch_size(config: TrainConfig, world: World) -> None:
    """Check that the batch can be shared among the processes, and each part cut into micro-batches.

    Raises:
        ValueError: naming the values.
    """
    if config.batch_size % (world.size * config.accumulation) != 0:
        raise ValueError(
            f"batch_size is {config.batch_size}: it must be a multiple of {world.size} "
            f"processes times accumulation {config.accumulation}"
        )


def check_tokens(name: str, tokens: TokenArray, config: TrainConfig) -> None:
    """Check that tokens can be trained on: enough of them, and all within the vocabulary.

    Raises:
        ValueError: naming the values.
    """
    needed = config.model.context_length + 1
    if len(tokens) < needed:
        raise ValueError(
            f"the {name} data holds {len(tokens):,} tokens; a context of "
            f"{config.model.context_length:,} needs at least {needed:,}: use more text or a "
            "smaller model.context_length"
        )
    vocab_size = config.model.vocab_size
    block = 1 << 24  # a memory map may be larger than memory
    for start in range(0, len(tokens), block):
        part = tokens[start : start + block]
        smallest, largest = int(part.min()), int(part.max())
        release_pages(tokens)
        if smallest < 0 or largest >= vocab_size:
            raise ValueError(
                f"the {name} data holds token id {smallest if smallest < 0 else largest}, outside "
                f"the model's vocabulary [0, {vocab_size}): model.vocab_size must be at least the "
                "tokenizer's"
            )


class _Clock:
    """Measures a session: all of it, and the steps alone (without evaluations and checkpoints)."""

    def __init__(self, seconds_before: float) -> None:
        self._origin = time.perf_counter() - seconds_before
        self._started = self._in_steps = 0.0
        self._steps = 0

    def start_step(self) -> None:
        self._started = time.perf_counter()

    def end_step(self) -> None:
        self._in_steps += time.perf_counter() - self._started
        self._steps += 1

    def seconds(self) -> float:
        """Return the wall-clock time of the run, earlier sessions included."""
        return round(time.perf_counter() - self._origin, 3)

    def seconds_per_step(self) -> float:
        """Return the mean time of the steps since the last call."""
        mean = self._in_steps / self._steps
        self._in_steps, self._steps = 0.0, 0
        return max(mean, 1e-9)


class _StopSignals:
    """Within this block the first Ctrl-C or SIGTERM is noted, for the loop to stop at a good place.

    A second Ctrl-C acts as usual, for a step that takes too long to wait for. A second SIGTERM
    changes nothing: where a scheduler sends it to all processes of a job, torchrun hands its own on
    to those that have theirs already, in the middle of the checkpoint.
    """

    def __init__(self) -> None:
        self.signal_number: int | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> _StopSignals:
        # Python hands signals to the main thread only; elsewhere there is nothing to take over.
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        self._restore(*self._before)
        self.signal_number = None

    def _note(self, number: int, _frame: FrameType | None) -> None:
        if self.signal_number is None:
            self.signal_number = number
        self._restore(signal.SIGINT)

    def _restore(self, *numbers: int) -> None:
        for number in numbers:
            before = self._before.pop(number, None)
            if before is not None:
                signal.signal(number, before)


class _Progress:
    """A bar on a terminal; elsewhere a line every few seconds, so that a log shows life."""

    def __init__(
        self, step: int, max_steps: int, say: Callable[[str], None], has_terminal: bool
    ) -> None:
        self._say = say
        self._quiet = not (has_terminal and sys.stderr.isatty())
        self._last_line = time.perf_counter()
        self._bar = tqdm(initial=step, total=max_steps, unit="step", disable=self._quiet)

    def __enter__(self) -> _Progress:
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.close()

    def update(self) -> None:
        self._bar.update()

    def show(self, row: dict[str, Any]) -> None:
        """Show the figures of a row of metrics."""
        loss, speed = f"{row['train_loss']:.3f}", f"{row['tokens_per_second']:,.0f}"
        self._bar.set_postfix_str(f"loss {loss}, {speed} tokens/s", refresh=False)
        now = time.perf_counter()
        if self._quiet and now - self._last_line > _SECONDS_BETWEEN_LINES:
            self._last_line = now
            total = self._bar.total
            left = (total - row["step"]) * row["tokens"] / row["step"] / row["tokens_per_second"]
            self._say(
                f"step {row['step']}/{total}: loss {loss}, {speed} tokens/s, {left:,.0f} s left"
            )
