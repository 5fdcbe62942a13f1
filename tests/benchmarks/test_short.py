"""The benchmark of short calls compares the libraries that give the same ids."""

from benchmarks.encoding import short
from cs336_basics import Tokenizer, train_bpe


def test_a_cell_times_the_libraries_with_equal_ids(tmp_path, capsys):
    path = tmp_path / "text.txt"
    path.write_text("the cat sat on the mat" * 20)
    tokenizer = Tokenizer(*train_bpe(path, 270, [short.EOT]), [short.EOT])
    functions = short.ours(tokenizer, None)
    for operation, argument in (("array", ["the cat"] * 3), ("arrays", ["a"]), ("decode", [1])):
        libraries = {"ours": functions[operation], "wrong": lambda _: ["x"]}
        times = short.measure(libraries, operation, argument, 2)
        assert list(times) == ["ours"]
        assert len(times["ours"]) == 2
        assert min(times["ours"]) > 0
    assert "wrong is left out" in capsys.readouterr().out
    assert functions["stream"](tokenizer.encode("the cat")) == "the cat"
