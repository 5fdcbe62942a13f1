"""`python -m cs336_basics decode`, and the ids printed by `encode`."""

import pytest

from cs336_basics import Tokenizer
from tests.commands.small_run import command, pipe
from tests.tokenizer.examples import END, byte_tokenizer, small_tokenizer

encode, decode = command("encode"), command("decode")
TEXT = b"the cat sat on the mat\r\nna\xc3\xafve \xf0\x9f\x98\x80 and a half: \xff\n"


@pytest.fixture
def work(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    small_tokenizer().save(tmp_path / "tok")
    (tmp_path / "a.txt").write_bytes(TEXT)
    return tmp_path


def encoded(*options):
    words = ["--tokenizer", "tok", "--errors", "bytes", "--num-workers", "1", *options]
    assert encode(words) == 0


@pytest.mark.parametrize("source", ["a.npy", "ids.txt", "-"])
def test_decoding_restores_every_byte(work, monkeypatch, capsysbinary, source):
    encoded("--input", "a.txt", "--output", "a.npy")
    capsysbinary.readouterr()
    encoded("--input", "a.txt", "--output", "-")
    ids = capsysbinary.readouterr().out
    assert Tokenizer.from_directory("tok").decode_bytes(map(int, ids.split())) == TEXT
    (work / "ids.txt").write_bytes(ids.replace(b" ", b"\n\t "))
    for data in (ids, (work / "a.npy").read_bytes()):
        pipe(monkeypatch, data)
        assert decode(["--tokenizer", "tok", "--input", source]) == 0
        assert capsysbinary.readouterr().out == TEXT
        pipe(monkeypatch, data)
        words = ["--tokenizer", "tok", "--input", source, "--output", "out.txt", "--overwrite"]
        assert decode(words) == 0
        assert (work / "out.txt").read_bytes() == TEXT
        assert capsysbinary.readouterr().out == b""


@pytest.mark.parametrize("source", ["a.npy", "ids.txt"])
def test_special_tokens_can_be_left_out(work, capsysbinary, source):
    (work / "a.txt").write_bytes(f"the cat{END}{END}sat{END}".encode())
    encoded("--input", "a.txt", "--output", "a.npy")
    capsysbinary.readouterr()
    encoded("--input", "a.txt", "--output", "-")
    (work / "ids.txt").write_bytes(capsysbinary.readouterr().out)
    assert decode(["--tokenizer", "tok", "--input", source, "--skip-special-tokens"]) == 0
    assert capsysbinary.readouterr().out == b"the catsat"


def test_each_document_is_printed_as_one_line_of_ids(work, capsys):
    (work / "rows.jsonl").write_text('{"text": "the cat"}\n{"text": ""}\n{"text": "sat"}\n')
    encoded("--input", "rows.jsonl", "--field", "text", "--output", "-")
    lines = capsys.readouterr().out.splitlines()
    tokenizer = Tokenizer.from_directory("tok")
    assert [tokenizer.decode(map(int, line.split())) for line in lines] == ["the cat", "sat"]


def test_a_long_document_is_printed_and_read_in_blocks(work, capsysbinary):
    text = b"the cat sat. " * 40_000
    (work / "long.txt").write_bytes(text)
    encoded("--input", "long.txt", "--output", "-")
    ids = capsysbinary.readouterr().out
    assert ids.count(b"\n") == 1
    assert len(ids.split()) > 1 << 16
    (work / "ids").write_bytes(ids)
    assert decode(["--tokenizer", "tok", "--input", "ids"]) == 0
    assert capsysbinary.readouterr().out == text


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        (b"1 2 x", "word 3 is 'x'"),
        (b"[1, 2]", "or ids with only whitespace between them, but word 1 is '[1,'"),
        (b"1 -2", "word 2 is '-2'"),
        (b"1 2.0", "word 2 is '2.0'"),
        (b"9" * 1_000_000, "word 1 is "),
        (b"1 " * 40_000 + b"y", "word 40,001 is 'y'"),
        (b"99999999", "error: ids: id 99999999"),
        ("\u0661".encode(), "word 1 is "),
    ],
)
def test_the_error_for_an_invalid_id_shows_it(work, capsys, ids, message):
    (work / "ids").write_bytes(ids)
    assert decode(["--tokenizer", "tok", "--input", "ids", "--output", "out.txt"]) == 2
    printed = capsys.readouterr().err
    assert message in printed
    assert len(printed) < 400
    assert not (work / "out.txt").exists()


def test_a_token_file_of_another_tokenizer_is_rejected(work, capsys):
    encoded("--input", "a.txt", "--output", "a.npy")
    byte_tokenizer().save(work / "other")
    assert decode(["--tokenizer", "other", "--input", "a.npy"]) == 2
    assert "another tokenizer" in capsys.readouterr().err


def test_existing_files_and_inputs_are_not_replaced(work, capsys):
    (work / "ids").write_text("1 2")
    words = ["--tokenizer", "tok", "--input", "ids", "--output"]
    assert decode([*words, "a.txt"]) == 2
    assert decode([*words, "ids", "--overwrite"]) == 2
    assert (work / "a.txt").read_bytes() == TEXT
