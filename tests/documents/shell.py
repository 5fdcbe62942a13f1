"""Split, check and run the shell commands on the pages.

`python -m cs336_basics COMMAND ...` runs in this process. The options in SMALLER are appended to
the command and override the options before them. A shell runs all other commands.
"""

from __future__ import annotations

import importlib
import itertools
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Sequence

from cs336_basics.__main__ import main
from cs336_basics.commands import COMMANDS
from tests.documents.blocks import ROOT

TRAINING = shlex.split(
    "--max-steps 2 --batch-size 2 --eval-windows 8 --eval-every 2 --sample-tokens 4 "
    "--checkpoint-every 2 --device cpu"
)
MODEL = shlex.split(
    "--model.vocab-size 300 --model.context-length 16 --model.d-model 16 --model.num-layers 1 "
    "--model.num-heads 2 --model.d-ff 32 --data.sample-bytes 40000"
)
SMALLER = {
    "train": [*TRAINING, *MODEL],
    "estimate": [*TRAINING, *MODEL],
    "generate": ["--max-new-tokens", "8"],
}
"""Maps commands to options that make them quick."""

ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
OPERATORS = set("|&;<>()`$*?~")


def commands_of(code):
    """Yield the commands of a block. Join continued lines, and skip comments and empty lines."""
    for line in code.replace("\\\n", " ").split("\n"):
        if line.strip() and not line.lstrip().startswith("#"):
            yield line.strip()


def split(line):
    """Return the assignments before a command, and the command's words.

    Raises:
        ValueError: If a quotation mark is not closed.
    """
    words = shlex.split(line, comments=True)
    variables = {}
    while words and (found := ASSIGNMENT.fullmatch(words[0])):
        variables[found[1]] = found[2]
        words.pop(0)
    return variables, words


def expand(line, variables):
    """Replace $NAME with the value of NAME. Leave unknown names to the shell."""
    return re.sub(r"\$(\w+)", lambda found: variables.get(found[1], found[0]), line)


def own_command(words: Sequence[str]) -> list[str] | None:
    """Return the words after `python -m cs336_basics`, or None for any other program."""
    words = list(words)
    if words[:2] == ["uv", "run"]:
        return own_command(words[2:])
    if words[:1] == ["torchrun"] and "-m" in words:
        return own_command(["python", *words[words.index("-m") :]])
    if words[:1] == ["cs336"]:
        return words[1:]
    if words[:3] == ["python", "-m", "cs336_basics"]:
        return words[3:]
    if words[:3] == ["python", "-m", "cs336_basics.train"]:
        return ["train", *words[3:]]
    return None


def smaller(words):
    """Return the words of one of the package's commands, plus options that make it quick."""
    if not words or "--resume" in words:  # a resumed run keeps its size
        return words
    if "--init-from" in words:  # the model has its size
        return [*words, *TRAINING]
    return [*words, *SMALLER.get(words[0], [])]


class Shell:
    """Runs the commands of a page in the current directory, and remembers assignments."""

    def __init__(self, programs):
        self._variables = {}
        self._programs = programs

    def run(self, line):
        """Run a command, and assert that its exit status is 0."""
        line = expand(line, self._variables)
        variables, words = split(line)
        if not words:
            self._variables.update(variables)
            return
        own = own_command(words) if words[0] in ("python", "cs336") else None
        plain = not variables and not OPERATORS & set(re.sub(r"'[^']*'|\"[^\"$`]*\"", "", line))
        if own is not None and plain:
            status = main(smaller(own))
        else:
            status = self._run_in_shell(line)
        assert status == 0, f"exit status {status} of {line}"

    def _run_in_shell(self, line):
        for command, options in SMALLER.items():
            line = re.sub(
                rf"(cs336_basics[. ]{command}\b[^|;&#]*)", rf"\1 {shlex.join(options)} ", line
            )
        path = os.pathsep.join([str(self._programs), os.environ["PATH"]])
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", line],
            env={**os.environ, "PATH": path, "OMP_NUM_THREADS": "1"},
            check=False,
        )
        return done.returncode


def write_programs(directory):
    """Write scripts named python, cs336, pytest and torchrun that use this interpreter."""
    modules = {"cs336": "cs336_basics", "pytest": "pytest", "torchrun": "torch.distributed.run"}
    scripts = {"python": "", **{name: f"-m {module} " for name, module in modules.items()}}
    directory.mkdir()
    for name, options in scripts.items():
        path = directory / name
        path.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {options}"$@"\n')
        path.chmod(0o755)
    return directory


# --- commands that are checked, but not run -------------------------------------------------------


def check(line):
    """Check a command without running it.

    Raises:
        ValueError: If it contains an option, target, file or extra that does not exist.
    """
    _, words = split(line)
    if not words:
        return
    own = own_command(words)
    if own is not None:
        check_own(own, complete="..." not in words and not any("$" in word for word in words))
    elif words[:2] == ["uv", "run"]:
        check(shlex.join(words[2:]))
    elif words[0] == "make":
        check_make(words[1:])
    elif words[0] == "pip" or words[:3] == ["python", "-m", "pip"]:
        check_pip(words)
    elif words[0] in ("python", "pytest"):
        check_files(words[1:])


def check_own(words, complete):
    """Check one of the package's commands. If it is incomplete, check only the option names."""
    if not words or words[0] in ("--version", "--help", "-h"):
        return
    name = words[0].replace("_", "-")
    if name not in COMMANDS:
        if name.isupper():  # python -m cs336_basics COMMAND
            return
        raise ValueError(f"there is no command {words[0]!r}")
    command = importlib.import_module(f"cs336_basics.commands.{name.replace('-', '_')}").COMMAND
    if complete and not {"--help", "--help-all"} & set(words):
        command.given(words[1:])
        return
    options = {command.shown(field) for field in command.fields()}
    for word in words[1:]:
        option = word.partition("=")[0].replace("_", "-")
        if word.startswith("--") and option not in {*options, "--help", "--help-all"}:
            raise ValueError(f"{name} has no option {option}")


def check_make(words):
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for word in words:
        found = ASSIGNMENT.fullmatch(word)
        target = rf"^{re.escape(found[1])} *\?=" if found else rf"^{re.escape(word)}:"
        # STAGES and CS336_COURSE have no default.
        if not re.search(target, makefile, re.MULTILINE) and not (found and found[1] in makefile):
            raise ValueError(f"Makefile has no {word!r}")


def check_pip(words):
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    for before, word in itertools.pairwise(words):
        if before in ("-r", "-c", "--constraint", "--requirement") and not (ROOT / word).is_file():
            raise ValueError(f"there is no file {word}")
        if found := re.fullmatch(r"(?:\.|cs336-basics)\[(.+)\]", word):
            for extra in found[1].split(","):
                if not re.search(rf"^{re.escape(extra)} = \[", project, re.MULTILINE):
                    raise ValueError(f"there is no extra {extra!r}")


def check_files(words):
    for before, word in itertools.pairwise(["", *words]):
        path = word.partition("::")[0]
        if before == "-m" and word.startswith(("benchmarks.", "tests.")):
            path = word.replace(".", "/")
            path += "/__main__.py" if (ROOT / path).is_dir() else ".py"
        is_ours = path == "setup.py" or path.startswith(("tests", "benchmarks", "exercises"))
        if is_ours and not (ROOT / path).exists():
            raise ValueError(f"there is no file {path}")
