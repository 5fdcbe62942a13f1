"""The sentences on the pages agree with the measurements."""

from benchmarks.report import sentences


def test_no_sentence_contradicts_the_measurements():
    assert sentences.contradictions() == []


def test_a_wrong_figure_is_found(monkeypatch):
    wrong = {
        r"gains (\d+) to (\d+) %": lambda: [3, 7.1],
        "Updates take most of the time": lambda: False,
        "no such sentence": lambda: True,
    }
    monkeypatch.setattr(sentences, "SENTENCES", wrong)
    assert len(sentences.contradictions()) == 3
