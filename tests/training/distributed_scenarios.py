"""What test_distributed.py lets two processes do: each scenario is a run in a directory of its own.

torchrun --nproc-per-node 2 -m tests.training.distributed_scenarios DIRECTORY
"""

from __future__ import annotations

import dataclasses
import functools
import sys
from pathlib import Path

import torch

from cs336_basics.training.config import ScheduleConfig
from cs336_basics.training.distributed import World, join_world, leave_world
from cs336_basics.training.run_dir import RunDirectory
from cs336_basics.training.trainer import Trainer
from tests.training.test_trainer import CONFIG, TOKENIZER, TRAIN, VALID

STEPS = 12
WHOLE = dataclasses.replace(
    CONFIG,
    max_steps=STEPS,
    log_every=1,
    eval_every=6,
    checkpoint_every=6,
    schedule=ScheduleConfig(max_learning_rate=1e-2, warmup_fraction=0.2, cycle_steps=STEPS),
)
HALF = dataclasses.replace(WHOLE, max_steps=STEPS // 2)
LAYOUTS = ("ddp", "fsdp")
VARIANTS = {
    "plain": {},
    "fast": {"loss_chunks": 3, "fused_optimizer": True, "accumulation": 2},
    "small": {"checkpoint_activations": True},
    "compiled": {"compile": True},
}


def train(path: Path, config, world: World | None = None) -> None:
    """Train, or go on with what is in the directory."""
    run = RunDirectory(path)
    run.path.mkdir(parents=True, exist_ok=True)
    trainer = Trainer(
        config, TRAIN, VALID, run, tokenizer=TOKENIZER, world=world, report=lambda line: None
    )
    trainer.resume()
    trainer.fit()


def main(directory: Path) -> None:
    torch.set_num_threads(1)
    RunDirectory.plot_losses = lambda run: None
    # Its own tracing and graph, without the minute that code generation takes.
    torch.compile = functools.partial(torch.compile, backend="eager")
    world = join_world("cpu")
    for layout in LAYOUTS:
        for variant, values in VARIANTS.items():
            config = dataclasses.replace(WHOLE, parallel=layout, **values)
            train(directory / f"{layout}-{variant}", config, world)
        # From one process to two, and the first half of the way from two to one.
        train(directory / f"single-to-{layout}", dataclasses.replace(WHOLE, parallel=layout), world)
        train(directory / f"{layout}-to-single", dataclasses.replace(HALF, parallel=layout), world)
    leave_world()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
