"""Exercise 4: cut a chunk safely.

To count a file in parallel, each process reads a chunk of it. The function below cuts exactly at
the target, even inside words and characters. Move the cut to an offset where the split pattern of
GPT-2 always ends a pre-token, whatever the rest of the text is. There are no special tokens here.

Test: `pytest exercises/test_ex4_cut.py`. Solution: `next_cut` in
cs336_basics/text/chunking.py, with the rule in splitting/safe_cuts.py.
"""

import io


def next_cut(file: io.BytesIO, target: int) -> int:
    """Return an offset at or after `target` where a cut does not change any pre-token.

    The end of the file is always such an offset.
    """
    return target
