"""Run the `train` command as `python -m cs336_basics.train`; see `commands/train.py`."""

import sys

from cs336_basics.__main__ import main

if __name__ == "__main__":
    sys.exit(main(["train", *sys.argv[1:]]))
