"""Configurations as YAML files: read over the dataclasses' defaults, checked, and written.

A configuration is data: names, numbers and strings, checked against the types of the dataclasses
in `config.py`. Unknown names and wrong types are errors; nothing in a file is ever executed.
"""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import yaml

from cs336_basics._support.messages import short_reason, short_repr
from cs336_basics._support.option import describe, may_be_none, takes_several, without_none
from cs336_basics._support.reading import decoded, open_regular
from cs336_basics.training.config import TrainConfig

_MAX_BYTES = 1 << 18

NAMED_CONFIGS = ("sample", "tinystories", "speedrun", "speedrun-exportable", "owt")
"""Configurations that come with the package, in `cs336_basics/configs/`."""


class ConfigError(ValueError):
    """A configuration that cannot be used; the message is one line that names the key."""


@dataclass(frozen=True)
class ConfigKey:
    """One value of a TrainConfig."""

    name: str
    """Dotted: `max_steps`, `model.d_model`."""
    kind: Any
    """Its type, as annotated."""
    default: Any
    help: str | None
    """Its line in `--help`, where the dataclass has one."""

    @property
    def section(self) -> str:
        """The section that it belongs to: `model` for `model.d_model`, empty for `max_steps`."""
        return self.name.rpartition(".")[0]


def config_keys(config: TrainConfig | None = None) -> dict[str, ConfigKey]:
    """Return every value of a TrainConfig by its dotted name, with the values of `config`."""
    keys = _keys_of(config or TrainConfig(), "")
    return {key.name: key for key in keys}


def _keys_of(section: Any, prefix: str) -> Iterator[ConfigKey]:
    kinds = get_type_hints(type(section))
    for field in dataclasses.fields(section):
        value = getattr(section, field.name)
        if dataclasses.is_dataclass(value):
            yield from _keys_of(value, f"{prefix}{field.name}.")
        else:
            yield ConfigKey(
                prefix + field.name, kinds[field.name], value, field.metadata.get("help")
            )


def find_config(name: str) -> Path:
    """Return the file of a named configuration, or `name` itself if it is a file.

    Raises:
        ConfigError: it is neither.
    """
    if name in NAMED_CONFIGS:
        return Path(str(resources.files("cs336_basics") / "configs" / f"{name}.yaml"))
    if not Path(name).is_file():
        raise ConfigError(
            f"--config is {short_repr(name)}: it must be a file or one of "
            f"{', '.join(NAMED_CONFIGS)}"
        )
    return Path(name)


def load_config(source: Path, changes: Mapping[str, Any] | None = None) -> TrainConfig:
    """Return the defaults, changed by the YAML file `source`, changed by `changes`.

    Args:
        source: a YAML file.
        changes: values by dotted name, as `convert_value` returns them.

    Raises:
        ConfigError: an unknown name, a wrong type or an impossible value.
    """
    values = read_values(source)
    try:
        return build_config({**values, **(changes or {})})
    except (TypeError, ValueError) as error:
        # With changes on top of the file, either may be at fault.
        raise ConfigError(str(error) if changes else f"{source}: {error}") from None


def build_config(values: Mapping[str, Any]) -> TrainConfig:
    """Return the defaults, changed by values of the right types, by dotted name.

    Raises:
        ValueError: a value is out of bounds, or values contradict each other.
    """
    default = TrainConfig()
    sections: dict[str, dict[str, Any]] = {}
    for name, value in values.items():
        section, _, key = name.rpartition(".")
        sections.setdefault(section, {})[key] = value
    top = sections.pop("", {})
    for section, inner in sections.items():
        try:
            top[section] = dataclasses.replace(getattr(default, section), **inner)
        except (TypeError, ValueError) as error:
            if str(error).partition(" ")[0] not in inner:
                raise
            # The model's configuration is also used by itself, and does not name the section.
            raise type(error)(f"{section}.{error}") from None
    return dataclasses.replace(default, **top)


def read_values(source: Path) -> dict[str, Any]:
    """Return the values in a YAML file by dotted name, converted to their types.

    Raises:
        ConfigError: naming the file, and the unknown name or the wrong type.
    """
    try:
        with open_regular(source) as file:
            data = file.read(_MAX_BYTES + 1)
        if len(data) > _MAX_BYTES:
            raise ConfigError(
                f"it has more than {_MAX_BYTES:,} bytes, which is too many for a configuration"
            )
        content = yaml.load(decoded(data, "the file"), Loader=_Loader)
        if not isinstance(content, dict):
            raise ConfigError("it must hold names and values, such as `max_steps: 100`")
        keys = config_keys()
        sections = {key.section for key in keys.values() if key.section}
        values: dict[str, Any] = {}
        for name, value in _flatten(content, sections):
            if name not in keys:
                raise ConfigError(unknown_name(name, [*keys, *sections]))
            if name in values:
                raise ConfigError(f"{name} is given twice")
            values[name] = convert_value(keys[name], value)
        return values
    except ConfigError as error:
        raise ConfigError(f"{source}: {error}") from None
    except OSError as error:
        raise ConfigError(f"{source}: {error.strerror}") from None
    except MemoryError:
        raise
    except Exception as error:  # values with explicit tags, such as !!int x, can raise anything
        raise ConfigError(f"{source} is not YAML: {short_reason(error)}") from None


def _flatten(content: dict[Any, Any], sections: set[str]) -> Iterator[tuple[str, Any]]:
    """Yield the values of a file with their dotted names, those of the sections one by one."""
    for key, value in content.items():
        name = str(key).replace("-", "_")
        if name not in sections:
            yield name, value
        elif not isinstance(value, dict):
            raise ConfigError(
                f"{short_repr(name)[1:-1]} is {short_repr(value)}: it is a section with several "
                "values"
            )
        else:
            yield from ((f"{name}.{str(k).replace('-', '_')}", v) for k, v in value.items())


