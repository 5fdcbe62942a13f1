"""Exercise 4: cut a chunk safely.

A file is counted in parallel: each process gets a chunk of it. The function below cuts where it is
told to, through words and even through characters. Move the cut to where the split pattern of GPT-2
always ends a pre-token, whatever else is in the text. (No special tokens here.)

Test: `pytest exercises/test_ex4_cut.py`. Solution: `next_cut` in
cs336_basics/pretokenization/reading/chunking.py, with the rule in pretokenization/safe_cuts.py.
"""

import io


def next_cut(file: io.BytesIO, target: int) -> int:
    """Return an offset at or after `target` where the pre-tokens on both sides stay as they are.

    The end of the file always is one.
    """
    return target
