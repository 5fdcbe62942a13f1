"""The benchmark of dropout checks the ids, and compares each probability with none."""

from benchmarks.encoding.dropout import main
from cs336_basics import Tokenizer, train_bpe
from tests.texts import long_text


def test_a_row_describes_each_probability(tmp_path, capsys):
    path = tmp_path / "text.txt"
    path.write_text(long_text(7, 20_000), encoding="utf-8")
    Tokenizer(*train_bpe(path, 320, [])).save(tmp_path / "tokenizer")
    main([str(tmp_path / "tokenizer"), str(path), "--rounds", "1"])
    rows = [line.split("|") for line in capsys.readouterr().out.splitlines() if "%" in line]
    assert [float(row[1]) for row in rows] == [0, 0.01, 0.1, 0.3, 0.6]
    assert float(rows[0][3]) == 1
    more = [int(row[4].strip().rstrip("%")) for row in rows]
    assert more[0] == 0 < more[2] < more[3] < more[4]
