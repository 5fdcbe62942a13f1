"""The style of error messages; see CONTRIBUTING.md, "Errors and exit statuses"."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import cs336_basics

PACKAGE = Path(cs336_basics.__file__).parent
RAISED = re.compile(r"\w+Error$")
VALUE = "\0"
"""Stands for a value or an argument in a message."""

NAMING = ("checked_integer", "checked_bool")
"""Functions whose first argument is the name of an argument."""

OTHER_PROGRAMS = re.compile(r"build_ext --inplace|ray start --address|-f \S+ -t UTF-8")
"""Command lines of other programs, which may have flags."""


def text_of(node: ast.expr | None) -> str:
    """Return the text of a message in source code, with VALUE in place of each expression."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts) | ast.Tuple(elts=parts):
            return "".join(map(text_of, parts))
        case ast.BinOp(left=left, right=right):
            return text_of(left) + text_of(right)
        case None:
            return ""
    return VALUE


def messages():
    """Yield where each message of an error is, its problem and its remedy."""
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call) or not node.args:
                continue
            name = node.func.id if isinstance(node.func, ast.Name) else ""
            if RAISED.search(name) and isinstance(
                node.args[0], (ast.Constant, ast.JoinedStr, ast.Tuple)
            ):
                fields = {keyword.arg: keyword.value for keyword in node.keywords}
                where = f"{path.relative_to(PACKAGE)}:{node.lineno}"
                yield pytest.param(
                    text_of(node.args[0]), text_of(fields.get("remedy")), "argument" in fields,
                    "commands" in path.parts, id=where,
                )  # fmt: skip


@pytest.mark.parametrize(("problem", "remedy", "has_argument", "is_command"), list(messages()))
def test_messages_have_one_style(problem, remedy, has_argument, is_command):
    for text in filter(None, (problem, remedy)):
        assert "\n" not in text
        assert not text.endswith(".")
        assert text == text.strip()
        start = re.split(r"[\s:,]", text)[0]
        # An identifier, a product or a file may start with a capital letter.
        assert not re.fullmatch("[A-Z][a-z]+", start), "starts like a sentence"
        if not is_command:
            assert not re.search(r"(?<![\w-])--[a-z]", OTHER_PROGRAMS.sub("", text)), "a flag"
            assert not re.search(r"\b[a-z_]+=(True|False|['\"\0])", text), "use Argument"
    if has_argument and " must be " in f" {problem}":
        assert VALUE in problem or "got " in problem, "name the value"


def test_missing_and_existing_files_are_errors_with_fields():
    """A FileNotFoundError of the library's own would be printed without the options to pass."""
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
                name = ast.unparse(node.exc.func)
                where = f"{path.relative_to(PACKAGE)}:{node.lineno}"
                assert name not in ("FileNotFoundError", "FileExistsError"), where


def named_arguments(tree):
    """Yield each expression in source code that names the argument of an error."""
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and node.arg == "argument":
            yield node.value
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in NAMING:
            yield node.args[0]


def test_arguments_are_names():
    """A command finds its option by the argument's name, so a phrase belongs in another field."""
    for path in PACKAGE.rglob("*.py"):
        for node in named_arguments(ast.parse(path.read_text(encoding="utf-8"))):
            if not (isinstance(node, ast.Constant) and node.value is None):
                name = text_of(node).replace(VALUE, "value")
                where = f"{path.relative_to(PACKAGE)}:{node.lineno}"
                assert all(map(str.isidentifier, name.split("."))), where
