"""`python -m cs336_basics.train`: the main job; the command is `commands/train.py`."""

import sys

from cs336_basics.commands.train import main

if __name__ == "__main__":
    sys.exit(main())
