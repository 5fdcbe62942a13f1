"""Reading and writing configurations as YAML files, with checks."""

from __future__ import annotations

import dataclasses
import keyword
import os
import textwrap
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from cs336_basics._support.errors import Argument, InputError
from cs336_basics._support.lazy import LazyModule
from cs336_basics._support.messages import nearest, short_reason, short_repr
from cs336_basics._support.reading import decoded, read_small
from cs336_basics._support.validation import build, fields_of
from cs336_basics.training.config import TrainConfig
from cs336_basics.training.optimizers.registry import OPTIMIZERS

if TYPE_CHECKING:
    import yaml

    from cs336_basics.training import yaml_words
else:  # help pages read no file
    yaml = LazyModule("yaml")
    yaml_words = LazyModule("cs336_basics.training.yaml_words")

V = TypeVar("V")

_MAX_BYTES = 1 << 18
_LONGEST_NAME = 100  # longer names are truncated

NAMED_CONFIGS = ("sample", "tinystories", "speedrun", "speedrun-exportable", "owt")
"""Configurations in `cs336_basics/configs/`."""

_DIRECTORY = Path(__file__).parents[1] / "configs"


class FileValue(NamedTuple):
    """A value from a YAML file, as a string or a list of strings, and its position."""

    value: Any
    source: Path
    line: int
    column: int

    @property
    def place(self) -> str:
        """The file, line and column, for error messages."""
        return f"{self.source}, line {self.line}, column {self.column}"

    @property
    def origin(self) -> str:
        """The name of the configuration, or the file and line, for a listing of all values."""
        if self.source.parent == _DIRECTORY:
            return self.source.stem
        return f"{self.source}, line {self.line}"


class ConfigFileError(InputError):
    """A wrong value in a configuration file.

    The message always names arguments as the file does, because a name in a file is no option.
    """

    def message(self, shown: Callable[[Argument], str] = str) -> str:
        """Return the message."""
        return super().message()


def find_config(name: str) -> Path:
    """Return the path of a named configuration, or `name` itself if it is a file.

    Raises:
        ValueError: If `name` is neither.
    """
    if name in NAMED_CONFIGS:
        return _DIRECTORY / f"{name}.yaml"
    path = Path(os.path.expanduser(name))
    if not path.is_file():
        raise InputError(
            f"must be a file or one of {', '.join(NAMED_CONFIGS)}, got {short_repr(name)}",
            argument="config",
        )
    return path


def load_config(source: Path, changes: Mapping[str, Any] | None = None) -> TrainConfig:
    """Return the configuration stored in a YAML file.

    The values in the file override those in its base, and `changes` override both.

    Args:
        source: A YAML file; see `read_values`.
        changes: Values by dotted name, such as `model.d_model`.

    Raises:
        ValueError: If a name is unknown, or a value has the wrong type or is out of range. The
            message is one line.
        OSError: If the file cannot be read.
    """
    changes = changes or {}
    values = read_values(source)
    try:
        return build(TrainConfig, _over({k: v.value for k, v in values.items()}, changes))
    except InputError as error:
        name = error.argument
        if changes and (name not in values or name in changes):
            raise
        place = values[name].place if name in values else source
        in_file = ConfigFileError(
            error.problem, argument=error.argument, remedy=error.remedy, place=error.place
        )
        raise in_file.at(str(place)) from None


def read_values(source: Path) -> dict[str, FileValue]:
    """Return the values in a YAML file and in its base, by dotted name.

    The `base` key names the configuration that the file overrides. It defaults to `sample`. With
    `base: none`, only the values in the file are returned; `TrainConfig` has defaults for all other
    values.

    Raises:
        ValueError: If the file is not YAML, repeats a name, has an unknown tag, or names an unknown
            base.
        OSError: If the file cannot be read.
    """
    text = decoded(read_small(source, _MAX_BYTES), source)
    values: dict[str, FileValue] = {}
    try:
        for name, value, mark in _named_values(text, source):
            found = FileValue(value, source, mark.line + 1, mark.column + 1)
            if name in values:
                raise InputError(f"{short_repr(name)} is given twice", place=found.place)
            values[name] = found
    except yaml.MarkedYAMLError as error:
        at = error.problem_mark or error.context_mark
        place = f", line {at.line + 1}, column {at.column + 1}" if at else ""
        reason = textwrap.shorten(", ".join(filter(None, (error.context, error.problem))), 300)
        if not isinstance(error, yaml_words.IgnoredError):
            reason = f"not YAML: {reason}"
        raise InputError(reason, place=f"{source}{place}") from None
    except yaml.reader.ReaderError as error:  # a character that YAML does not allow
        before = text[: error.position]
        line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
        raise InputError(
            f"not YAML: {error.reason}", place=f"{source}, line {line}, column {column}"
        ) from None
    except RecursionError as error:
        raise InputError(f"nested too deeply: {short_reason(error)}", place=str(source)) from None
    return _over(_base_values(values.pop("base", None)), values)


