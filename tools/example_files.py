"""Write a small example of every file that this library reads again.

`python -m tools.example_files DIRECTORY` wrote `tests/files/VERSION/` when VERSION was released. A
test reads these files with the current code, so later versions read the files of earlier ones.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch

from cs336_basics.__main__ import main
from cs336_basics.counting import count_texts
from cs336_basics.data.datasets import write_sample
from cs336_basics.splitting import Splitter
from cs336_basics.training import AdamW, save_checkpoint

END = "<|endoftext|>"
RUN = """
train --max-steps 2 --batch-size 2 --eval-every 2 --eval-windows 8 --checkpoint-every 2
--sample-tokens 4 --device cpu --seed 0 --data.sample-bytes 20000
--model.vocab-size 300 --model.context-length 16 --model.d-model 16 --model.num-layers 1
--model.num-heads 2 --model.d-ff 32
"""


def write(directory: Path) -> None:
    """Write all examples to a new directory.

    Args:
        directory: Where to write `text.txt`, and from it `tokenizer/`, `tokens.npy`, `counts.npz`,
            `checkpoint.pt` (CS336's kind of checkpoint) and `run/`.
    """
    text = write_sample(directory / "text.txt", 2000)
    tokenizer = directory / "tokenizer"
    run(
        "train-bpe", "--input", text, "--vocab-size", 280, "--special-token", END,
        "--output", tokenizer,
    )  # fmt: skip
    run(
        "encode", "--tokenizer", tokenizer, "--input", text, "--document-starts",
        "--output", directory / "tokens.npy",
    )  # fmt: skip
    splitter = Splitter(special_tokens=[END])
    count_texts([text.read_text(encoding="utf-8")], splitter).save(directory / "counts.npz")
    model = linear_model()
    save_checkpoint(model, AdamW(model.parameters()), 7, directory / "checkpoint.pt")
    run(*RUN.split(), "--run-dir", directory / "run")
    for name in ("loss.png", ".lock"):  # no command reads them
        (directory / "run" / name).unlink(missing_ok=True)


def linear_model() -> torch.nn.Module:
    """Return the model of `checkpoint.pt`."""
    torch.manual_seed(0)
    return torch.nn.Linear(2, 3)


def run(*words: object) -> None:
    """Run a command of the library in this process."""
    status = main([str(word) for word in words])
    if status:
        raise SystemExit(status)


if __name__ == "__main__":
    write(Path(sys.argv[1]))
