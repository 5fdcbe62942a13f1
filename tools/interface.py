"""Write `tools/interface.txt`, the list of everything that is stable: `python -m tools.interface`.

The list has the public names with their signatures, the commands with their options, the exit
statuses and the files, without what `tools/experimental.py` names. A test compares it with the
code. `docs/stability.md` says what may change, and how.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import json
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cs336_basics._support.errors import InputError, RunError, UnavailableError
from cs336_basics.commands import COMMANDS, find_command
from cs336_basics.commands._cli import guarded
from cs336_basics.commands._options import Command
from tools import api_page, example_files, experimental

LIST = Path(__file__).with_suffix(".txt")
NOT_SHARED = "    --print-config BOOL: default False"
"""The option of `train` that `estimate` does not have."""
NOT_OURS = {"tokenizer.json", "stages.json"}
"""Hugging Face's format, and a record of a run that no other program needs."""


def render(examples: Path) -> str:
    """Return the list.

    Args:
        examples: Directory that `example_files.write` has written.
    """
    parts = {
        "Names": names(),
        "Commands": commands(),
        "Exit statuses": exit_statuses(),
        "Files": files(examples),
    }
    lines = ["Everything that is stable; see docs/stability.md. `python -m tools.interface` writes"]
    lines.append("this list.")
    for title, content in parts.items():
        lines += ["", title, "=" * len(title), "", *content]
    return "\n".join(lines) + "\n"


# --- names ---------------------------------------------------------------------------------------


def stable_names() -> Iterator[tuple[str, object]]:
    """Yield the stable names of each module, with their values. The package comes last."""
    folders = sorted(api_page.modules(), key=lambda module: module.__name__)
    for module in (*folders[1:], folders[0]):
        for name in sorted(module.__all__):
            full = f"{module.__name__}.{name}"
            if not experimental.is_experimental(full):
                yield full, getattr(module, name)


def stable_members(cls: type) -> Iterator[tuple[str, Any]]:
    """Yield the stable methods and properties that a class does not inherit from a public base."""
    public = api_page.public_names()
    bases = {id(base) for base in cls.__mro__[1:] if id(base) in public}
    for call, function in api_page.methods_of(cls, bases):
        name = call.partition("(")[0]
        if not experimental.is_experimental_member(cls, name, public):
            yield name, function


def names() -> Iterator[str]:
    """Yield lines about the names: one for each name, then one for each of its parameters."""
    public = api_page.public_names()
    for full, value in stable_names():
        home = public[id(value)]
        if home != full:
            yield f"{full} = {home}"
        elif isinstance(value, type):
            bases = [public[id(base)] for base in value.__mro__[1:] if id(base) in public]
            yield f"class {full}" + (f"({', '.join(bases)})" if bases else "")
            if not vars(value).keys().isdisjoint({"__init__", "__new__"}):
                yield from parameters(value)
            for name, function in stable_members(value):
                yield f"  .{name}"
                is_property = isinstance(inspect.getattr_static(value, name), property)
                yield from (f"  {line}" for line in parameters(function, is_property))
        elif callable(value):
            yield f"def {full}"
            yield from parameters(value)
        else:
            yield full
            yield from contents(value)


def parameters(function: Any, is_property: bool = False) -> Iterator[str]:
    """Yield a line for each parameter of a callable, and one for its result."""
    given = api_page.given_to(function)
    by_name = False
    for parameter in () if is_property else given.parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and not by_name:
            by_name = True
            yield "    *"
        yield f"    {parameter}"
    if given.return_annotation is not inspect.Signature.empty:
        yield f"    -> {given.return_annotation}"


def contents(value: object) -> Iterator[str]:
    """Yield a line for each entry of a mapping, or one for a constant."""
    if not isinstance(value, dict):
        yield f"    {value!r}"
        return
    for key, entry in value.items():
        yield f"    {key}" + (f" = {entry!r}" if isinstance(entry, str) else "")


# --- commands ------------------------------------------------------------------------------------


def commands() -> Iterator[str]:
    """Yield lines about the commands: one for each option, with its type and its default."""
    run: set[str] = set()
    for name in COMMANDS:
        if name in experimental.COMMANDS:
            continue
        lines = list(options(name, find_command(name)))
        has_all = bool(run) and run <= set(lines)
        yield f"cs336 {name}" + (": the options of train, and" if has_all else "")
        yield from (line for line in lines if not (has_all and line in run))
        if name == "train":
            run = set(lines) - {NOT_SHARED}


