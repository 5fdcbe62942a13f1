"""`python -m cs336_basics playground`: the address, Ctrl-C, and the missing extra."""

import json
import os
import signal
import subprocess
import sys
import urllib.request

import pytest

from cs336_basics.__main__ import main
from tests.commands.small_run import environment, error_of
from tests.tokenizer.examples import small_tokenizer


def test_without_the_extra_the_error_names_it(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "starlette.applications", None)
    monkeypatch.delitem(sys.modules, "cs336_basics.playground.server", raising=False)
    assert main(["playground", "--no-browser"]) == 2
    assert "pip install 'cs336-basics[playground]'" in error_of(capsys, "playground")


def test_a_missing_tokenizer_and_a_wrong_port_are_one_line_errors(capsys, tmp_path):
    pytest.importorskip("uvicorn", reason="needs the playground extra")
    missing = str(tmp_path / "missing")
    for words in (["--tokenizer", missing], ["--port", "65536"], ["--port", "x"]):
        assert main(["playground", "--no-browser", *words]) == 2
        assert error_of(capsys, "playground")


@pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX signals")
def test_it_prints_its_address_answers_and_ends_with_ctrl_c(tmp_path):
    pytest.importorskip("uvicorn", reason="needs the playground extra")
    small_tokenizer().save(tmp_path / "my")
    command = [sys.executable, "-m", "cs336_basics", "playground", "--no-browser"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(
        [*command, "--tokenizer", str(tmp_path / "my")], env=environment(), **pipes
    ) as run:
        address = run.stdout.readline().split()[4]
        headers = {"Content-Type": "application/json"}
        asked = urllib.request.Request(f"{address}api/tokens", b'{"text": "the cat"}', headers)
        with urllib.request.urlopen(asked, timeout=10) as response:
            ids = [token["id"] for token in json.load(response)["tokens"]]
        assert ids == small_tokenizer().encode("the cat")
        port = address.split(":")[2].split("/")[0]
        second = subprocess.run(
            [*command, "--port", port],
            env=environment(),
            capture_output=True,
            text=True,
            timeout=30,
        )
        assert second.returncode != 0
        assert f"port {port} cannot be used" in second.stderr
        os.kill(run.pid, signal.SIGINT)
        out, err = run.communicate(timeout=10)
    assert (out, err, run.returncode) == ("", "", 0)
