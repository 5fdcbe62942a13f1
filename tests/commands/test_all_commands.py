"""What holds for every command: help pages, the form of errors, exit statuses, Ctrl-C, pipes."""

from __future__ import annotations

import functools
import importlib
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import cs336_basics
from cs336_basics.__main__ import main
from cs336_basics.bpe import TRAINERS
from cs336_basics.bpe.unbuilt import unbuilt_trainer
from cs336_basics.checkpoints.run_dir import RunDirectory
from cs336_basics.commands import COMMANDS
from cs336_basics.commands._cli import run_command
from cs336_basics.commands._parser import Parser
from tests.commands.small_run import TINY, environment

ROOT = Path(__file__).resolve().parents[2]


def parser_of(command):
    module = importlib.import_module(f"cs336_basics.commands.{command.replace('-', '_')}")
    return module.build_parser()


def start(*words, **settings):
    return subprocess.Popen(
        [sys.executable, "-m", "cs336_basics", *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
        # The test runner may ignore SIGINT, as a shell does for background processes.
        preexec_fn=functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
        **settings,
    )


def complaint(capsys, command):
    """The one line that a command printed on standard error, without its beginning."""
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1, printed.err
    assert printed.err.startswith(f"cs336 {command}: error: ")
    return printed.err.removeprefix(f"cs336 {command}: error: ").rstrip("\n")


# The list of commands.


@pytest.mark.parametrize("words", [[], ["--help"]])
def test_without_arguments_the_commands_are_listed_in_the_order_of_use(words, capsys):
    assert main(words) == 0
    lines = capsys.readouterr().out.splitlines()
    listed = [line.split()[0] for line in lines if line.startswith("  ")]
    assert listed == [
        "datasets",
        "download",
        "train-bpe",
        "compare",
        "tokens",
        "prune",
        "encode",
        "train",
        "estimate",
        "plot",
        "generate",
        "export",
        "experiments",
    ]
    assert max(map(len, lines)) <= 80


def test_version_is_printed_with_the_state_of_the_build(capsys, monkeypatch):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"cs336 {cs336_basics.__version__} (compiled)\n"
    monkeypatch.setitem(TRAINERS, "native", unbuilt_trainer("native"))
    assert main(["--version"]) == 0
    assert "(pure Python: the extensions are not built" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("trian", "unrecognized command 'trian': did you mean train?"),
        ("trainbpe", "unrecognized command 'trainbpe': did you mean train-bpe?"),
        ("--versoin", "unrecognized option '--versoin'"),
    ],
)
def test_an_unknown_command_suggests_the_nearest(word, message, capsys):
    assert main([word]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"cs336: error: {message}")
    assert error.count("\n") == 1


def test_the_console_script_is_the_same_program():
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert '[project.scripts]\ncs336 = "cs336_basics.__main__:main"\n' in text


