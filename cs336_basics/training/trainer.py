"""The training loop. `Trainer.fit` is the loop: read it first, top to bottom.

A run that was killed and resumed equals one that never stopped, bit for bit on a CPU with the same
number of threads. Nothing in a step depends on anything but the weights, the optimizer's state, the
seed and the number of the step: the batch comes from a generator keyed by (seed, step), the
learning rate is computed from the step, and nothing else is random once the weights are drawn.
"""

from __future__ import annotations

import contextlib
import math
import signal
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from cs336_basics._support.files import atomic_writer
from cs336_basics.checkpoints.checkpoint import is_sharded, write_checkpoint
from cs336_basics.checkpoints.run_dir import RunDirectory
from cs336_basics.training.clipping import clip_gradients_foreach
from cs336_basics.training.components import build_components
from cs336_basics.training.config import TrainConfig, check_fast_is_chosen
from cs336_basics.training.data import BatchLoader, TokenArray, check_tokens, step_generator
from cs336_basics.training.devices import (
    device_name,
    exact_arithmetic,
    flops_per_token,
    peak_flops,
)
from cs336_basics.training.distributed import World, check_batch_size, without_exchange
from cs336_basics.training.divergence import DivergenceCheck
from cs336_basics.training.evaluation import Evaluation, check_samples, evaluation_row, sample_text
from cs336_basics.training.learning_curves import plot_run
from cs336_basics.training.loggers import Logger
from cs336_basics.training.result import TrainResult, result_of
from cs336_basics.training.schedule import scheduled_learning_rate
from cs336_basics.training.session import (
    Clock,
    Progress,
    StopSignals,
    TrainingInterrupted,
    above_the_bar,
)

if TYPE_CHECKING:
    from cs336_basics.tokenizer import Tokenizer


