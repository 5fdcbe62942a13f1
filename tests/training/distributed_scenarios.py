"""The runs that test_distributed.py starts in two processes, each scenario in its own directory.

torchrun --nproc-per-node 2 -m tests.training.distributed_scenarios DIRECTORY
"""

from __future__ import annotations

import dataclasses
import functools
import sys
from pathlib import Path

import torch

import cs336_basics.training.trainer as trainer_module
from cs336_basics.runs.run_dir import RunDirectory
from cs336_basics.training.config import OptimizerConfig, ScheduleConfig
from cs336_basics.training.distributed import World, join_world, leave_world
from cs336_basics.training.resume import resume_run
from cs336_basics.training.trainer import Trainer
from tests.training.tiny_runs import CONFIG, TOKENIZER, TRAIN, VALID

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
# All that `speedrun` switches on; 33 rows do not divide into two equal shards.
MUON = dataclasses.replace(
    WHOLE,
    optimizer=OptimizerConfig(kind="muon"),
    model=dataclasses.replace(
        WHOLE.model,
        d_ff=33,
        qk_norm=True,
        tied_embeddings=True,
        zero_init=True,
        logit_soft_cap=15.0,
    ),
)
HALF_MUON = dataclasses.replace(MUON, max_steps=STEPS // 2)
LAYOUTS = ("ddp", "fsdp")
VARIANTS = {
    "plain": {},
    "fast": {"loss_chunks": 3, "fused_optimizer": True, "accumulation": 2},
    "small": {"checkpoint_activations": True},
    "compiled": {"compile": True},
}


def train(path: Path, config, world: World | None = None) -> None:
    """Train, or resume the run in the directory."""
    run = RunDirectory(path)
    run.path.mkdir(parents=True, exist_ok=True)
    trainer = Trainer(
        config, TRAIN, VALID, run, tokenizer=TOKENIZER, world=world, report=lambda line: None
    )
    resume_run(trainer)
    trainer.fit()


def main(directory: Path) -> None:
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)  # so that only errors show, not the order of sums
    trainer_module.plot_run = lambda run: None
    # It traces and builds the graph, without a minute of code generation.
    torch.compile = functools.partial(torch.compile, backend="eager")
    torch._dynamo.config.fail_on_recompile_limit_hit = True  # by a shape that always changes
    world = join_world("cpu")
    for layout in LAYOUTS:
        for variant, values in VARIANTS.items():
            config = dataclasses.replace(WHOLE, parallel=layout, **values)
            train(directory / f"{layout}-{variant}", config, world)
        train(directory / f"{layout}-muon", dataclasses.replace(MUON, parallel=layout), world)
        # From one process to two, and the first half of the way from two to one.
        for name, whole, half in (("", WHOLE, HALF), ("-muon", MUON, HALF_MUON)):
            there, back = f"single-to-{layout}{name}", f"{layout}-to-single{name}"
            train(directory / there, dataclasses.replace(whole, parallel=layout), world)
            train(directory / back, dataclasses.replace(half, parallel=layout), world)
    leave_world()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