def _over(lower: Mapping[str, V], upper: Mapping[str, V]) -> dict[str, V]:
    """Return the values of both mappings, where those of `upper` win.

    If `upper` chooses an optimizer, the settings in `lower` that this optimizer does not have were
    meant for another one, and are left out.
    """
    kind = upper.get("optimizer.kind")
    settings = OPTIMIZERS.get(str(kind.value if isinstance(kind, FileValue) else kind))
    if settings is None:
        return {**lower, **upper}
    own = {f"optimizer.{name}" for name, _ in fields_of(settings)}
    kept = {k: v for k, v in lower.items() if not k.startswith("optimizer.") or k in own}
    return {**kept, **upper}


def _base_values(base: FileValue | None) -> dict[str, FileValue]:
    """Return the values of the configuration that `base` names. The default is `sample`."""
    name = "sample" if base is None else base.value
    if name == "none":
        return {}
    if base is not None and name not in NAMED_CONFIGS:
        known = (*NAMED_CONFIGS, "none")
        raise InputError(
            f"must be one of {', '.join(known)}, got {short_repr(name)}"
            f"{nearest(name, known) if isinstance(name, str) else ''}",
            argument="base",
            place=base.place,
        )
    return read_values(find_config(name))


def _named_values(text: str, source: Path) -> Iterator[tuple[str, Any, yaml.Mark]]:
    """Yield the dotted name, the value and the position of each value in YAML text."""
    loader = yaml_words.WordLoader(text)
    try:
        root = loader.get_single_node()
    except ValueError as error:  # a number that Python refuses to convert
        raise InputError(f"not YAML: {short_reason(error)}", place=str(source)) from None
    if not isinstance(root, yaml.MappingNode):
        raise InputError(
            "a configuration must have names and values, such as `max_steps: 100`",
            place=str(source),
        )
    for name, node in _entries(root):
        if isinstance(node, yaml.MappingNode):
            for key, inner in _entries(node):
                yield f"{name}.{key}", loader.construct_object(inner, deep=True), inner.start_mark
        else:
            yield name, loader.construct_object(node, deep=True), node.start_mark


def _entries(mapping: yaml.MappingNode) -> Iterator[tuple[str, yaml.Node]]:
    for key, value in mapping.value:
        if not isinstance(key, yaml.ScalarNode):
            raise yaml.MarkedYAMLError(problem="a name must be text", problem_mark=key.start_mark)
        yield _field(key.value.replace("-", "_")[:_LONGEST_NAME]), value


def _field(name: str) -> str:
    """Return the field for a name in a file: `from_` for `from`, which is a keyword of Python."""
    return f"{name}_" if keyword.iskeyword(name) else name


def _values_of(config: TrainConfig) -> dict[str, Any]:
    """Return all values by the names that a file has for them."""

    def named(values: list[tuple[str, Any]]) -> dict[str, Any]:
        return {name.rstrip("_"): value for name, value in values}

    return dataclasses.asdict(config, dict_factory=named)


def config_to_yaml(config: TrainConfig) -> str:
    """Return the configuration as YAML that `load_config` reads back.

    Raises:
        ValueError: If the text would be too long to be read back.
    """
    text: str = yaml.safe_dump({"base": "none", **_values_of(config)}, sort_keys=False)
    if len(text) > _MAX_BYTES:  # the text is ASCII
        raise InputError(
            f"the configuration must have at most {_MAX_BYTES:,} bytes, got {len(text):,}",
            remedy="to name thousands of files, use a glob such as 'data/*.txt'",
        )
    return text


def config_with_origins(config: TrainConfig, origins: Mapping[str, str]) -> str:
    """Return the configuration as YAML with the origin of each value in a comment.

    Args:
        config: The configuration.
        origins: Origins by dotted name. A value without an origin is marked "default".
    """
    rows: list[tuple[str, str]] = [("base: none", "all values follow")]

    def add(values: Mapping[str, Any], section: str = "") -> None:
        for key, value in values.items():
            if isinstance(value, dict):
                rows.append((f"{key}:", ""))
                add(value, f"{key}.")
                continue
            origin = origins.get(f"{section}{_field(key)}", "default")
            text = yaml.safe_dump(value, default_flow_style=True, width=1 << 20)
            line = f"{key}: {text.removesuffix('...' + chr(10)).rstrip()}"
            rows.append((textwrap.indent(line, "  " * bool(section)), origin))

    add(_values_of(config))
    return "\n".join(f"{line:<40} # {origin}" if origin else line for line, origin in rows)
