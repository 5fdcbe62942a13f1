"""`python -m cs336_basics playground`: the address, Ctrl-C, and the missing extra."""

import json
import re
import signal
import sys
import time
import urllib.request

import pytest

from cs336_basics.__main__ import main
from tests.commands.small_run import error_of, start
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
def test_it_prints_its_address_answers_and_ends_with_ctrl_c_in_the_middle_of_a_stream(tmp_path):
    pytest.importorskip("uvicorn", reason="needs the playground extra")
    small_tokenizer().save(tmp_path / "my")
    with start("playground", "--no-browser", "--tokenizer", tmp_path / "my") as run:
        address = run.stdout.readline().split()[4]
        port = re.fullmatch(r"http://127\.0\.0\.1:(\d+)/[\w-]{20,}/", address)[1]

        def ask(name, body):
            headers = {"Content-Type": "application/json"}
            asked = urllib.request.Request(f"{address}api/{name}", body, headers)
            return urllib.request.urlopen(asked, timeout=10)

        with ask("tokens", b'{"text": "the cat"}') as response:
            ids = [token["id"] for token in json.load(response)["tokens"]]
        assert ids == small_tokenizer().encode("the cat")
        with start("playground", "--no-browser", "--port", port) as second:
            assert f"port {port} cannot be used" in second.communicate(timeout=30)[1]
        assert second.returncode != 0
        race = ask("race", b'{"merges": 5000, "seconds": 60}')
        assert json.loads(race.readline())["stage"] == "naive"
        begun = time.monotonic()
        run.send_signal(signal.SIGINT)
        assert run.communicate(timeout=10) == ("", "")
        assert time.monotonic() - begun < 3
    assert run.returncode == 0
