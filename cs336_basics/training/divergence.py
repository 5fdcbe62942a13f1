"""Losses and gradients that are not finite: found before anything of them is saved."""

from __future__ import annotations

import math

from torch import Tensor

from cs336_basics.checkpoints.run_dir import RunDirectory


class NonFiniteLossError(RuntimeError):
    """The loss or the gradients became infinite or NaN."""


class DivergenceCheck:
    """Collects the loss and gradient norm of each step until they are checked.

    Args:
        run: the directory that the message names checkpoints of.
        max_learning_rate: the learning rate that the message names.
    """

    def __init__(self, run: RunDirectory, max_learning_rate: float) -> None:
        self._run = run
        self._advice = (
            "In a new run, try a longer warm-up or a smaller schedule.max_learning_rate (now "
            f"{max_learning_rate})"
        )
        self._unchecked: list[tuple[int, Tensor, Tensor]] = []

    def add(self, step: int, loss: Tensor, grad_norm: Tensor) -> None:
        """Add a step, without waiting for the device that computes it."""
        self._unchecked.append((step, loss, grad_norm))

    def check(self) -> None:
        """Check the steps since the last check; waits for the device.

        Raises:
            NonFiniteLossError: naming the first bad step.
        """
        for step, loss, grad_norm in self._unchecked:
            if not (math.isfinite(loss) and math.isfinite(grad_norm)):
                raise NonFiniteLossError(
                    f"step {step}: the loss is {float(loss)}, the gradient norm "
                    f"{float(grad_norm)}: training diverged. The diverged state was not saved; the "
                    f"newest checkpoint is {self._run.newest_checkpoint() or 'none'}. "
                    f"{self._advice}"
                )
        self._unchecked.clear()

    def check_validation(self, step: int, val_loss: float) -> None:
        """Check the validation loss of a step.

        Raises:
            NonFiniteLossError: naming the step.
        """
        if not math.isfinite(val_loss):
            raise NonFiniteLossError(
                f"step {step}: the validation loss is {val_loss}: training diverged, and the "
                "weights of this step cannot be used. Use an earlier checkpoint in "
                f"{self._run.checkpoints}. {self._advice}"
            )
