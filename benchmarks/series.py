"""What the public series behind the staged trainers measured, for comparison.

OpenWebText, 11.9 GB, 32,000 tokens, GPT-2's split pattern, on a server of 64 cores; the author's
own figures.
"""

SERIES = (
    ("everything counted again at every merge", "more than 24 h"),
    ("incremental counts", "34,000 - 36,000 s"),
    ("processes for counting", "32,352 s"),
    ("a heap", "1,036 s"),
    ("Cython", "900 s"),
    ("C++ with hash maps", "350 s"),
    ("C++ with a heap", "206 - 258 s"),
)
