"""The `train` command in float64, in which the order of sums has no visible effect.

torchrun --nproc-per-node 4 -m tests.training.float64_train OPTIONS
"""

from __future__ import annotations

import sys

import torch

from cs336_basics.__main__ import main

if __name__ == "__main__":
    torch.set_default_dtype(torch.float64)
    sys.exit(main(["train", *sys.argv[1:]]))
