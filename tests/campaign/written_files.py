"""Train, count, encode and export a small text: `python -m tests.campaign.written_files FOLDER`.

The row `other-platforms` compares the files that two platforms write. The script needs only the
package, NumPy and `regex`, so it runs where no wheels exist.
"""

from __future__ import annotations

import sys
from pathlib import Path

from cs336_basics import TRAINERS, Tokenizer, train_bpe
from cs336_basics.counting import count_words
from cs336_basics.data.datasets.sample import write_sample
from cs336_basics.formats import TOKEN_FORMATS, export_tokenizer, export_tokens
from cs336_basics.splitting import Splitter
from cs336_basics.text import Corpus
from cs336_basics.tokenizer import (
    count_token_file,
    encode_file,
    load_token_file,
    translate_token_file,
)

SPECIAL = "<|endoftext|>"
TEXTS = [
    f"It's 1234 o'clock.\r\n\n\tÜber e\u0301 naïve Käse{SPECIAL}; Ёлка и ёжик",
    "猫は鼠 🎉👩\u200d👧 \U0010ffff",
    "\x00\ufeff\ufffd " + "a" * 300 + " " * 70 + "\u0301\u0323" * 40,
]


def main(folder: Path) -> None:
    """Write the files into a new folder. Raise AssertionError if one is not read back equally."""
    folder.mkdir()
    source = write_sample(folder / "text.txt", 12_000)
    source.write_bytes(source.read_bytes() + "".join(TEXTS).encode() + b"\xff\xe7\x8c")
    names = [name for name in ("heap", "native") if TRAINERS[name].is_built]
    learned = [train_bpe(source, 350, [SPECIAL], trainer=name, num_workers=1) for name in names]
    assert all(result == learned[0] for result in learned)
    tokenizer = Tokenizer(*learned[0], [SPECIAL], normalizer="NFC")
    corpus = Corpus.of([str(source)])
    counts = count_words(corpus, Splitter("gpt2", [SPECIAL], "NFC"), num_workers=1)
    counts.save(folder / "counts.npz")
    counts.scaled(1.5).save(folder / "scaled.npz")
    encode_file(tokenizer, corpus, folder / "ids.npy", num_workers=1, document_starts=True)
    for to in TOKEN_FORMATS:
        export_tokens(
            folder / "ids.npy",
            to,
            folder / f"ids-{to}.bin" if to != "megatron" else folder / "megatron",
        )
    ids = [i for text in TEXTS for i in tokenizer.encode(text)]
    read = load_token_file(folder / "ids.npy").tolist()
    assert tokenizer.encode("".join(TEXTS)) == ids
    assert (
        tokenizer.encode_batch([*TEXTS, source.read_bytes().decode(errors="replace")])[-1] == read
    )
    assert tokenizer(TEXTS, truncation=True, max_length=9)["input_ids"] == [
        tokenizer.encode(text)[:9] for text in TEXTS
    ]
    extended = Tokenizer(*learned[0], [SPECIAL, "<|more|>"], normalizer="NFC")
    translate_token_file(folder / "ids.npy", folder / "translated.npy", tokenizer, extended)
    assert load_token_file(folder / "translated.npy").tolist() == read
    assert count_token_file(tokenizer, folder / "ids.npy").sum() == len(read)
    tokenizer.save(folder / "tokenizer")
    assert Tokenizer.from_pretrained(folder / "tokenizer").encode(TEXTS[0]) == tokenizer.encode(
        TEXTS[0]
    )
    for to in ("gpt2", "huggingface", "tiktoken"):
        plain = Tokenizer(*learned[0], [SPECIAL])
        export_tokenizer(plain, to, folder / to)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
    print(f"{sys.byteorder}-endian, {sys.maxsize.bit_length() + 1} bits", end="")