@pytest.mark.parametrize("words", [[], ["train-bpe", "--help"], ["encode", "--vocab"]])
def test_commands_on_text_do_not_import_torch(words):
    code = f"""
import sys
from cs336_basics.__main__ import main
main({words!r})
print("torch" in sys.modules)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment(), check=True
    )
    assert done.stdout.splitlines()[-1] == "False"


# Help pages.


@pytest.mark.parametrize("command", COMMANDS)
def test_help_is_one_page_of_examples_and_common_options(command, capsys):
    assert main([command, "--help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 40
    assert max(map(len, lines)) <= 80
    page = "\n".join(lines)
    assert page.index("examples:") < page.index("options:")
    assert f"python -m cs336_basics {command}" in page


@pytest.mark.parametrize("command", COMMANDS)
def test_help_all_shows_every_option_with_its_help(command):
    parser = parser_of(command)
    page = parser.format_help(all_options=True)
    assert max(map(len, page.splitlines())) <= 80
    for option in parser.options.values():
        name = option.name if option.name.startswith("--") else option.action.metavar
        rows = re.findall(r"^  (\S+)", page, re.MULTILINE)
        assert rows.count(name) == 1
        assert option.action.help


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_is_parsed(command):
    """With the value that its kind takes; and with _ for - in its name."""
    for option in parser_of(command).options.values():
        if option.name.startswith("--"):
            parser = parser_of(command)
            for needed in parser.options.values():
                needed.required = False
            words = [option.name.replace("-", "_").replace("__", "--", 1)]
            if option.takes_value:
                words.append(a_value(option))
            found = parser.parse(words)
            assert hasattr(found, option.action.dest)
            assert getattr(found, option.action.dest) not in (None, False, [])


def a_value(option):
    """A value that an option takes."""
    if option.name == "--split":
        return "valid"
    words = "3 huggingface replace heap lexicographic step cpu sample json f32"
    for value in words.split():
        try:
            option.action.type(value) if option.action.type else None
        except Exception:
            continue
        return value
    raise AssertionError(f"no value for {option.name}")


def test_the_examples_of_the_help_pages_are_parsed():
    for command in COMMANDS:
        page = parser_of(command).format_help()
        section = page.partition("examples:\n")[2].partition("\n\n")[0]
        examples = section.replace("\\\n", " ").splitlines()
        assert len(examples) >= 1
        for example in examples:
            words = shlex.split(example)
            assert words[:4] == ["python", "-m", "cs336_basics", command]
            parser_of(command).parse(words[4:])


# Errors.


@pytest.mark.parametrize("command", COMMANDS)
def test_a_misspelt_option_suggests_the_nearest(command, capsys):
    options = [name for name in parser_of(command).options if name.startswith("--")]
    longest = max(options, key=len)
    misspelt = longest[:-2] + longest[-1]
    assert main([command, misspelt, "3"]) == 2
    assert complaint(capsys, command) == (
        f"unrecognized option {misspelt}: did you mean {longest}? "
        f"(see 'python -m cs336_basics {command} --help')"
    )


REQUIRED = {
    "download": "DATASET is required",
    "train-bpe": "--output DIR and --vocab-size N are required",
    "encode": "--tokenizer DIR, --input FILE ... and --output FILE.npy are required",
    "tokens": "--tokenizer DIR and --input FILE ... are required",
    "prune": "--tokenizer DIR, --input FILE ..., --vocab-size N and --output DIR are required",
    "plot": "RUN ... is required",
    "generate": "--run DIR is required",
    "export": "--to FORMAT and --output PATH are required",
    "experiments": "--scale NAME is required",
}


@pytest.mark.parametrize("command", REQUIRED)
def test_missing_arguments_are_named(command, capsys):
    assert main([command]) == 2
    assert complaint(capsys, command).startswith(f"{REQUIRED[command]} (see ")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["download", "tinystorys"], "DATASET is 'tinystorys': did you mean tinystories?"),
        (["download", "--split", "tets", "owt"], "--split is 'tets': it must be train, valid or"),
        (["train-bpe", "--vocab-size", "many"], "--vocab-size is 'many': it must be an integer"),
        (["train-bpe", "--vocab-size"], "--vocab-size expected one argument"),
        (["train-bpe", "--vocab", "9"], "unrecognized option --vocab"),  # no abbreviations
        (["train-bpe", "stray"], "unexpected argument 'stray'"),
        (["train-bpe", "input", "x"], "unexpected argument 'input': did you mean --input?"),
        (["encode", "--errors", "strikt"], "--errors is 'strikt': did you mean strict?"),
        (["encode", "--num-workers", "0"], "--num-workers is 0: it must be at least 1"),
        (["train", "--batch-size", "x"], "--batch-size is 'x': it must be an integer"),
        (["train", "--d-model", "3"], "unrecognized option --d-model: did you mean --model.d-mo"),
        (["train", "stray"], "unexpected argument 'stray'"),
        (["estimate", "--precision", "float64"], "--precision is 'float64': it must be one of"),
        (["plot", "x", "--x", "stepp"], "--x is 'stepp': did you mean step?"),
        (["plot", "x", "--ymax", "high"], "--ymax is 'high': it must be a number"),
        (["generate", "--prompt", "-x"], "unrecognized option -x; as the value of --prompt, write"),
        (["generate", "--seed", "1.5"], "--seed is '1.5': it must be an integer"),
        (["export", "--to", "hugingface"], "--to is 'hugingface': did you mean huggingface?"),
        (["experiments", "--scale", "cp"], "--scale is 'cp': did you mean cpu?"),
    ],
)
def test_a_wrong_command_line_gives_one_line(words, message, capsys):
    assert main(words) == 2
    assert message in complaint(capsys, words[0])


@pytest.fixture
def files(tmp_path, monkeypatch):
    """A text, a tokenizer, a run with metrics, and a file that no directory can be made in."""
    monkeypatch.chdir(tmp_path)
    Path("text.txt").write_text("the cat sat on the mat " * 50)
    Path("file").write_text("")
    words = ["--input", "text.txt", "--vocab-size", "260", "--output", "tok"]
    assert main(["train-bpe", *words, "--num-workers", "1"]) == 0
    run = RunDirectory("run")
    run.create()
    run.append_metrics({"step": 1, "tokens": 1, "train_loss": 1.0}, {"seconds": 1.0})
    return tmp_path


TRAIN_BPE = ["train-bpe", "--vocab-size", "260", "--num-workers", "1"]
ENCODE = ["encode", "--tokenizer", "tok", "--num-workers", "1"]


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ([*TRAIN_BPE, "--output", "new", "--input", "none.txt"], "none.txt"),
        ([*TRAIN_BPE, "--output", "new", "--counts", "none.npz"], "none.npz"),
        ([*ENCODE, "--output", "new.npy", "--input", "none.txt"], "none.txt"),
        (["encode", "--tokenizer", "none", "--output", "new.npy", "--input", "text.txt"], "none"),
        (["train", "--run-dir", "new", "--data.train-path", "none.txt"], "none.txt"),
        (["train", "--run-dir", "new", "--data.tokenizer", "none"], "none"),
        (["train", "--config", "none.yaml"], "none.yaml"),
        (["train", "--resume", "none"], "none"),
        (["estimate", "--config", "none.yaml"], "none.yaml"),
        (["plot", "none"], "none"),
        (["generate", "--run", "none"], "none"),
        (["experiments", "--scale", "test", "--out", "new", "--train-path", "no.txt"], "no.txt"),
    ],
)
def test_a_missing_file_is_named_and_nothing_is_left_behind(files, words, name, capsys):
    before = sorted(path.name for path in files.iterdir())
    capsys.readouterr()
    assert main(words) == 2
    message = complaint(capsys, words[0])
    assert name in message
    assert "Errno" not in message
    assert sorted(path.name for path in files.iterdir()) == before


@pytest.mark.parametrize(
    "words",
    [
        [*TRAIN_BPE, "--output", "new", "--input", "tok"],
        [*TRAIN_BPE, "--output", "new", "--counts", "tok"],
        [*ENCODE, "--output", "new.npy", "--input", "tok"],
        ["train", "--run-dir", "new", "--data.train-path", "tok"],
        ["train", "--config", "tok"],
    ],
)
def test_a_directory_where_a_file_is_expected_is_named(files, words, capsys):
    before = sorted(path.name for path in files.iterdir())
    capsys.readouterr()
    assert main(words) == 2
    message = complaint(capsys, words[0])
    assert "tok" in message
    assert "Errno" not in message
    assert sorted(path.name for path in files.iterdir()) == before


@pytest.mark.parametrize(
    "words",
    [
        [*TRAIN_BPE, "--input", "text.txt", "--output", "file/new"],
        [*ENCODE, "--input", "text.txt", "--output", "file/new.npy"],
        ["train", "--run-dir", "file/new"],
        ["plot", "run", "--output", "file/new.png"],
        ["experiments", "--scale", "test", "--out", "file/new"],
        ["download", "sample", "--data-dir", "file/new"],
    ],
)
def test_an_output_that_cannot_be_written_is_named(files, words, capsys):
    capsys.readouterr()
    assert main(words) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert error.startswith(f"cs336 {words[0]}: error: cannot write ")
    assert error.endswith(": Not a directory\n")
    assert "file/new" in error


def test_a_library_error_is_explained_in_options(files, capsys):
    shutil.copy("text.txt", "rows.jsonl")
    capsys.readouterr()
    assert main([*ENCODE, "--input", "rows.jsonl", "--output", "new.npy"]) == 2
    assert complaint(capsys, "encode").endswith(
        "rows.jsonl holds JSON lines, and nothing says which field has the text: give --field text"
    )
    Path("bad.txt").write_bytes(b"the \xff")
    words = ["--input", "bad.txt", "--errors", "strict", "--output", "new.npy"]
    assert main([*ENCODE, *words]) == 2
    assert "--errors replace" in complaint(capsys, "encode")
    Path("tok2").mkdir()
    words = ["--input", "text.txt", "--output", "tok"]
    assert main([*TRAIN_BPE, *words]) == 2
    assert complaint(capsys, "train-bpe").endswith("pass --overwrite")


def test_an_option_that_replaces_is_named_once(files, capsys):
    words = [*ENCODE, "--input", "text.txt", "--output", "new.npy"]
    assert main(words) == 0
    capsys.readouterr()
    assert main(words) == 2
    message = complaint(capsys, "encode")
    assert message.endswith("or replace it with --overwrite")


def test_a_very_long_error_has_its_beginning_and_its_end(capsys):
    parser = Parser("train", "", [])

    def work(_options):
        raise RuntimeError("first\n" + "warning: unused variable\n" * 4000 + "last")

    assert run_command(parser, work, []) == 1
    error = capsys.readouterr().err
    assert error.startswith("cs336 train: error: first warning: ")
    assert re.search(r" \[\.\.\. [\d,]+ characters left out \.\.\.\] ", error)
    assert error.endswith("unused variable last\n")
    assert (error.count("\n"), len(error) < 2100) == (1, True)


def test_a_traceback_is_shown_on_request(capsys, monkeypatch):
    monkeypatch.setenv("CS336_TRACEBACK", "1")
    with pytest.raises(ValueError, match="--vocab-size N is required"):
        main(["train-bpe", "--output", "x"])


# Ctrl-C and pipes, in separate processes.


@pytest.mark.skipif(os.name == "nt", reason="signals are those of POSIX")
@pytest.mark.parametrize("command", ["train-bpe", "train", "experiments"])
def test_ctrl_c_ends_with_130_and_one_line(tmp_path, command):
    words = {
        # A regular expression that is slow on this text.
        "train-bpe": ["--input", "long.txt", "--vocab-size", "300", "--output", "out",
                      "--pattern", r"\p{L}+?(?=\s|$)|\s", "--num-workers", "1"],
        "train": ["--run-dir", "run", "--max-steps", "100000", "--num-workers", "1"],
        "experiments": ["--scale", "cpu", "--out", "out", "--num-workers", "1"],
    }[command]  # fmt: skip
    with open(tmp_path / "long.txt", "w") as file:
        file.writelines(f"{'word' * 8}{number} " * 50 for number in range(40_000))
    process = start(command, *words, cwd=tmp_path, start_new_session=True)
    begun = {"train-bpe": "out", "train": "run/data", "experiments": "out/data"}[command]
    deadline = time.monotonic() + 120
    while not (tmp_path / begun).exists() and process.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)
    _, error = process.communicate(timeout=120)
    assert process.returncode == 130, error
    lines = [line for line in error.splitlines() if line.strip()]
    assert lines[-1].startswith(f"cs336 {command}: interrupted")
    assert "Traceback" not in error
    assert (tmp_path / "out").exists() == (command == "experiments")


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["train", "--help-all"],
        *(
            pytest.param([command, "--help-all"], marks=pytest.mark.slow)
            for command in COMMANDS
            if command != "train"
        ),
    ],
)
def test_a_closed_pipe_is_not_an_error(words):
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", "cs336_basics", *words],
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
        check=False,
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_closed_pipe_is_not_an_error_of_any_command():
    """All in one process; each gets a new pipe."""
    code = f"""
