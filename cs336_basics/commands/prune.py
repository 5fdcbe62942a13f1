"""`python -m cs336_basics prune`: reduce a tokenizer to its most frequent tokens."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

from cs336_basics._support.files import atomic_writer, check_is_free
from cs336_basics._support.validation import option
from cs336_basics.commands._cli import say
from cs336_basics.commands._options import TOKENIZER, Command, TextOptions, UsageError
from cs336_basics.commands._outputs import check_output, say_kept


@dataclass(kw_only=True)
class Options(TextOptions):
    """Shrink a tokenizer to the most frequent tokens in a text.

    Single bytes, special tokens and the parts of kept tokens are kept as well. Alternatively,
    --residue removes only tokens that the text does not need, without changing its ids.
    """

    tokenizer: str = TOKENIZER
    output: str = option("directory to write", metavar="DIR")
    vocab_size: int | None = option("number of tokens to keep", None)
    residue: bool = option(
        "instead of --vocab-size, remove tokens that the text contains only as steps on the way to "
        "longer tokens, if no id of the text changes",
        False,
    )
    keep_files: bool = option(
        "copy the chat templates and the tokenizer_config.json from the tokenizer's directory, too",
        False,
    )
    id_map: str | None = option(
        "also write an int64 array that maps old ids to new ids, with -1 for removed tokens",
        None,
        metavar="FILE.npy",
    )


def prune(options: Options) -> None:
    """Prune the tokenizer, save it, and print the new size."""
    import numpy as np

    from cs336_basics.formats.huggingface.tokenizer_json import files_of_tokenizer
    from cs336_basics.tokenizer import Tokenizer, without_residue
    from cs336_basics.tokenizer import prune as pruned_tokenizer

    if (options.vocab_size is None) != options.residue:
        raise UsageError("give either --vocab-size or --residue")
    corpus = options.corpus()
    inputs = [*corpus.files, *files_of_tokenizer(options.tokenizer)]
    check_output("id_map", options.id_map, options.overwrite, inputs, options.output, ending=".npy")
    check_is_free(options.output, options.overwrite)
    tokenizer = Tokenizer.from_directory(options.tokenizer)
    only_whole: list[bytes] = []
    if options.vocab_size is None:
        pruned, id_map, only_whole = without_residue(
            tokenizer, corpus, num_workers=options.num_workers
        )
    else:
        pruned, id_map = pruned_tokenizer(
            tokenizer, options.vocab_size, corpus, num_workers=options.num_workers
        )
    with contextlib.ExitStack() as files:
        # Replace an old map only after the tokenizer is saved.
        if options.id_map is not None:
            np.save(files.enter_context(atomic_writer(options.id_map)), id_map)
        pruned.save(options.output, keep_files=options.keep_files)
    if options.id_map is not None:
        say(f"id map     {options.id_map}")
    say_kept(tokenizer, options.keep_files)
    say(f"tokens     {len(pruned):,} of {len(tokenizer):,}")
    say(f"merges     {len(pruned.merges):,} of {len(tokenizer.merges):,}")
    if options.residue:
        say(
            "ids        unchanged, except in text with a removed token, or with one of "
            f"{len(only_whole):,} tokens next to another one in a pre-token; the input has no such "
            "text"
        )
    say(f"written to {options.output}")


COMMAND = Command(
    "prune",
    Options,
    prune,
    "prune --tokenizer tokenizers/my --input my.txt --vocab-size 8000 --output tokenizers/small",
    "prune --tokenizer tokenizers/my --input my.txt --residue --output tokenizers/small",
)
