"""The training loop. Read `Trainer.fit` first.

On a CPU with the same number of threads, a resumed run equals an uninterrupted run bit for bit.
Each step depends only on the weights, the optimizer's state, the seed and the step number: the
batch and the features that dropout removes come from generators keyed by (seed, step), the learning
rate is a function of the step, and nothing else is random after the weights are initialized.
"""

from __future__ import annotations

import contextlib
import functools
import math
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import Module
from torch.utils.data import ConcatDataset, Dataset
from tqdm import tqdm

from cs336_basics._support.errors import Argument, InputError, RunError
from cs336_basics._support.files import atomic_writer
from cs336_basics._support.messages import short_reason
from cs336_basics._support.warnings import warn
from cs336_basics.checkpoints.checkpoint import write_checkpoint
from cs336_basics.checkpoints.owner import Owner
from cs336_basics.checkpoints.run_dir import BestLoss, RunDirectory
from cs336_basics.data.checked_tokens import CheckedTokens, MixedTokens, contains
from cs336_basics.model import TransformerLM
from cs336_basics.training.clipping import clip_gradients, clip_gradients_foreach
from cs336_basics.training.config import TrainConfig
from cs336_basics.training.data import (
    AnswerRule,
    StepBatches,
    StepLoader,
    TokenArray,
    TokenWindows,
    step_seed,
)
from cs336_basics.training.devices import (
    choose_device,
    device_name,
    exact_arithmetic,
    flops_per_token,
    peak_flops,
)
from cs336_basics.training.distributed import World, replicate, shard
from cs336_basics.training.evaluation import (
    Evaluation,
    check_samples,
    evaluation_row,
    perplexity,
    sample_text,
    uncompiled,
)
from cs336_basics.training.learning_curves import plot_run
from cs336_basics.training.loggers import Logger
from cs336_basics.training.loss import LanguageModelLoss
from cs336_basics.training.mixed_evaluation import MixedEvaluation
from cs336_basics.training.owner_of_run import owner_of_run
from cs336_basics.training.products import use_onednn
from cs336_basics.training.schedule import scheduled_learning_rate
from cs336_basics.training.session import Clock, Progress, StopSignals, TrainingInterrupted

if TYPE_CHECKING:
    from cs336_basics.tokenizer import Tokenizer


class NonFiniteLossError(RunError):
    """Raised if the loss or the gradients become infinite or NaN."""


@dataclass
class TrainResult:
    """The result of a run. Losses are in nats per token. `seconds` covers all sessions."""

    step: int
    tokens: int
    seconds: float
    train_loss: float
    val_loss: float
    val_perplexity: float
    val_bits_per_byte: float | None
    best_val_loss: float
    """The lowest validation loss, on the windows of every evaluation."""
    best_step: int
    sample: str | None


