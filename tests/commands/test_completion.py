"""`cs336 completion`: shell scripts that complete every command and option."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from cs336_basics.commands import COMMANDS
from tests.commands.small_run import command

completion = command("completion")


@pytest.mark.parametrize("shell", ["bash", "zsh", "tcsh"])
def test_a_script_contains_every_command(shell, capsys):
    pytest.importorskip("shtab")
    assert completion([shell]) == 0
    script = capsys.readouterr().out
    assert all(name in script for name in COMMANDS)


def test_bash_completes_commands_and_options(capsys, tmp_path):
    pytest.importorskip("shtab")
    bash = shutil.which("bash") or pytest.skip("needs bash")
    assert completion(["bash"]) == 0
    (tmp_path / "script").write_text(capsys.readouterr().out)
    code = (
        f"source {tmp_path}/script; COMP_WORDS=(cs336 $1 $2); COMP_CWORD=$3; _shtab_cs336;"
        'echo "${COMPREPLY[@]}"'
    )
    for words, found in ((["enc", "", "1"], "encode"), (["train", "--model.d-m", "2"], "d-model")):
        run = [bash, "-c", code, "bash", *words]
        assert found in subprocess.run(run, capture_output=True, text=True, check=True).stdout