class Trainer:
    """Trains a TransformerLM on token arrays and keeps a run directory.

    Args:
        config: what to train, and how.
        train_tokens: token ids, one-dimensional, an array or a memory map.
        valid_tokens: token ids to evaluate on.
        run: the directory for metrics, checkpoints, samples and the plot.
        tokenizer: decodes samples, and tells how many bytes each token has, for bits per byte;
            None: neither samples nor bits per byte.
        world: the processes that train this model together; each has its own Trainer.
        report: is called with each line to show.

    Raises:
        ValueError: the tokens do not fit the model, the device cannot do what is asked, texts
            cannot be sampled, or `config.fast` is "auto".
        TypeError: the tokens are not arrays of integers.
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
        report: Callable[[str], None] = print,
    ) -> None:
        self.config = config
        self.run = run
        self.tokenizer = tokenizer
        self.world = world = world or World()
        self.report = report
        check_batch_size(config, world)
        check_fast_is_chosen(config)
        if tokenizer is not None:
            check_samples(tokenizer, config)
        for name, tokens in (("training", train_tokens), ("validation", valid_tokens)):
            check_tokens(name, tokens, config.model.context_length, config.model.vocab_size)
        components = build_components(config, world)
        self.device = components.device
        self.model = components.model
        self.optimizer = components.optimizer
        self.loss_module = components.loss_module
        self.loss_of = components.loss_of
        self.batches = BatchLoader(
            train_tokens,
            config.batch_size,
            config.model.context_length,
            self.device,
            lambda step: step_generator(config.seed, step),
            share=(world.rank, world.size),
        )
        self.evaluation = Evaluation(config, valid_tokens, tokenizer)
        self.divergence = DivergenceCheck(run, config.schedule.max_learning_rate)
        self.peak_flops = peak_flops(device_name(self.device), config.precision)
        self.stop = StopSignals()
        self.loggers: Sequence[Logger] = ()
        """Receive each row of metrics as well."""
        self.step = 0
        """Optimizer steps taken so far."""
        self.best_val_loss = math.inf
        self.seconds_before = 0.0
        """Wall-clock time of this run's earlier sessions."""

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
        self.clock = Clock(self.seconds_before)
        progress = Progress(self.step, config.max_steps, self.say, self.world.is_first)

        with self.stop, exact_arithmetic(self.device, config.deterministic), progress:
            if self._evaluation_is_missing():  # stopped after a checkpoint, before its evaluation
                self._evaluate_and_record(self.step)

            for step in range(self.step + 1, config.max_steps + 1):
                self.clock.start_step()
                learning_rate = self._set_learning_rate(step)
                loss = self._compute_gradients(step)
                grad_norm = clip_gradients_foreach(
                    self.model.parameters(), config.optimizer.max_grad_norm
                )
                self.divergence.add(step, loss, grad_norm)
                if self._may_wait_for_device(step):
                    self.divergence.check()  # before the step is taken
                self.optimizer.step()
                self.step = step
                self.clock.end_step()

                if self._row_is_due(step):
                    row = {
                        "step": step,
                        "tokens": self._tokens_in(step),
                        "train_loss": float(loss),
                        "lr": learning_rate,
                        "grad_norm": float(grad_norm),
                    }
                    timing = self._timing()
                    self._record(row, timing)
                    progress.show({**row, **timing})
                progress.update()

                # The checkpoint comes before the evaluation, so that an evaluation that fails
                # does not cost the steps before it.
                stopping = self._is_stopping()
                if self._checkpoint_is_due(step) or stopping:
                    self.save()
                    if self.world.is_first:  # where the clock of a resumed run starts
                        self.run.append_checkpoint_time(step, self.clock.seconds())
                if stopping:
                    raise self._interruption()
                if self._evaluation_is_due(step):
                    self._evaluate_and_record(step)

        return self._result()

    # One step.

    def _set_learning_rate(self, step: int) -> float:
        """Set the learning rate of a step (steps count from 1) in the optimizer, and return it."""
        learning_rate = scheduled_learning_rate(step, self.config.schedule, self.config.max_steps)
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate
        return learning_rate

    def _compute_gradients(self, step: int) -> Tensor:
        """Compute the gradients of a step's batch, and return its mean loss (a scalar tensor)."""
        inputs, targets = self._batch(step)
        loss = torch.zeros((), device=self.device)
        self.optimizer.zero_grad()
        for number, (x, y) in enumerate(zip(inputs, targets, strict=True), start=1):
            with self._exchange_gradients(last=number == len(inputs)):
                micro_loss = self.loss_of(x, y) / self.config.accumulation
                torch.autograd.backward(micro_loss)
            loss += micro_loss.detach()
        return self.world.mean(loss)

    def _batch(self, step: int) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
        """Return this process's inputs and targets of a step, each cut into micro-batches.

        The batch of a step is drawn whole, so it does not depend on how it is cut.
        """
        x, y = self.batches.batch(step, ahead=step < self.config.max_steps)
        return x.chunk(self.config.accumulation), y.chunk(self.config.accumulation)

    def _exchange_gradients(self, last: bool) -> Any:
        """With several processes: exchange gradients after the last micro-batch only."""
        return contextlib.nullcontext() if last else without_exchange(self.loss_module)

    def _may_wait_for_device(self, step: int) -> bool:
        """Return whether the host may read results of this step now.

        A GPU computes steps that the host has queued, and reading a number waits for it. So on a
        GPU several steps are checked at a time, always before one that is saved.
        """
        return self.device.type == "cpu" or self._row_is_due(step) or self._checkpoint_is_due(step)

    # What is due after a step.

    def _row_is_due(self, step: int) -> bool:
        return step % self.config.log_every == 0 or step in (1, self.config.max_steps)

    def _checkpoint_is_due(self, step: int) -> bool:
        return step % self.config.checkpoint_every == 0 or self._evaluation_is_due(step)

    def _evaluation_is_due(self, step: int) -> bool:
        return step % self.config.eval_every == 0 or step == self.config.max_steps

    def _evaluation_is_missing(self) -> bool:
        rows = self.run.read_metrics()
        done = any("val_loss" in row and row["step"] == self.step for row in rows)
        return self.step > 0 and self._evaluation_is_due(self.step) and not done

    def _is_stopping(self) -> bool:
        """Return whether one of the processes received a signal to stop."""
        return self.world.any(self.stop.signal_number is not None)

    def _interruption(self) -> TrainingInterrupted:
        return TrainingInterrupted(self.stop.signal_number or signal.SIGTERM, self.step)

    # Evaluations and checkpoints.

    def evaluate(self) -> tuple[float, float | None]:
        """Return the mean validation loss in nats per token, and bits per byte; see `Evaluation`.

        Raises:
            TrainingInterrupted: in `fit`, after Ctrl-C or SIGTERM. The checkpoint of this step was
                saved before, and a resumed run begins with this evaluation.
        """

        def stop_if_asked() -> None:
            if self._is_stopping():
                raise self._interruption()

        return self.evaluation.run(
            self.model, self.loss_of, self.device, self.world, before_batch=stop_if_asked
        )

    def sample(self, step: int) -> str:
        """Return a text sampled from the model: the same one for the same weights and step."""
        assert self.tokenizer is not None
        return sample_text(self.model, self.tokenizer, self.config, step)

    def _evaluate_and_record(self, step: int) -> None:
        """Evaluate, mark the best checkpoint, sample, and write the row of metrics."""
        val_loss, bits_per_byte = self.evaluate()
        self.divergence.check_validation(step, val_loss)
        row, line = evaluation_row(step, self._tokens_in(step), val_loss, bits_per_byte)
        self.say(line)
        improved = val_loss < self.best_val_loss
        self.best_val_loss = min(val_loss, self.best_val_loss)
        if improved and self.world.is_first:
            self.run.mark_best(step, val_loss)
            self._remove_old_checkpoints()
        if self.tokenizer is not None and self.config.sample_tokens > 0:
            text = self.sample(step)  # in all processes: a sharded model needs them
            if self.world.is_first:
                with atomic_writer(self.run.sample(step), "w") as file:
                    file.write(text + "\n")
        # Last: to a resumed run this row means that all of the above was done.
        self._record(row, {"seconds": self.clock.seconds()})
        if self.world.is_first:
            plot_run(self.run)
        self.world.wait()

    def save(self) -> None:
        """Save a checkpoint of the current step.

        Raises:
            NonFiniteLossError: a step since the last check has diverged.
        """
        self.divergence.check()
        if self.world.is_first:
            # The rows up to this step must be on the disk before the checkpoint.
            self.run.sync_metrics()
            self.run.checkpoints.mkdir(exist_ok=True)
        if self.world.is_first or is_sharded(self.model):
            path = self.run.checkpoint(self.step)
            write_checkpoint(path, self.model, self.optimizer, self.step)
        if self.world.is_first:
            self._remove_old_checkpoints()

    def _remove_old_checkpoints(self) -> None:
        # A checkpoint saved for a signal replaces no other, and is removed after the next one: a
        # run that was stopped ends with the checkpoints of one that was not.
        self.run.keep_newest_checkpoints(self.config.keep_checkpoints, self._checkpoint_is_due)

    # Rows, lines and the result.

    def _tokens_in(self, steps: int) -> int:
        return steps * self.config.batch_size * self.config.model.context_length

    def _timing(self) -> dict[str, float]:
        """Return the time so far, the recent speed and, where the device's peak is known, MFU."""
        speed = self._tokens_in(1) / self.clock.seconds_per_step()
        timing = {"seconds": self.clock.seconds(), "tokens_per_second": speed}
        if self.peak_flops is not None:
            used = speed * flops_per_token(self.config.model)
            timing["mfu"] = used / (self.peak_flops * self.world.size)
        return timing

    def _record(self, row: dict[str, Any], timing: dict[str, float]) -> None:
        """Write a row of metrics, and pass it to the loggers."""
        if self.world.is_first:
            self.run.append_metrics(row, timing)
            for logger in self.loggers:
                logger.log({**row, **timing})

    def say(self, text: str) -> None:
        """Report a line, in the first process only."""
        if self.world.is_first:
            above_the_bar(self.report, text)

    def _result(self) -> TrainResult:
        if self.world.is_first:
            plot_run(self.run)  # a session that was killed may have left an older plot
        return result_of(self.run, self.step, self._tokens_in(self.step), self.best_val_loss)