def unknown_name(name: str, known: Iterable[str]) -> str:
    """Return the message for an unknown name, with the known names nearest to it."""
    known = list(known)
    # A value is often asked for without its section: learning_rate, d_model.
    near = [other for other in known if other.split(".")[-1] == name.split(".")[-1]]
    near = near or difflib.get_close_matches(name, known, n=2, cutoff=0.6)
    hint = f"did you mean {' or '.join(near)}?" if near else "see --help for all names"
    return f"unknown option {short_repr(name)}: {hint}"


def parse_value(key: ConfigKey, text: str | Sequence[str]) -> Any:
    """Return the value that a word of a command line gives a key: YAML, except for strings.

    A key that takes several strings is given its words as a list.

    Raises:
        ConfigError: it has another type.
    """
    if takes_several(key.kind):
        words = list(text)
        return convert_value(key, None if words == ["null"] else words)
    value: Any = text
    if _is_text(key.kind):
        return convert_value(key, None if text == "null" and may_be_none(key.kind) else text)
    # A word that is not YAML stays as it is, for the message to show it.
    with contextlib.suppress(Exception):
        value = yaml.load(str(text), Loader=_Loader)
    return convert_value(key, value)


def convert_value(key: ConfigKey, value: Any) -> Any:
    """Return a value read from YAML in the type that its key has.

    Raises:
        ConfigError: it has another type.
    """
    try:
        return _convert(key.kind, value)
    except OverflowError:
        raise ConfigError(f"{key.name} is {short_repr(value)}: it must fit 64 bits") from None
    except (TypeError, ValueError):
        raise ConfigError(
            f"{key.name} is {short_repr(value)}: it must be {describe(key.kind)}"
        ) from None


def _convert(kind: Any, value: Any) -> Any:
    if takes_several(kind):
        return _one_or_several(kind, value)
    if may_be_none(kind):
        return None if value is None else _convert(without_none(kind), value)
    if get_origin(kind) is Literal and value in get_args(kind):
        return value
    if get_origin(kind) is tuple and isinstance(value, (list, tuple)):
        return tuple(_convert(part, item) for part, item in zip(get_args(kind), value, strict=True))
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if kind is float and (is_number or isinstance(value, str)):
        return float(value)  # to YAML 1.1, 1e-3 is a string
    if kind is int and (isinstance(value, str) or (is_number and isinstance(value, int))):
        number = int(value)
        if abs(number) >= 2**63:
            raise OverflowError
        return number
    if kind in (str, bool) and isinstance(value, kind):
        return value
    raise TypeError


def _one_or_several(kind: Any, value: Any) -> Any:
    """Return a string, a tuple of at least two, or None."""
    if isinstance(value, str) or (value is None and may_be_none(kind)):
        return value
    if not isinstance(value, (list, tuple)) or not value:
        raise TypeError
    words = tuple(_convert(str, item) for item in value)
    return words if len(words) > 1 else words[0]


def _is_text(kind: Any) -> bool:
    kind = without_none(kind)
    return kind is str or get_origin(kind) is Literal


def config_to_dict(config: TrainConfig) -> dict[str, Any]:
    """Return the configuration as nested dictionaries."""
    return dataclasses.asdict(config)


def config_to_yaml(config: TrainConfig) -> str:
    """Return the configuration as YAML that `load_config` reads back."""

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: plain(inner) for key, inner in value.items()}
        if isinstance(value, str):
            return _Quoted(value)
        return [plain(inner) for inner in value] if isinstance(value, tuple) else value

    text: str = yaml.dump(plain(config_to_dict(config)), Dumper=_Dumper, sort_keys=False)
    return text


class _Loader(yaml.SafeLoader):
    """Reads plain data; `off`, dates, 010 (octal) and 1:30 (base 60) stay strings.

    A key that is given twice is an error, and so is an alias: with aliases a few lines can mean a
    value that contains itself, or one of any size.
    """

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            event: Any = self.peek_event()  # type: ignore[no-untyped-call]
            raise ConfigError(
                f"line {event.start_mark.line + 1} has the alias *{short_repr(event.anchor)[1:-1]}:"
                " write the value itself"
            )
        return super().compose_node(parent, index)

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise ConfigError(f"line {key.start_mark.line + 1} has a name that is not a word")
            if key.value in seen:
                raise ConfigError(f"{short_repr(key.value)[1:-1]} is given twice")
            seen.add(key.value)
        return super().construct_mapping(node, deep=deep)


_Loader.yaml_implicit_resolvers = {
    first: [
        (tag, pattern)
        for tag, pattern in resolvers
        if tag.rpartition(":")[2] not in ("timestamp", "int", "float")
    ]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    if first not in ("o", "O")  # the booleans `on` and `off` of YAML 1.1
}
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:int", re.compile(r"[-+]?(?:0|[1-9][0-9_]*)$"), list("-+0123456789")
)
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(
        r"(?:[-+]?(?:[0-9][0-9_]*\.[0-9_]*|\.[0-9][0-9_]*)(?:[eE][-+]?[0-9]+)?"
        r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$"
    ),
    list("-+0123456789."),
)


class _Quoted(str):
    """A string that is written in quotes: readers of YAML disagree on whether 1e5 is a number."""


class _Dumper(yaml.SafeDumper):
    """Writes _Quoted strings."""


_Dumper.add_representer(
    _Quoted,
    lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", str(text), style='"'),
)
