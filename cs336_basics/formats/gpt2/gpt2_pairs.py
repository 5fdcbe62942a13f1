"""A tokenizer as GPT-2's pair of files, which many programs read: vocab.json and merges.txt."""

from __future__ import annotations

from pathlib import Path

from cs336_basics.formats.agreement import Agreement, compare_ids, probe_texts
from cs336_basics.formats.gpt2.gpt2_files import gpt2_contents
from cs336_basics.formats.gpt2.vocab_files import MERGES_FILE, METADATA_FILE, VOCAB_FILE
from cs336_basics.formats.outputs import write_directory
from cs336_basics.tokenizer import Tokenizer
from cs336_basics.tokenizer.unmerged_tokens import check_merges_suffice


def write(tokenizer: Tokenizer, output: Path) -> None:
    """Write the two files; see `export_tokenizer`."""
    check_merges_suffice(tokenizer, "a program that reads the pair of files")
    contents = gpt2_contents(
        tokenizer.vocab, tokenizer.merges, tokenizer.special_tokens, tokenizer.pattern
    )
    write_directory(output, contents, [METADATA_FILE])


def check(tokenizer: Tokenizer, output: Path) -> Agreement:
    """Load the pair with tokenizers, as its GPT-2 does, and compare ids."""
    import tokenizers

    model = tokenizers.models.BPE.from_file(str(output / VOCAB_FILE), str(output / MERGES_FILE))
    theirs = tokenizers.Tokenizer(model)
    theirs.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    theirs.add_special_tokens(
        [tokenizers.AddedToken(token, normalized=False) for token in tokenizer.special_tokens]
    )
    line = compare_ids(tokenizer, lambda text: theirs.encode(text).ids, probe_texts(tokenizer))
    return Agreement(f"tokenizers {tokenizers.__version__}", (line,))
