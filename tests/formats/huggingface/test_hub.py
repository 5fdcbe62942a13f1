"""Files are downloaded from the Hugging Face hub, which a local server replaces in these tests."""

from __future__ import annotations

import hashlib
import json
import sys

import pytest

from cs336_basics.formats.huggingface.hub import find_or_download
from cs336_basics.tokenizer import Tokenizer
from tests.data.datasets.web_server import server  # noqa: F401 -- a fixture
from tests.formats.huggingface.test_tokenizer_json import content_of, trained
from tests.processes import run_python

pytest.importorskip("huggingface_hub")

CODE = """
import os, sys
from cs336_basics.tokenizer import Tokenizer
load = getattr(Tokenizer, os.environ.get("LOAD", "from_huggingface"))
try:
    print(load(*sys.argv[1:2], revision=(sys.argv[2:] or [None])[0]).hash())
except Exception as error:
    print(type(error).__name__, str(error))
"""


def offer(server, name, body, revision="main"):  # noqa: F811
    """Serve a `tokenizer.json` file as the hub does."""
    etag = hashlib.sha256(body).hexdigest()
    headers = {"ETag": f'"{etag}"', "X-Repo-Commit": etag[:40]}

    def do_HEAD(handler):  # huggingface_hub requests the headers first
        status, sent, content = server.answers.get(handler.path, (404, {}, b""))
        handler.send_response(status)
        for key, value in {"Content-Length": str(len(content)), **sent}.items():
            handler.send_header(key, value)
        handler.end_headers()

    server.http.RequestHandlerClass.do_HEAD = do_HEAD
    server.answers[f"/{name}/resolve/{revision}/tokenizer.json"] = (200, headers, body)


@pytest.fixture
def load(server, tmp_path):  # noqa: F811
    """Return a function that loads a tokenizer in a new process with a modified environment."""

    def load(*words, **environment):
        url = server.url.removesuffix("/mirror")
        hub = {"HF_ENDPOINT": url, "HF_HOME": str(tmp_path / "hf"), "HF_HUB_DISABLE_XET": "1",
               "HF_HUB_DISABLE_TELEMETRY": "1", "NO_PROXY": "127.0.0.1"}  # fmt: skip
        return run_python(CODE, *words, cwd=tmp_path, **{**hub, **environment}).stdout.strip()

    return load


def test_a_name_is_downloaded_from_the_endpoint_once(server, load):  # noqa: F811
    offer(server, "someone/small", json.dumps(content_of(trained("gpt2"))).encode())
    expected = trained("gpt2").hash()
    assert load("someone/small") == expected
    assert any("someone/small/resolve/main/tokenizer.json" in name for name in server.requests)
    for method in ("from_huggingface", "from_pretrained"):
        offline = load("someone/small", HF_HUB_OFFLINE="1", LOAD=method)  # from the cache
        assert offline == expected
    offer(server, "someone/small", json.dumps(content_of(trained("llama3"))).encode(), "v2")
    assert load("someone/small", "v2") == trained("llama3").hash()


@pytest.mark.parametrize(
    "environment",
    [
        {"HF_HUB_OFFLINE": "1"},
        {},  # the hub does not have the file
        # huggingface_hub retries for half a minute.
        pytest.param({"HF_ENDPOINT": "http://127.0.0.1:9"}, marks=pytest.mark.slow),
    ],
)
def test_a_failed_download_is_reported_in_one_line(server, load, environment):  # noqa: F811
    found = load("someone/absent", **environment)
    assert found.startswith("OSError 'someone/absent' does not exist, and tokenizer.json cannot be")
    assert found.count("\n") == 0
    assert len(found) < 600
    assert server.requests == []


def test_a_download_is_checked_like_a_local_file(server, load):  # noqa: F811
    offer(server, "someone/bad", b'{"model": []}')
    found = load("someone/bad")
    assert found.startswith("ValueError ")
    assert found.endswith("'model' must be an object, got []")


@pytest.mark.parametrize(
    "source", ["./absent", "a/b/c", "absent.json", "../x", "/tmp/absent/x", "a b", "-", "x/"]
)
def test_an_invalid_name_is_a_missing_file(source, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileNotFoundError, match="does not exist; pass a file, a directory, or"):
        find_or_download(source, "tokenizer.json")


def test_an_existing_directory_comes_before_the_hub(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "gpt2").mkdir()
    (tmp_path / "gpt2" / "tokenizer.json").write_text(json.dumps(content_of(trained("gpt2"))))
    assert Tokenizer.from_huggingface("gpt2").hash() == trained("gpt2").hash()


def test_a_missing_huggingface_hub_is_named_with_the_command_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(ImportError, match=r"someone/small does not exist; .* pip install hugg"):
        find_or_download("someone/small", "tokenizer.json")
