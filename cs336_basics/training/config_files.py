"""Configurations as YAML files: read over the dataclasses' defaults, checked, and written."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping
from importlib import resources
from pathlib import Path
from typing import Any

import yaml

from cs336_basics._support.messages import short_reason, short_repr
from cs336_basics._support.reading import decoded, open_regular
from cs336_basics._support.validation import Word, build
from cs336_basics.training.config import TrainConfig

_MAX_BYTES = 1 << 18

NAMED_CONFIGS = ("sample", "tinystories", "speedrun", "speedrun-exportable", "owt")
"""Configurations that come with the package, in `cs336_basics/configs/`."""


def find_config(name: str) -> Path:
    """Return the file of a named configuration, or `name` itself if it is a file.

    Raises:
        ValueError: it is neither.
    """
    if name in NAMED_CONFIGS:
        return Path(str(resources.files("cs336_basics") / "configs" / f"{name}.yaml"))
    if not Path(name).is_file():
        raise ValueError(
            f"--config is {short_repr(name)}: it should be a file or one of "
            f"{', '.join(NAMED_CONFIGS)}"
        )
    return Path(name)


def load_config(source: Path, changes: Mapping[str, Any] | None = None) -> TrainConfig:
    """Return the defaults, changed by the YAML file `source`, changed by `changes`.

    Args:
        source: a YAML file.
        changes: values by dotted name, such as `model.d_model`.

    Raises:
        ValueError: an unknown name, a wrong type or an impossible value, in one line.
    """
    changes = changes or {}
    values = read_values(source)

    def show(name: str) -> str:
        option = re.sub(r"\.\d+$", "", name)  # one value of a list
        return f"{source}: {name}" if option in values and option not in changes else name

    return build(TrainConfig, {**values, **changes}, show)


def read_values(source: Path) -> dict[str, Any]:
    """Return the values in a YAML file by dotted name; all of them are text, or lists of text.

    Raises:
        ValueError: it is not YAML, or has an unknown name or one twice.
    """
    try:
        with open_regular(source) as file:
            data = file.read(_MAX_BYTES + 1)
    except OSError as error:
        raise ValueError(f"{source}: {error.strerror}") from None
    if len(data) > _MAX_BYTES:
        raise ValueError(f"{source} has more than {_MAX_BYTES:,} bytes: a configuration has fewer")
    try:
        content = yaml.load(decoded(data, "the file"), Loader=_Loader)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise ValueError(f"{source} is not YAML: {short_reason(error)}") from None
    if not isinstance(content, dict):
        raise ValueError(f"{source} should hold names and values, such as `max_steps: 100`")
    values: dict[str, Any] = {}
    for name, value in _flatten(content):
        if name in values:
            raise ValueError(f"{source}: {name} is given twice")
        values[name] = value
    return values


def _flatten(content: Mapping[Any, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the values of a file with their dotted names."""
    for key, value in content.items():
        name = prefix + str(key).replace("-", "_")
        if isinstance(value, dict) and not prefix:
            yield from _flatten(value, f"{name}.")
        else:
            yield name, value


class _Loader(yaml.BaseLoader):
    """Reads every value as text, whatever its tag, and refuses a name that is given twice.

    A value without quotes is a `Word`, which the configuration converts as it does those of a
    command line: YAML 1.1 itself takes `off` for false, 010 for 8 and 1e-3 for a string.
    """

    def construct_scalar(self, node: Any) -> str:
        value = super().construct_scalar(node)
        return Word(value) if node.style is None else str(value)

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        names = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        if len(set(names)) < len(names):
            twice = max(names, key=names.count)
            raise ValueError(f"{short_repr(twice)} is given twice")
        return super().construct_mapping(node, deep=deep)


def config_to_dict(config: TrainConfig) -> dict[str, Any]:
    """Return the configuration as nested dictionaries."""
    return dataclasses.asdict(config)


def config_to_yaml(config: TrainConfig) -> str:
    """Return the configuration as YAML that `load_config` reads back."""

    text: str = yaml.safe_dump(config_to_dict(config), sort_keys=False)
    return text
