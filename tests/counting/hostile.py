"""A difficult text, and its word counts according to the reference splitter."""

from collections import Counter

from cs336_basics.splitting import Splitter, reference, splitter

EOT = "<|endoftext|>"

SPLITTER = Splitter(special_tokens=[EOT])

HOSTILE = (
    (
        "\ufeffA byte order mark, a NUL \0, and\r\nWindows\r\nline ends.\n\n\n"
        f"{EOT}{EOT}It's the dogs' bone, isn't it? 12,345.67 €  \t end {EOT}\n"
        f"好的，我们走吧。　全角空格\u3000 \u2003\n\x85 x\xa0 y {EOT[:-1]} {EOT[1:]}"
        f"{EOT}\u3000 z!\n\n a"
        "नमस्ते दुनिया 🙂👩‍👩‍👧 e\u0301\n"
    ).encode()
    * 12
    + b"\xff\xe2\x80 broken \xc3"
    + EOT.encode()
    + b"\x80 tail \xf0\x9f"
)


def expected_counts(data, special_tokens=(EOT,), pattern="gpt2"):
    """Count the pre-tokens in a text without dividing it into chunks."""
    counts = Counter()
    for text, is_special in splitter.split_special_tokens(
        data.decode("utf-8", "replace"), special_tokens
    ):
        if not is_special:
            counts.update(word.encode() for word in reference.pretokenize(text, pattern))
    return counts