class Trainer:
    """Trains a TransformerLM on arrays of tokens and writes to a run directory.

    The constructor sets torch's seed and, if `config.num_workers` is set, torch's number of
    threads. The same seed gives the same weights on every device.

    Args:
        config: Configuration of the run. `start.check_start` checks it against this machine.
        train_tokens: Token ids to train on, a one-dimensional array, or the result of
            `prepare_data`. The ids of an array are compared with the vocabulary.
        valid_tokens: Token ids for the evaluations.
        run: Directory for metrics, checkpoints, samples and the plot.
        tokenizer: Tokenizer for samples and bits per byte. None omits both. Instruction data
            requires it.
        weights: State dict that a new run starts from. The model is then evaluated before the first
            step. None draws the weights.
        world: The processes that train this model together. Each has its own Trainer.
        report: Callback invoked with each line to show.

    Raises:
        ValueError: If the tokens do not fit the model, this machine does not have the device, or
            texts cannot be sampled with the tokenizer.
        TypeError: If the token arrays do not have an integer dtype.
    """

    def __init__(
        self,
        config: TrainConfig,
        train_tokens: TokenArray | CheckedTokens | MixedTokens,
        valid_tokens: TokenArray | CheckedTokens | MixedTokens,
        run: RunDirectory,
        *,
        tokenizer: Tokenizer | None = None,
        weights: Mapping[str, Tensor] | None = None,
        world: World | None = None,
        report: Callable[[str], None] = print,
    ) -> None:
        self.config = config
        self.run = run
        self.tokenizer = tokenizer
        self.world = world or World()
        self.report = report
        if tokenizer is not None:
            check_samples(tokenizer, config)
        self.device = choose_device(config.device)
        if self.device.type == "cuda" and self.world.size > 1:
            self.device = torch.device("cuda", self.world.local_rank)  # one GPU for each process
        self.answers: AnswerRule | None = None
        if config.data.has_turns:
            if tokenizer is None:
                raise InputError(
                    ("must be given with ", Argument("data.answer_field")), argument="tokenizer"
                )
            self.answers = AnswerRule.of(tokenizer)
        self.document_start = _document_start(config, tokenizer)
        self.loader = self._load(train_tokens)
        self.evaluation: Evaluation | MixedEvaluation
        if isinstance(valid_tokens, MixedTokens):
            self.evaluation = MixedEvaluation(config, valid_tokens, tokenizer, self.answers)
        else:
            self.evaluation = Evaluation(config, valid_tokens, tokenizer, answers=self.answers)
        self._starts_from_weights = weights is not None
        self._build(weights)
        self.peak_flops = peak_flops(device_name(self.device), config.precision)
        self.stop = StopSignals(ignores_late=self.world.size > 1)
        self.loggers: Sequence[Logger] = ()
        """Loggers that also receive each row of metrics."""
        self.step = 0
        """Number of optimizer steps taken."""
        self.best = BestLoss()
        """The lowest validation loss. It decides which checkpoints are kept, and when to stop."""
        self.seconds_before = 0.0
        """Wall-clock time of this run's earlier sessions."""
        self.checks_each_step = self.device.type == "cpu"
        """Whether each step is checked for divergence before it is taken.

        Reading a number from a GPU waits for all queued work. On a GPU, several steps are therefore
        checked at once, always before a checkpoint is saved.
        """
        self._has_warned = False
        """Whether a batch without answers has been reported."""
        self._unchecked: list[tuple[int, Tensor, Tensor | float]] = []
        """Step, loss and gradient norm of each step not yet checked for divergence."""

    def _load(self, tokens: TokenArray | CheckedTokens | MixedTokens) -> StepLoader:
        config, world = self.config, self.world
        weights: tuple[float, ...] | None = None
        sequences: Sequence[TokenArray | CheckedTokens]
        if isinstance(tokens, MixedTokens):
            sequences, weights = tokens.corpora, tokens.weights
        else:
            sequences = [tokens]
        corpora = [
            TokenWindows(
                sequence,
                config.model.context_length,
                stride=1,
                vocab_size=config.model.vocab_size,
                name="train_tokens",
                answers=self.answers,
            )
            for sequence in sequences
        ]
        windows: Dataset[Any] = corpora[0] if weights is None else ConcatDataset(corpora)
        batches = StepBatches(
            list(map(len, corpora)),
            config.batch_size,
            seed=config.seed,
            num_steps=config.max_steps,
            weights=weights,
            rank=world.rank,
            world_size=world.size,
        )
        start = self.document_start
        if start is not None and self.world.is_first:
            for number, corpus in enumerate(corpora):
                if not contains(corpus.tokens, start):
                    of = f" of corpus {number + 1}" if len(corpora) > 1 else ""
                    warn(
                        f"no document starts with {config.data.document_start} in the training "
                        f"tokens{of}, so attention within documents changes nothing"
                    )
        return StepLoader(windows, batches, pin_memory=self.device.type == "cuda")

    def _build(self, weights: Mapping[str, Tensor] | None) -> None:
        """Build the model, the optimizer and the loss."""
        config, world = self.config, self.world
        if config.num_workers is not None:
            torch.set_num_threads(config.num_workers)
        torch.manual_seed(config.seed)
        # Drawing weights on the CPU gives the same weights on every device.
        self.model = TransformerLM(
            config.model, dropout=config.dropout, recompute=config.checkpoint_activations
        )
        if weights is not None:
            self.model.load_state_dict(weights)
        self.model.to(self.device)
        if config.products == "onednn":
            use_onednn(self.model)
        sharded = world.size > 1 and config.parallel == "fsdp"
        if sharded:
            shard(self.model, world, self.device, compiled=config.compile)
        whole_on_cpu = self.device.type == "cpu" and not sharded
        self._clip: Callable[..., Tensor | float] = (
            clip_gradients if whole_on_cpu else clip_gradients_foreach
        )
        self.optimizer = config.optimizer.build(
            self.model, lr=config.schedule.max_learning_rate, precision=config.precision
        )
        self.loss_module: Module = LanguageModelLoss(
            self.model,
            config.loss_chunks,
            config.precision,
            config.products,
            self.document_start,
        )
        if world.size > 1 and config.parallel == "ddp":
            self.loss_module = replicate(self.loss_module, self.device)
        self.loss_of: Callable[[Tensor, Tensor], Tensor] = self.loss_module
        if config.compile and not sharded:
            # On a CPU, the compiler's own random numbers are ten times as slow as torch's.
            options: Any = {"fallback_random": self.device.type == "cpu"}
            self.loss_of = torch.compile(self.loss_module, dynamic=False, options=options)

    @functools.cached_property
    def owner(self) -> Owner:
        """The owner of this run's checkpoints."""
        return owner_of_run(self.run, self.config, self.tokenizer)

    def fit(self) -> TrainResult:
        """Train from the current step to the last step.

        Raises:
            NonFiniteLossError: If training diverged. Checkpoints of earlier steps remain.
            TrainingInterrupted: After Ctrl-C, SIGTERM or SIGHUP, once a checkpoint has been saved.
        """
        config = self.config
        self.model.train()
        self.clock = Clock(self.seconds_before)
        progress = Progress(self.step, config.max_steps, self.say, self.world.is_first)

        with self.stop, exact_arithmetic(self.device, config.deterministic), progress:
            if self._starts_from_weights and self.step == 0:
                self._evaluate_start()
            if self._evaluation_is_missing():  # the last session stopped before evaluating
                self._evaluate_and_record(self.step)

            self.clock.start_step()
            self.loader.step = self.step
            for inputs, targets in [] if self.has_stopped() else self.loader:
                step = self.loader.step
                learning_rate = self._set_learning_rate(step)
                if config.dropout > 0:
                    torch.manual_seed(step_seed(config.seed, step, self.world.rank))
                loss = self._compute_gradients(inputs, targets)
                grad_norm = self._clip(self.model.parameters(), config.optimizer.max_grad_norm)
                self._unchecked.append((step, loss, grad_norm))
                if self.checks_each_step or self._row_is_due(step) or self._checkpoint_is_due(step):
                    self._check_steps_are_finite()  # before the step is taken
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

                # Save before the evaluation, so a failing evaluation loses no steps.
                stopping = self._is_stopping()
                if self._checkpoint_is_due(step) or stopping:
                    self._check_weights(inputs, targets)
                    self.save()
                    if self.world.is_first:  # the clock of a resumed run starts here
                        self.run.append_checkpoint_time(step, self.clock.seconds())
                if stopping:
                    raise self._interruption()
                if self._evaluation_is_due(step):
                    self._evaluate_and_record(step)
                    if self.has_stopped():
                        break
                self.clock.start_step()

        return self._result()

    # One step.

    def _set_learning_rate(self, step: int) -> float:
        """Set the optimizer's learning rate for a step and return it."""
        learning_rate = scheduled_learning_rate(step, self.config.schedule, self.config.max_steps)
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate
        return learning_rate

    def _compute_gradients(self, inputs: Tensor, targets: Tensor) -> Tensor:
        """Compute the gradients of a batch and return its mean loss, a scalar tensor.

        The mean is over the counted targets of all micro-batches and processes. Without any, the
        loss and the gradients are 0.
        """
        parts = targets.chunk(self.config.accumulation)
        counts = [float((part >= 0).sum()) for part in parts]
        total = sum(counts) * self.world.size
        if self.answers is not None:  # the processes have different numbers
            (total,) = self.world.sum([sum(counts)])
            self._warn_if_none_is_counted(total)
        micro_batches = [
            tensor.to(self.device, non_blocking=True).chunk(self.config.accumulation)
            for tensor in (inputs, targets)
        ]
        loss = torch.zeros((), device=self.device)
        self.optimizer.zero_grad()
        for number, (x, y, count) in enumerate(zip(*micro_batches, counts, strict=True), start=1):
            is_last = number == self.config.accumulation  # then DDP processes exchange gradients
            with contextlib.nullcontext() if is_last else self._without_exchange():
                # Equals `accumulation` if all targets are counted.
                divisor = total / (count * self.world.size) if count else math.inf
                micro_loss = self.loss_of(x, y) / divisor
                torch.autograd.backward(micro_loss)
            loss += micro_loss.detach()
        return self.world.mean(loss)

    def _without_exchange(self) -> contextlib.AbstractContextManager[None]:
        """Context manager that lets DDP processes keep their gradients to themselves."""
        without: Callable[[], contextlib.AbstractContextManager[None]]
        without = getattr(self.loss_module, "no_sync", contextlib.nullcontext)
        return without()

    def _warn_if_none_is_counted(self, total: float) -> None:
        if total or self._has_warned or not self.world.is_first:
            return
        self._has_warned = True
        warn(
            f"step {self.loader.step}: no token of the batch is part of an answer, so the loss is "
            "0; if this happens often, use larger batches, or a context that is longer than most "
            "prompts"
        )

    def _check_steps_are_finite(self) -> None:
        """Wait for the device and check all steps since the last check.

        Raises:
            NonFiniteLossError: If a loss or gradient norm is not finite.
        """
        for step, loss, grad_norm in self._unchecked:
            if not (math.isfinite(loss) and math.isfinite(grad_norm)):
                raise self._divergence(
                    step,
                    f"step {step}: the loss is {float(loss)}, the gradient norm {float(grad_norm)}",
                )
        self._unchecked.clear()

    def _check_weights(self, inputs: Tensor, targets: Tensor) -> None:
        """Check the weights after a step, before they are saved, with one sequence of its batch.

        A step with a finite loss and a finite gradient may still break the weights. They are mostly
        finite, but the next loss or gradient is not.

        Raises:
            NonFiniteLossError: If the loss or the gradient norm of the sequence is not finite.
        """
        self.optimizer.zero_grad()
        # A single sequence takes little time, but would be compiled again.
        with self._without_exchange(), uncompiled(self.config):
            loss = self.loss_module(inputs[:1].to(self.device), targets[:1].to(self.device))
            torch.autograd.backward(loss)
        loss = loss.detach()
        grad_norm = self._clip(self.model.parameters(), self.config.optimizer.max_grad_norm)
        is_finite = math.isfinite(loss) and math.isfinite(grad_norm)
        if self.world.any(not is_finite):
            raise self._divergence(
                self.step,
                f"after step {self.step}: the loss is {float(loss)}, the gradient norm "
                f"{float(grad_norm)}",
            )

    def _divergence(self, step: int, what: str) -> NonFiniteLossError:
        """Return an error that names the newest checkpoint before a step, if there is one."""
        saved = [earlier for earlier in self.run.steps_saved() if earlier < step]
        use = f"use {self.run.checkpoint(saved[-1])}, or start" if saved else "start"
        return NonFiniteLossError(
            f"{what}; training diverged",
            remedy=(
                f"{use} a new run with a longer warm-up or a smaller ",
                Argument("schedule.max_learning_rate"),
                f" (now {self.config.schedule.max_learning_rate})",
            ),
        )

    # Actions after a step.

    def _row_is_due(self, step: int) -> bool:
        return step % self.config.log_every == 0 or step in (1, self.config.max_steps)

    def _checkpoint_is_due(self, step: int) -> bool:
        return step % self.config.checkpoint_every == 0 or self._evaluation_is_due(step)

    def _evaluation_is_due(self, step: int) -> bool:
        return step % self.config.eval_every == 0 or step == self.config.max_steps

    def is_complete(self) -> bool:
        """Return whether the last step was taken and evaluated. If so, `fit` has nothing to do."""
        return self.is_last(self.step) and not self._evaluation_is_missing()

    def is_last(self, step: int) -> bool:
        """Return whether the run ends after a step. `best` must include its evaluation."""
        return step == self.config.max_steps or self.has_stopped()

    def has_stopped(self) -> bool:
        """Return whether the run ended because `stop_after_worse` evaluations were worse."""
        return self._stops_after(self.best)

    def _stops_after(self, best: BestLoss) -> bool:
        return 0 < self.config.stop_after_worse <= best.num_worse

    def _evaluation_is_missing(self) -> bool:
        rows = self.run.read_metrics()
        done = any("val_loss" in row and row["step"] == self.step for row in rows)
        return self.step > 0 and self._evaluation_is_due(self.step) and not done

    def _is_stopping(self) -> bool:
        """Return whether any process received a stop signal."""
        return self.world.any(self.stop.signal_number is not None)

    def _interruption(self) -> TrainingInterrupted:
        return TrainingInterrupted(self.stop.signal_number or signal.SIGTERM, self.step)

    # Evaluations and checkpoints.

    def evaluate(self, *, others: bool = False) -> Any:
        """Return the score on the windows of every evaluation, or on the others.

        The score is a `Score`, or a `MixedScore` for the validation data of a mixture.

        Raises:
            TrainingInterrupted: During `fit`, after Ctrl-C, SIGTERM or SIGHUP. The checkpoint of
                this step is already saved, and a resumed run starts with this evaluation.
        """

        def stop_if_asked() -> None:
            if self._is_stopping():
                raise self._interruption()

        evaluation: Any = self.evaluation
        return evaluation.run(
            evaluation.others if others else evaluation.chosen,
            self.model,
            self.loss_of,
            self.device,
            self.world,
            before_batch=stop_if_asked,
        )

    def _evaluate_start(self) -> None:
        """Evaluate the weights that the run starts from, unless an earlier session did."""
        if any(row["step"] == 0 for row in self.run.read_metrics()):
            return
        row, line = self._row_of(0, self.evaluate())
        self.say(line)
        self._record(row, {"seconds": self.clock.seconds()})
        self.world.wait()

    def _row_of(self, step: int, score: Any, chosen: Any = None) -> tuple[dict[str, Any], str]:
        """Return the row of metrics of an evaluation and its line; see `evaluation_row`."""
        answers_only = self.answers is not None
        return evaluation_row(step, self._tokens_in(step), score, chosen, answers_only)

    def _evaluate_and_record(self, step: int) -> None:
        """Evaluate the model, sample text, and write the row of metrics."""
        score = self.evaluate()
        if not math.isfinite(score.loss):
            raise self._divergence(step, f"step {step}: the validation loss is {score.loss}")
        best = self.best.after(score.loss, step)
        is_last = step == self.config.max_steps or self._stops_after(best)
        if is_last and self.evaluation.has_others:
            whole = score.plus(self.evaluate(others=True))
            row, line = self._row_of(step, whole, chosen=score)
            line += f" (all {self.evaluation.num_windows:,} windows)"
        else:
            row, line = self._row_of(step, score)
        self.best = best
        self.say(line)
        if self.has_stopped() and step < self.config.max_steps:
            self.say(
                f"step {step}: the run ends, because the lowest validation loss, "
                f"{self.best.loss:.4f}, is from {self.best.num_worse} evaluations ago (step "
                f"{self.best.step})"
            )
        if self.world.is_first:
            self.remove_old_checkpoints()
        if self.tokenizer is not None and self.config.sample_tokens > 0:
            # A sharded model must run in all processes.
            text = sample_text(self.model, self.tokenizer, self.config, step)
            if self.world.is_first:
                self._write_sample(step, text)
        # Record last, because this row tells a resumed run that the evaluation is complete.
        self._record(row, {"seconds": self.clock.seconds()})
        if self.world.is_first:
            plot_run(self.run)
        self.world.wait()

    def _write_sample(self, step: int, text: str) -> None:
        try:
            with atomic_writer(self.run.sample(step), "w") as file:
                file.write(text + "\n")
        except (OSError, InputError) as error:  # a text is worth less than the run
            warn(f"the sample of step {step} was not written: {short_reason(error)}")

    def save(self) -> None:
        """Save a checkpoint of the current step.

        Older checkpoints are removed, unless an evaluation follows, which may find that training
        diverged.

        Raises:
            NonFiniteLossError: If a step since the last check diverged.
        """
        self._check_steps_are_finite()
        if self.world.is_first:
            # The metrics of this step must reach the disk before the checkpoint.
            self.run.sync_metrics()
        path = self.run.checkpoint(self.step)
        write_checkpoint(path, self.model, self.optimizer, self.step, self.owner)
        if self.world.is_first and not self._evaluation_is_due(self.step):
            self.remove_old_checkpoints()

    def remove_old_checkpoints(self) -> None:
        """Remove all checkpoints except the last, the best and `keep_checkpoints` others."""
        # A checkpoint saved after a signal does not replace other checkpoints and is removed when
        # the next one is saved. An interrupted and an uninterrupted run thus end with the same
        # checkpoints.
        self.run.keep_checkpoints(
            self.config.keep_checkpoints, self._checkpoint_is_due, best=self.best.step
        )

    # Metrics, messages and the result.

    def _tokens_in(self, steps: int) -> int:
        return steps * self.config.batch_size * self.config.model.context_length

    def _timing(self) -> dict[str, float]:
        """Return the total time, the recent speed and, if known, the model FLOPs utilization."""
        speed = self._tokens_in(1) / self.clock.seconds_per_step()
        timing = {"seconds": self.clock.seconds(), "tokens_per_second": speed}
        if self.peak_flops is not None:
            used = speed * flops_per_token(self.config.model)
            timing["mfu"] = used / (self.peak_flops * self.world.size)
        return timing

    def _record(self, row: dict[str, Any], timing: dict[str, float]) -> None:
        """Write a row of metrics and pass it to the loggers."""
        if self.world.is_first:
            self.run.append_metrics(row, timing)
            for logger in self.loggers:
                logger.log({**row, **timing})

    def say(self, text: str) -> None:
        """Report a line of text, in the first process only."""
        if self.world.is_first:
            with tqdm.external_write_mode():  # above the progress bar
                self.report(text)

    def _result(self) -> TrainResult:
        """Return the result, read from the run's files because they also cover earlier sessions."""
        if self.world.is_first:
            plot_run(self.run)  # a killed session may have left an outdated plot
        rows = self.run.read_metrics()
        last = {name: value for row in rows for name, value in row.items()}
        sample = self.run.sample(self.step)
        return TrainResult(
            step=self.step,
            tokens=self._tokens_in(self.step),
            seconds=last.get("seconds", 0.0),
            # Missing if the checkpoint came from another run.
            train_loss=last.get("train_loss", math.nan),
            val_loss=last["val_loss"],
            val_perplexity=perplexity(last["val_loss"]),
            val_bits_per_byte=last.get("val_bits_per_byte"),
            best_val_loss=self.best.loss,
            best_step=self.best.step,
            sample=sample.read_text(encoding="utf-8") if sample.is_file() else None,
        )


def _document_start(config: TrainConfig, tokenizer: Tokenizer | None) -> int | None:
    """Return the id with which each document starts, or None if tokens attend to all earlier ones.

    Raises:
        ValueError: If the tokenizer is missing or does not have the special token.
    """
    start = config.data.document_start
    if start is None:
        return None
    if tokenizer is None:
        raise InputError(
            ("must be given with ", Argument("data.pack", "documents")), argument="tokenizer"
        )
    if start not in tokenizer.special_tokens:
        raise InputError(
            f"requires a tokenizer with the special token {start}, at which documents start",
            argument="data.pack",
        )
    return tokenizer.special_token_id(start)
