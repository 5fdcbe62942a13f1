"""Exit statuses and error messages of commands, Ctrl-C, pipes, and closed streams."""

from __future__ import annotations

import errno
import os
import re
import shlex
import signal
import subprocess
import sys
import warnings

import pytest

from cs336_basics.__main__ import main
from cs336_basics._support.errors import (
    Argument,
    InputError,
    InputTypeError,
    OutputExistsError,
    RunError,
    UnavailableError,
)
from cs336_basics.commands import COMMANDS
from cs336_basics.commands._cli import guarded, say, show
from cs336_basics.text import MissingFieldError
from tests.commands.small_run import TINY, environment, error_of, start
from tests.errors import rejects
from tests.processes import run_python, wait


def raising(error):
    def work():
        raise error

    return work


@pytest.mark.parametrize(
    ("error", "status", "message"),
    [
        (InputError("a must be 4,\n got 3"), 2, "a must be 4, got 3"),
        (InputTypeError("must be an int", argument="a_b"), 2, "--a-b must be an int"),
        (InputError("is full", remedy=("pass ", Argument("on", True))), 2, "is full; pass --on"),
        (InputError('is <div class="x" hidden=True>'), 2, 'is <div class="x" hidden=True>'),
        (OutputExistsError("a exists"), 2, "a exists; choose another name, or pass --overwrite"),
        (MissingFieldError("a.jsonl", "field"), 2, "a.jsonl: --field must name the field"),
        (UnavailableError("needs a compiler"), 2, "needs a compiler"),
        (FileNotFoundError(errno.ENOENT, "No such file", "a.txt"), 2, "a.txt: No such file"),
        (OSError(errno.ENOSPC, "No space left on device", b"a.txt"), 1, "a.txt: No space left"),
        (OSError(errno.EIO, "I/O error"), 1, "I/O error"),
        (ModuleNotFoundError("no", name="torch.nn"), 2, "pip install 'cs336-basics[torch]'"),
        (ModuleNotFoundError("no", name="yaml"), 2, "pip install pyyaml"),
        (ImportError("needs a compiler"), 2, "needs a compiler"),
        (MemoryError(), 1, "out of memory"),
        (RunError("diverged"), 1, "diverged"),
        (InputError(), 2, "InputError"),
    ],
)
def test_an_expected_error_prints_one_line_and_sets_the_status(error, status, message, capsys):
    def shown(argument):
        return f"--{argument.name.replace('_', '-')}"

    assert guarded("cs336 x", raising(error), shown) == status
    assert message in error_of(capsys, "x")


@pytest.mark.parametrize(
    "bug",
    [
        *(kind("a bug") for kind in (KeyError, ValueError, TypeError, RuntimeError, OverflowError)),
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "a bug"),
        ImportError("cannot import name", name="cs336_basics.text"),
    ],
    ids=lambda bug: type(bug).__name__,
)
def test_a_bug_has_a_traceback(bug):
    with pytest.raises(type(bug)):
        guarded("cs336 x", raising(bug))


def test_an_expected_error_has_a_traceback_on_request(monkeypatch):
    monkeypatch.setenv("CS336_TRACEBACK", "1")
    with rejects(None, "wrong"):
        guarded("cs336 x", raising(InputError("wrong")))


def test_text_from_a_file_is_printed_as_it_is(tmp_path, capsys):
    line = '<div class="main" hidden=True>'
    (tmp_path / "a.jsonl").write_text(line + "\n")
    words = ["--input", f"{tmp_path}/a.jsonl", "--field", "text", "--vocab-size", "300"]
    assert main(["train-bpe", *words, "--output", f"{tmp_path}/out"]) == 2
    assert line in error_of(capsys, "train-bpe")


HOSTILE, HARMLESS = "a\x1b]0;title\x07\u202e", "a<U+001B>]0;title<U+0007><U+202E>"


def test_control_characters_in_messages_are_visible(capsys):
    def work():
        warnings.warn(HOSTILE, stacklevel=1)
        say(HOSTILE)
        raise InputError(HOSTILE)

    assert guarded("cs336 x", work) == 2
    assert capsys.readouterr() == (
        f"{HARMLESS}\n",
        f"cs336 x: warning: {HARMLESS}\ncs336 x: error: {HARMLESS}\n",
    )


@pytest.mark.parametrize("content", [HOSTILE, HOSTILE.encode()])
@pytest.mark.parametrize(("terminal", "printed"), [(True, HARMLESS), (False, HOSTILE)])
def test_control_characters_in_content_are_visible_on_a_terminal(
    capfd, monkeypatch, content, terminal, printed
):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: terminal, raising=False)
    assert guarded("cs336 x", lambda: show(content) or 0) == 0
    assert capfd.readouterr().out == printed


def test_a_warning_is_one_line(capsys):
    assert guarded("cs336 x", lambda: warnings.warn("odd\ntext", stacklevel=1) or 0) == 0
    assert capsys.readouterr().err == "cs336 x: warning: odd text\n"


def test_a_very_long_error_is_cut_in_the_middle(capsys):
    text = "first\n" + "warning: unused variable\n" * 4000 + "last"
    assert guarded("cs336 train", raising(RunError(text))) == 1
    error = capsys.readouterr().err
    assert error.startswith("cs336 train: error: first warning: ")
    assert error.endswith("unused variable last\n")
    assert (error.count("\n"), len(error) < 2100) == (1, True)