def options(name: str, command: Command) -> Iterator[str]:
    """Yield a line for each option of a command."""
    parser = {action.dest: action for action in command.parser()._actions}
    for field, option in command.fields().items():
        shown = command.shown(field)
        if f"{name} {shown}".startswith(experimental.OPTIONS):
            continue
        action = parser[field]
        words = [] if option.positional else [shown]
        words += [] if action.nargs == 0 else [str(action.metavar)]
        words += ["..."] if action.nargs in ("*", "+") else []
        default = "required" if option.is_required else f"default {plain(option.default)!r}"
        change = ", a resumed run may change it" if option.resumable else ""
        change += " and then rounds differently" if option.changes_rounding else ""
        yield f"    {' '.join(words)}: {default}{change}"


def plain(value: object) -> object:
    """Return a path as text, which is the same on every system."""
    return str(value) if isinstance(value, Path) else value


def exit_statuses() -> Iterator[str]:
    """Yield the exit status that a command has after each kind of error."""
    errors = {
        "success": None,
        "a mistake: InputError": InputError("is wrong"),
        "a missing package: UnavailableError": UnavailableError("is not installed"),
        "a missing file: FileNotFoundError": FileNotFoundError(2, "No such file"),
        "no permission: PermissionError": PermissionError(13, "Permission denied"),
        "a failure: RunError": RunError("a worker died"),
        "a full disk: OSError": OSError(28, "No space left on device"),
        "too little memory: MemoryError": MemoryError(),
        "Ctrl-C: KeyboardInterrupt": KeyboardInterrupt(),
    }
    for title, error in errors.items():

        def work(error: BaseException | None = error) -> int:
            if error is not None:
                raise error
            return 0

        with contextlib.redirect_stderr(io.StringIO()):
            yield f"{guarded('cs336', work)}  {title}"
    yield "129  SIGHUP, after `train` has saved a checkpoint"
    yield "143  SIGTERM, after `train` has saved a checkpoint"


# --- files ---------------------------------------------------------------------------------------


def files(examples: Path) -> Iterator[str]:
    """Yield lines about the structure of each example."""
    for path in sorted(examples.rglob("*")):
        name = path.relative_to(examples).as_posix()
        if path.is_file() and path.suffix in READERS and path.name not in NOT_OURS:
            yield name
            yield from (f"    {line}" for line in READERS[path.suffix](path))


def structure(value: Any, name: str = "") -> Iterator[str]:
    """Yield the name and the type of each value in a JSON document. Long tables are one entry."""
    if isinstance(value, dict) and 0 < len(value) < 20:
        for key, entry in value.items():
            yield from structure(entry, f"{name}.{key}" if name else key)
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        yield from structure(value[0], f"{name}[]")
    else:
        yield f"{name}: {type(value).__name__}"


def json_lines(path: Path) -> Iterator[str]:
    """Yield the keys of all rows of a JSON Lines file."""
    rows = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    yield from structure({key: value for row in rows for key, value in row.items()})


def token_file(path: Path) -> Iterator[str]:
    """Yield the structure of a token file: the array, and the metadata."""
    from cs336_basics.tokenizer.files.token_files import open_token_file

    opened = open_token_file(path)
    yield f"{opened.tokens.ndim} dimension, {opened.tokens.dtype}"
    yield from structure(opened.metadata)


def word_counts(path: Path) -> Iterator[str]:
    """Yield the arrays of a file of word counts, and the header."""
    import numpy as np

    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            with archive.open(name) as file:
                array = np.lib.format.read_array(io.BytesIO(file.read()))
            yield f"{name}: {array.ndim} dimension, {array.dtype.str}"
            if name == "header.npy":
                yield from structure(json.loads(array.tobytes()))


def checkpoint(path: Path) -> Iterator[str]:
    """Yield the metadata and the tensors of a checkpoint."""
    import safetensors

    with safetensors.safe_open(path, "pt") as file:  # type: ignore[no-untyped-call]
        yield from structure(json.loads(file.metadata()["checkpoint"]), "checkpoint")
        for name in sorted(file.keys()):
            part = file.get_slice(name)
            yield f"{name}: {part.get_dtype()}, {len(part.get_shape())} dimensions"


READERS = {
    ".json": lambda path: structure(json.loads(path.read_text(encoding="utf-8"))),
    ".jsonl": json_lines,
    ".npy": token_file,
    ".npz": word_counts,
    ".safetensors": checkpoint,
}


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        with contextlib.redirect_stdout(io.StringIO()):
            example_files.write(Path(directory))
        LIST.write_text(render(Path(directory)), encoding="utf-8")
    print(f"wrote {LIST}")