import os
from cs336_basics.__main__ import main
for command in {list(COMMANDS)}:
    reader, writer = os.pipe()
    os.close(reader)
    os.dup2(writer, 1)
    os.close(writer)
    assert main([command, "--help-all"]) == 0, command
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment(), check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


# Standard streams that are closed or full. The work is done all the same.


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """Files to work on, and for every command a line that writes a file (or only prints)."""
    folder = tmp_path_factory.mktemp("work")
    (folder / "text.txt").write_text("the cat sat on the mat " * 50)
    (folder / "tiny.yaml").write_text(TINY)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        words = ["--input", "text.txt", "--vocab-size", "260", "--output", "tok"]
        assert main(["train-bpe", *words]) == 0
        assert main(["train", "--config", "tiny.yaml", "--run-dir", "run"]) == 0
    return folder


WORK = {
    "datasets": (["list", "--data-dir", "{new}"], None),
    "download": (["sample", "--split", "valid", "--data-dir", "{new}"], "{new}"),
    "train-bpe": (["--input", "text.txt", "--vocab-size", "260", "--output", "{new}"], "{new}"),
    "encode": (
        ["--tokenizer", "tok", "--input", "text.txt", "--output", "{new}.npy"],
        "{new}.npy",
    ),
    "train": (
        ["--config", "tiny.yaml", "--max-steps", "2", "--run-dir", "{new}"],
        "{new}/metrics.jsonl",
    ),
    "estimate": (["--config", "tiny.yaml", "--no-measure"], None),
    "plot": (["run", "--output", "{new}.png"], "{new}.png"),
    "generate": (["--run", "run", "--max-new-tokens", "3"], None),
    "compare": (["--tokenizer", "tok", "--input", "text.txt"], None),
    "tokens": (
        ["--tokenizer", "tok", "--input", "text.txt", "--output", "{new}.npy"],
        "{new}.npy",
    ),
    "prune": (
        ["--tokenizer", "tok", "--input", "text.txt", "--vocab-size", "258", "--output", "{new}"],
        "{new}",
    ),
    "export": (["--tokenizer", "tok", "--to", "gpt2", "--output", "{new}"], "{new}"),
    "experiments": (["--scale", "test", "--out", "{new}"], "{new}"),
}
STREAMS = {
    # shell redirection: exit status, what standard error holds
    ">&-": (0, ""),
    "2>&-": (0, ""),
    "<&- >&- 2>&-": (0, ""),
    "2>/dev/full": (0, ""),
    ">/dev/full": (1, "cs336 {command}: error: cannot write standard output: No space left on "),
}
# All commands print with the same functions. Importing torch takes seconds, and the experiments are
# many runs: other combinations are slow tests.
QUICK_STREAMS = {
    **dict.fromkeys(STREAMS, ("train-bpe",)),
    "<&- >&- 2>&-": ("train-bpe", "generate"),
    ">/dev/full": ("train-bpe", "encode", "train", "export"),
}