@pytest.mark.skipif(os.name == "nt", reason="needs POSIX signals")
@pytest.mark.parametrize("command", ["train-bpe", "experiments"])
def test_ctrl_c_sets_status_130_and_prints_one_line(tmp_path, command):
    words = {
        # This regular expression is slow on this text, which is shorter than --max-piece-bytes.
        "train-bpe": ["--input", "long.txt", "--vocab-size", "300", "--output", "out",
                      "--pattern", r"\p{L}+?(?=\s|$)(?<!_)|\s", "--num-workers", "1"],
        "experiments": ["--scale", "cpu", "--out", "out", "--num-workers", "1"],
    }[command]  # fmt: skip
    if command == "train-bpe":
        with open(tmp_path / "long.txt", "w") as file:
            file.writelines(f"{'word' * 8}{number} " * 50 for number in range(30_000))
    process = start(command, *words, cwd=tmp_path, start_new_session=True)
    if command == "train-bpe":
        process.stderr.readline()  # the warning about the slow pattern
    else:
        wait(lambda: (tmp_path / "out" / "data").exists() or process.poll() is not None)
    os.killpg(process.pid, signal.SIGINT)
    _, error = process.communicate(timeout=120)
    assert process.returncode == 130, error
    lines = [line for line in error.splitlines() if line.strip()]
    assert lines[-1].startswith(f"cs336 {command}: interrupted")
    assert "Traceback" not in error
    assert (tmp_path / "out").exists() == (command == "experiments")


def test_a_closed_pipe_is_not_an_error_for_any_command():
    # One process runs all commands, each with a new pipe.
    code = f"""
import os
from cs336_basics.__main__ import main
for command in {list(COMMANDS)}:
    reader, writer = os.pipe()
    os.close(reader)
    os.dup2(writer, 1)
    os.close(writer)
    assert main([command, "--help"]) == 0, command
"""
    assert run_python(code, OMP_NUM_THREADS="1").stderr == ""


# A command finishes its work even if standard streams are closed or full.


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """A directory with a text and the configuration of a run."""
    folder = tmp_path_factory.mktemp("work")
    (folder / "text.txt").write_text("the cat sat on the mat " * 50)
    (folder / "tiny.yaml").write_text(TINY)
    return folder


WORK = {
    "train-bpe": (["--input", "text.txt", "--vocab-size", "260", "--output", "{new}"], "{new}"),
    "train": (
        ["--config", "tiny.yaml", "--max-steps", "2", "--run-dir", "{new}"],
        "{new}/metrics.jsonl",
    ),
}
"""Maps commands to their arguments and a file that they write."""

STREAMS = {
    # redirection: exit status, start of standard error, commands to test
    ">&-": (0, "", ["train-bpe"]),
    "2>&-": (0, "", ["train-bpe"]),
    "<&- >&- 2>&-": (0, "", ["train-bpe"]),
    "2>/dev/full": (0, "", ["train-bpe"]),
    ">/dev/full": (
        1,
        "cs336 {command}: error: cannot write to standard output: No space left on ",
        ["train-bpe"],
    ),
    "<&- >/dev/full 2>&-": (1, "", ["train-bpe", "train"]),
}
"""All commands print with the same functions, so one with and one without torch are enough."""


needs_shell = pytest.mark.skipif(os.name == "nt", reason="needs a POSIX shell")


@needs_shell
@pytest.mark.parametrize(
    ("command", "redirection"),
    [
        pytest.param(command, stream, marks=pytest.mark.slow if command == "train" else [])
        for stream, (*_, tested) in STREAMS.items()
        for command in tested
    ],
)
def test_commands_finish_with_closed_and_full_streams(work, command, redirection, request):
    if "/dev/full" in redirection and not os.path.exists("/dev/full"):
        pytest.skip("only Linux has /dev/full")
    new = re.sub(r"\W", "_", request.node.name)
    words, product = WORK[command]
    line = shlex.join([sys.executable, "-m", "cs336_basics", command, *words]).format(new=new)
    done = subprocess.run(
        ["sh", "-c", f"{line} {redirection}"],
        cwd=work, capture_output=True, text=True, env=environment(), check=False,
    )  # fmt: skip
    status, error, _ = STREAMS[redirection]
    lines = [line for line in done.stderr.splitlines() if line.startswith("cs336")]
    assert done.returncode == status, done.stderr
    assert "Traceback" not in done.stderr
    assert len(lines) == bool(error)
    assert "".join(lines).startswith(error.format(command=command))
    assert (work / product.format(new=new)).exists()


def test_a_file_does_not_get_the_descriptor_of_a_closed_stream(work):
    # Otherwise the output of a library would be written to that file.
    code = (
        "import os\n"
        "from cs336_basics.commands._cli import guarded\n"
        "def work():\n"
        "    with open('product', 'wb') as file:\n"
        "        os.system('echo noise')\n"
        "        return file.fileno()\n"
        "raise SystemExit(guarded('cs336', work))\n"
    )
    line = shlex.join([sys.executable, "-c", code])
    done = subprocess.run(["sh", "-c", f"{line} <&- >&-"], cwd=work, env=environment(), check=False)
    assert done.returncode > 2
    assert (work / "product").read_bytes() == b""


@needs_shell
def test_closed_streams_are_replaced_by_descriptors_of_their_own():
    code = (
        "import os\n"
        "from cs336_basics.commands._cli import guarded\n"
        "raise SystemExit(guarded('cs336', lambda: os.write(2, b'message') - 7))\n"
    )
    line = shlex.join([sys.executable, "-c", code])
    done = subprocess.run(["sh", "-c", f"{line} <&- 2>&-"], env=environment(), check=False)
    assert done.returncode == 0
