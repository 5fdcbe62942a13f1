"""The benchmark of parity-aware training checks the merges, and compares two trainings."""

from benchmarks.stages.parity import main
from tests.texts import long_text


def test_a_row_describes_each_training(tmp_path, capsys):
    paths = [tmp_path / "a.txt", tmp_path / "b.txt"]
    paths[0].write_text(long_text(7, 20_000), encoding="utf-8")
    paths[1].write_text("xyz yzx zzy\n" * 900, encoding="utf-8")
    main([*map(str, paths), "--vocab-size", "300", "--rounds", "2"])
    lines = capsys.readouterr().out.splitlines()
    rows = {row[1].strip(): row for row in (line.split("|") for line in lines) if len(row) == 6}
    assert float(rows["parity"][3]) >= float(rows["together"][3]) > 1
    assert 0 <= float(rows["parity"][4]) < float(rows["together"][4]) < 1
    assert lines[-1].startswith("parity takes ")
