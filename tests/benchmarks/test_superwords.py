"""The comparison of superwords and plain BPE runs on any text."""

from benchmarks.stages.superwords import main
from tests.texts import long_text


def test_a_row_compares_the_held_out_text(tmp_path, capsys):
    path = tmp_path / "text.txt"
    path.write_text(long_text(7, 40_000), encoding="utf-8")
    main([str(path), "--vocab-size", "400", "--superwords-from", "350"])
    row = capsys.readouterr().out.splitlines()[-1].split("|")
    assert row[1].strip() == "text"
    assert 1 < float(row[3]) < 10
    assert 1 < float(row[4]) < 10
    assert row[5].strip().endswith("%")
