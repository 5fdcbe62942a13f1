"""The training runs for test_distributed.py, each in two processes and in its own directory.

python -m tests.training.distributed_scenarios DIRECTORY NAME ...

The processes are forked with the variables that torchrun sets, because torchrun and each of its
processes would import torch again.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import socket
import sys
from pathlib import Path

import torch

import cs336_basics.training.trainer as trainer_module
from cs336_basics.checkpoints.run_dir import RunDirectory
from cs336_basics.data.checked_tokens import MixedTokens
from cs336_basics.training.config import ScheduleConfig
from cs336_basics.training.distributed import World, join_world, leave_world
from cs336_basics.training.optimizers import MuonSettings
from cs336_basics.training.products import has_onednn
from cs336_basics.training.start import Resumption, resume_run
from cs336_basics.training.trainer import Trainer
from tests.numerics import default_dtype
from tests.training import tiny_runs
from tests.training.tiny_runs import (
    CONFIG,
    SHORT_IDS,
    TOKENIZER,
    TRAIN,
    TURN_IDS,
    TURNS,
    TURNS_TOKENIZER,
    VALID,
)

STEPS = 8
WHOLE = dataclasses.replace(
    CONFIG,
    max_steps=STEPS,
    log_every=1,
    eval_every=STEPS // 2,
    checkpoint_every=STEPS // 2,
    model=dataclasses.replace(CONFIG.model, num_layers=2),
    schedule=ScheduleConfig(max_learning_rate=1e-2, warmup_fraction=0.2, cycle_steps=STEPS),
)
HALF = dataclasses.replace(WHOLE, max_steps=STEPS // 2)
# All options of `speedrun`, and bigrams. With d_ff = 33 and 37 bigrams, rows cannot be split into
# two equal shards.
MUON = dataclasses.replace(
    WHOLE,
    optimizer=MuonSettings(row_beta=0.95),
    model=dataclasses.replace(
        WHOLE.model,
        d_ff=33,
        qk_norm=True,
        tied_embeddings=True,
        zero_init=True,
        logit_soft_cap=15.0,
        bigram_rows=37,
    ),
)
HALF_MUON = dataclasses.replace(MUON, max_steps=STEPS // 2)
ONEDNN = dataclasses.replace(MUON, products="onednn", sample_tokens=0)  # runs in float32
DROPOUT = dataclasses.replace(ONEDNN if has_onednn() else MUON, dropout=0.2)
# The micro-batches and the processes have different numbers of counted targets.
ANSWERS = dataclasses.replace(WHOLE, data=TURNS.data, model=TURNS.model, accumulation=2)
PACKED = dataclasses.replace(WHOLE, data=tiny_runs.PACKED.data, accumulation=2)
RESUMED = "-resumed"  # ending of the name of a run that stops in the middle and continues
LAYOUTS = ("ddp", "fsdp")
VARIANTS = {
    "plain": {},
    "fast": {
        "loss_chunks": 3,
        "optimizer": dataclasses.replace(WHOLE.optimizer, fused=True),
        "accumulation": 2,
    },
    "small": {"checkpoint_activations": True},
    "compiled": {"compile": True},
}
# Maps names to configurations. Complete runs come first. Then come runs with AdamW and with Muon
# that either continue a first half trained by one process or train only the first half.
SCENARIOS = {
    **{
        f"{layout}-{variant}": dataclasses.replace(WHOLE, parallel=layout, **values)
        for layout in LAYOUTS
        for variant, values in VARIANTS.items()
    },
    **{
        f"{layout}-{name}": dataclasses.replace(config, parallel=layout)
        for layout in LAYOUTS
        for name, config in (
            ("muon", MUON),
            ("onednn", ONEDNN),
            ("dropout", DROPOUT),
            (f"dropout{RESUMED}", DROPOUT),
            ("mixed", WHOLE),
            (f"mixed{RESUMED}", WHOLE),
            ("answers", ANSWERS),
            (f"answers{RESUMED}", ANSWERS),
            ("packed", PACKED),
            (f"packed{RESUMED}", PACKED),
        )
    },
    **{
        name: dataclasses.replace(config, parallel=layout)
        for layout in LAYOUTS
        for ending, whole, half in (("", WHOLE, HALF), ("-muon", MUON, HALF_MUON))
        for name, config in (
            (f"single-to-{layout}{ending}", whole),
            (f"{layout}-to-single{ending}", half),
        )
    },
}
# These cover each layout, optimizer and direction of resuming. All others are slow tests.
QUICK = (
    "ddp-fast",
    "fsdp-plain",
    "fsdp-muon",
    "single-to-fsdp",
    "fsdp-to-single",
)


def mixed(tokens):
    """Return a mixture of two unequal halves of the tokens."""
    middle = len(tokens) // 3
    return MixedTokens(("a", "b"), (0.8, 0.2), (tokens[:middle], tokens[middle:]))


def train(path: Path, config, world: World | None = None) -> None:
    """Train a new run in the directory, or resume the run that is there."""
    run = RunDirectory(path)
    run.path.mkdir(parents=True, exist_ok=True)
    data = [mixed(TRAIN), mixed(VALID)] if "mixed" in path.name else [TRAIN, VALID]
    tokenizer = TOKENIZER
    if config.data.has_turns:
        data, tokenizer = [TURN_IDS, TURN_IDS[:300]], TURNS_TOKENIZER
    elif config.data.pack == "documents":
        data = [SHORT_IDS, SHORT_IDS[:300]]
    trainer = Trainer(
        config, *data, run, tokenizer=tokenizer, world=world, report=lambda line: None
    )
    resume_run(trainer, Resumption())
    trainer.fit()


def run_scenarios(directory: Path, names: list[str]) -> None:
    trainer_module.plot_run = lambda run: None
    # The eager backend traces the graph but skips code generation, which takes a minute.
    torch.compile = functools.partial(torch.compile, backend="eager")
    torch._dynamo.config.fail_on_recompile_limit_hit = True  # fail if a shape keeps changing
    world = join_world("cpu")
    for name in names:
        config = SCENARIOS[name]
        # In float64, differences in the order of sums are negligible. oneDNN has only float32.
        with default_dtype("float32" if config.products == "onednn" else "float64"):
            if name.endswith(RESUMED):
                half = dataclasses.replace(config, max_steps=STEPS // 2)
                train(directory / name, half, world)
            train(directory / name, config, world)
    world.finish()
    leave_world()


def main(directory: Path, names: list[str]) -> None:
    # Import before forking what the processes would import.
    import torch._dynamo
    import torch.distributed.fsdp

    torch.set_num_threads(1)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": "2"}
    children = []
    for rank in ("0", "1"):
        if child := os.fork():
            children.append(child)
            continue
        os.environ |= {"RANK": rank, "LOCAL_RANK": rank}
        run_scenarios(directory, names)
        return
    statuses = [os.waitpid(child, 0)[1] for child in children]
    assert statuses == [0, 0]


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
