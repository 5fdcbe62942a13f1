"""`python -m cs336_basics download`: the files it fetches and the lines it prints."""

import socket

from tests.commands.small_run import command
from tests.data.datasets.web_server import PACKED, TEXT, names_in

download = command("download")


def test_the_command_fetches_both_splits(server, tmp_path, capsys):
    server.offer("owt_train.txt.gz", PACKED)
    server.offer("owt_valid.txt.gz", PACKED)
    arguments = ["owt", "--data-dir", str(tmp_path), "--from", server.url]
    assert download(arguments) == 0
    output = capsys.readouterr().out
    assert f"{tmp_path / 'owt_train.txt'}  {len(TEXT):,} bytes\n" in output
    assert f"{tmp_path / 'owt_valid.txt'}  {len(TEXT):,} bytes\n" in output
    assert download(arguments) == 0
    assert capsys.readouterr().out.count("exists; --force downloads it again") == 2
    assert len(server.requests) == 2


def test_without_a_network_it_sets_status_1_and_prints_one_line(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with socket.socket() as free:  # bound, but not listening
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
        assert download(["tinystories", "--from", url, "--data-dir", str(tmp_path)]) == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    address = f"{url}/TinyStoriesV2-GPT4-train.txt"
    assert error.startswith(f"cs336 download: error: cannot fetch {address}: ")
    assert names_in(tmp_path) == []
