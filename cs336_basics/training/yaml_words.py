"""WordLoader: reads the values of a YAML file as words, without a meaning."""

from __future__ import annotations

from typing import Any

import yaml

from cs336_basics._support.messages import short_repr
from cs336_basics._support.validation import Word

_PREFIX = "tag:yaml.org,2002:"  # written as !!
_TEXT = f"{_PREFIX}str"
_NUMBERS = tuple(_PREFIX + name for name in ("int", "float", "bool"))


class IgnoredError(yaml.MarkedYAMLError):
    """A tag or a directive that the configuration would have to ignore."""


class WordLoader(yaml.BaseLoader):
    """Reads every value as text.

    An unquoted value becomes a `Word`, which the configuration converts like a command-line
    argument. YAML 1.1 would read `off` as false, 010 as 8 and 1e-3 as a string. `!!str` has the
    effect of quotes, and `!!int`, `!!float` and `!!bool` have none, because the configuration knows
    the type. Every other tag is an error.
    """

    def scan_directive(self) -> Any:
        """Return the next directive, which must be %YAML: PyYAML ignores names it does not know."""
        directive: Any = super().scan_directive()
        if directive.name != "YAML":
            raise IgnoredError(
                problem=f"a configuration must have no directive but %YAML, got "
                f"{short_repr('%' + directive.name)}; remove the line",
                problem_mark=directive.start_mark,
            )
        return directive

    def compose_node(self, parent: Any, index: Any) -> Any:
        """Return the next node, after a check of its tag."""
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]
        tag = getattr(event, "tag", None)
        if tag is not None and not (
            isinstance(event, yaml.ScalarEvent) and tag in (_TEXT, *_NUMBERS)
        ):
            written = f"!!{tag.removeprefix(_PREFIX)}" if tag.startswith(_PREFIX) else tag
            raise IgnoredError(
                problem=f"a value must have no tag but !!str, !!int, !!float or !!bool, got "
                f"{short_repr(written)}; remove the tag",
                problem_mark=event.start_mark,
            )
        if tag == _TEXT:
            event.style = "'"
        return super().compose_node(parent, index)

    def construct_scalar(self, node: Any) -> str:
        """Return the text of a value."""
        value = super().construct_scalar(node)
        return Word(value) if node.style is None else str(value)
