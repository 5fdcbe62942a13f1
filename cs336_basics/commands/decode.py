"""`python -m cs336_basics decode`: the text of a token file, or of ids in a text."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cs336_basics._support.files import atomic_writer
from cs336_basics._support.messages import short_repr
from cs336_basics._support.validation import Checked, option
from cs336_basics.commands._cli import show
from cs336_basics.commands._inputs import STDIN, STDOUT, saved_stdin
from cs336_basics.commands._options import TOKENIZER, Command
from cs336_basics.commands._outputs import check_output

if TYPE_CHECKING:
    from cs336_basics.tokenizer.ids import TokenArray
    from cs336_basics.tokenizer.tokenizer import Tokenizer

_IDS_AT_A_TIME = 1 << 16
_LONGEST_ID = 100  # characters
_MAGIC = b"\x93NUMPY"


@dataclass(kw_only=True)
class Options(Checked):
    """Turn ids back into the bytes of their text, without anything between them."""

    tokenizer: str = TOKENIZER
    input: str = option(
        "token file that encode wrote, or a text of ids with white space between them; - is "
        "standard input",
        metavar="FILE",
    )
    output: str = option("file to write; - prints the text", STDOUT, metavar="FILE")
    overwrite: bool = option("replace an output that exists", False)


def decode(options: Options) -> None:
    """Write the text of the ids."""
    from cs336_basics.tokenizer import Tokenizer
    from cs336_basics.tokenizer.tokenizer import files_of_tokenizer

    path = saved_stdin() if options.input == STDIN else options.input
    tokenizer = Tokenizer.from_directory(options.tokenizer)
    with contextlib.ExitStack() as files:
        write: Callable[[bytes], object] = show
        if options.output != STDOUT:
            inputs = [path, *files_of_tokenizer(options.tokenizer)]
            check_output("--output", options.output, options.overwrite, inputs)
            write = files.enter_context(atomic_writer(options.output)).write
        for ids in _ids_of(path, tokenizer):
            write(tokenizer.decode_bytes(ids))


def _ids_of(path: str, tokenizer: Tokenizer) -> Iterator[TokenArray | Sequence[int]]:
    """Yield the ids of a token file or a text, some at a time.

    Raises:
        ValueError: it is damaged, of another tokenizer, or has a word that is no id.
    """
    from cs336_basics._support.reading import open_regular
    from cs336_basics.tokenizer.files.token_files import open_token_file

    with open_regular(path) as file:
        if file.read(len(_MAGIC)) == _MAGIC:
            tokens = open_token_file(path, tokenizer_hash=tokenizer.hash()).tokens
            for start in range(0, len(tokens), _IDS_AT_A_TIME):
                yield tokens[start : start + _IDS_AT_A_TIME]
            return
        file.seek(0)
        number, rest = 0, b""
        while block := file.read(_IDS_AT_A_TIME):
            words = (rest + block).split()
            rest = words.pop() if words and not block[-1:].isspace() else b""
            yield _parsed(words, path, number)
            number += len(words)
            if len(rest) > _LONGEST_ID:
                break
        yield _parsed([rest] if rest else [], path, number)


def _parsed(words: list[bytes], path: str, number: int) -> list[int]:
    """Return words as ids; `number` is how many are before them."""
    ids: list[int] = []
    for word in words:
        if not word.isdigit() or len(word) > _LONGEST_ID:
            raise ValueError(
                f"{path} has {short_repr(word.decode('utf-8', 'replace'))} as word "
                f"{number + len(ids) + 1:,}, which is not an id: name a token file or a text of ids"
            )
        ids.append(int(word))
    return ids


COMMAND = Command(
    "decode",
    Options,
    decode,
    "decode --tokenizer tokenizers/my --input data/my.npy",
    "decode --tokenizer tokenizers/my --input - --output my.txt",
)