@pytest.mark.skipif(os.name == "nt", reason="the redirections are those of a POSIX shell")
@pytest.mark.parametrize(
    ("command", "redirection"),
    [
        pytest.param(
            command,
            redirection,
            marks=[] if command in QUICK_STREAMS[redirection] else [pytest.mark.slow],
        )
        for command in COMMANDS
        for redirection in STREAMS
        if command in ("download", "train-bpe", "encode")
        or redirection == ">/dev/full"
        or (redirection == "<&- >&- 2>&-" and command == "generate")
    ],
)
def test_closed_and_full_streams_do_not_end_the_work(work, command, redirection, request):
    if "/dev/full" in redirection and not os.path.exists("/dev/full"):
        pytest.skip("only Linux has /dev/full")
    new = re.sub(r"\W", "_", request.node.name)
    words, product = WORK[command]
    line = shlex.join([sys.executable, "-m", "cs336_basics", command, *words]).format(new=new)
    done = subprocess.run(
        ["sh", "-c", f"{line} {redirection}"],
        cwd=work, capture_output=True, text=True, env=environment(), check=False,
    )  # fmt: skip
    status, error = STREAMS[redirection]
    lines = [line for line in done.stderr.splitlines() if line.startswith("cs336")]
    assert done.returncode == status, done.stderr
    assert "Traceback" not in done.stderr
    assert len(lines) == bool(error)
    assert "".join(lines).startswith(error.format(command=command))
    assert product is None or (work / product.format(new=new)).exists()


def test_a_file_does_not_take_the_number_of_a_closed_stream(work):
    """Else what a library prints would be written into it."""
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
