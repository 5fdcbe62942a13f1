"""The sentences on the pages agree with the measurements."""

from benchmarks.report import sentences


def test_no_sentence_contradicts_the_measurements():
    assert sentences.contradictions() == []


def test_a_wrong_figure_is_found(monkeypatch):
    wrong = (
        "stages.md",
        r"gains (\d+) to (\d+) %",
        lambda low, high: sentences.between(30, 50, [1]),
    )
    absent = ("stages.md", "no such sentence", lambda: True)
    monkeypatch.setattr(sentences, "SENTENCES", [wrong, absent])
    assert len(sentences.contradictions()) == 2
