"""`python -m cs336_basics decode`: decode a token file, or ids written as text."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cs336_basics._support.errors import InputError
from cs336_basics._support.files import atomic_writer
from cs336_basics._support.messages import short_repr
from cs336_basics._support.validation import Checked, option
from cs336_basics.commands._cli import show
from cs336_basics.commands._inputs import STDIN, STDOUT, saved_stdin
from cs336_basics.commands._options import OVERWRITE, TOKENIZER, Command
from cs336_basics.commands._outputs import check_output

if TYPE_CHECKING:
    from cs336_basics.tokenizer.ids import TokenArray
    from cs336_basics.tokenizer.tokenizer import Tokenizer

_IDS_AT_A_TIME = 1 << 16
_LONGEST_ID = 100  # characters
_MAGIC = b"\x93NUMPY"


@dataclass(kw_only=True)
class Options(Checked):
    """Turn ids back into text. The output is the concatenated bytes of the tokens."""

    tokenizer: str = TOKENIZER
    input: str = option(
        "token file written by encode, or ids as text, separated by whitespace; - for standard "
        "input",
        metavar="FILE",
    )
    output: str = option("file to write, or - for standard output", STDOUT, metavar="FILE")
    skip_special_tokens: bool = option("leave out special tokens; other added tokens stay", False)
    overwrite: bool = OVERWRITE


def decode(options: Options) -> None:
    """Decode the input and write the text."""
    from cs336_basics.formats.huggingface.tokenizer_json import files_of_tokenizer
    from cs336_basics.tokenizer import Tokenizer
    from cs336_basics.tokenizer.encoders.encoder import UnknownIdError

    path = saved_stdin() if options.input == STDIN else options.input
    tokenizer = Tokenizer.from_directory(options.tokenizer)
    with contextlib.ExitStack() as files:
        write: Callable[[bytes], object] = show
        if options.output != STDOUT:
            inputs = [path, *files_of_tokenizer(options.tokenizer)]
            check_output("output", options.output, options.overwrite, inputs)
            write = files.enter_context(atomic_writer(options.output)).write
        for ids in _ids_of(path, tokenizer):
            try:
                data = tokenizer.decode_bytes(ids, skip_special_tokens=options.skip_special_tokens)
            except UnknownIdError as error:
                raise error.at(path) from None
            write(data)


def _ids_of(path: str, tokenizer: Tokenizer) -> Iterator[TokenArray | Sequence[int]]:
    """Yield the ids in a token file or text file, in blocks.

    Raises:
        ValueError: If the token file is damaged or belongs to another tokenizer, or if a word of
            the text is not an id.
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
    """Convert words to ids. `number` is the number of words before them, for messages."""
    ids: list[int] = []
    for word in words:
        if not word.isdigit() or len(word) > _LONGEST_ID:
            raise InputError(
                f"{path} must be a token file, or ids with only whitespace between them, but word "
                f"{number + len(ids) + 1:,} is {short_repr(word.decode('utf-8', 'replace'))}"
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
