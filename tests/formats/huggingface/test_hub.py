"""Files are downloaded from the Hugging Face hub, which a local server replaces in these tests."""

from __future__ import annotations

import hashlib
import json
import sys

import pytest

from cs336_basics._support.errors import MissingFileError, UnavailableError
from cs336_basics.formats.huggingface.hub import find_or_download
from cs336_basics.tokenizer import Tokenizer
from tests.data.datasets.web_server import server  # noqa: F401 -- a fixture
from tests.errors import rejects
from tests.formats.huggingface.test_tokenizer_json import content_of, trained
from tests.processes import run_python

pytest.importorskip("huggingface_hub")

CODE = """
import sys
from cs336_basics.tokenizer import Tokenizer
for word in sys.argv[1:]:
    method, name, revision = word.split()
    try:
        print(getattr(Tokenizer, method)(name, revision=revision).hash())
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
    """Return a function that loads tokenizers in a new process with a modified environment.

    Each is given as `METHOD NAME REVISION`. The function returns a line for each: a hash or an
    error.
    """

    def load(*words, **environment):
        url = server.url.removesuffix("/mirror")
        hub = {"HF_ENDPOINT": url, "HF_HOME": str(tmp_path / "hf"), "HF_HUB_DISABLE_XET": "1",
               "HF_HUB_DISABLE_TELEMETRY": "1", "NO_PROXY": "127.0.0.1"}  # fmt: skip
        run = run_python(CODE, *words, cwd=tmp_path, **{**hub, **environment})
        return run.stdout.splitlines()

    return load


def assert_is_failed_download(error):
    assert error.startswith("OSError 'someone/absent' does not exist, and tokenizer.json cannot be")
    assert len(error) < 600


def test_a_name_is_downloaded_from_the_endpoint_once(server, load):  # noqa: F811
    offer(server, "someone/small", json.dumps(content_of(trained("gpt2"))).encode())
    offer(server, "someone/small", json.dumps(content_of(trained("llama3"))).encode(), "v2")
    main, v2 = trained("gpt2").hash(), trained("llama3").hash()
    downloads = ["from_huggingface someone/small main", "from_pretrained someone/small v2"]
    assert load(*downloads) == [main, v2]
    assert any("someone/small/resolve/main/tokenizer.json" in name for name in server.requests)
    server.requests.clear()
    cached = ["from_huggingface someone/small v2", "from_pretrained someone/small main"]
    *hashes, error = load(*cached, "from_huggingface someone/absent main", HF_HUB_OFFLINE="1")
    assert hashes == [v2, main]
    assert_is_failed_download(error)
    assert server.requests == []


def test_failed_downloads_and_invalid_files_are_reported_in_one_line(server, load):  # noqa: F811
    offer(server, "someone/bad", b'{"model": []}')
    absent, bad = load("from_huggingface someone/absent main", "from_huggingface someone/bad main")
    assert_is_failed_download(absent)
    assert bad.startswith("InputError ")
    assert bad.endswith("'model' must be an object, got []")


@pytest.mark.slow  # huggingface_hub retries for half a minute
def test_an_endpoint_that_cannot_be_reached_is_reported_in_one_line(load):
    (error,) = load("from_huggingface someone/absent main", HF_ENDPOINT="http://127.0.0.1:9")
    assert_is_failed_download(error)


@pytest.mark.parametrize(
    "source", ["./absent", "a/b/c", "absent.json", "../x", "/tmp/absent/x", "a b", "-", "x/"]
)
def test_an_invalid_name_is_a_missing_file(source, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with rejects(None, source, "hub", kind=MissingFileError):
        find_or_download(source, "tokenizer.json")


def test_an_existing_directory_comes_before_the_hub(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "gpt2").mkdir()
    (tmp_path / "gpt2" / "tokenizer.json").write_text(json.dumps(content_of(trained("gpt2"))))
    assert Tokenizer.from_huggingface("gpt2").hash() == trained("gpt2").hash()


def test_a_missing_huggingface_hub_is_named_with_the_command_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with rejects(None, "someone/small", kind=UnavailableError):
        find_or_download("someone/small", "tokenizer.json")
