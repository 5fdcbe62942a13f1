"""The texts that benchmarks measure."""

from __future__ import annotations

from benchmarks import corpora


def test_a_small_text_says_that_larger_vocabularies_give_equal_results(tmp_path, monkeypatch):
    text = tmp_path / "text.txt"
    text.write_text("low lower newest " * 9)
    assert "a vocabulary of 269, so" in corpora.most_tokens(text)
    monkeypatch.setattr(corpora, "LARGEST_VOCAB_SIZE", 260)
    assert "260 tokens or more" in corpora.most_tokens(text)


def test_the_embedded_sample_is_announced(tmp_path, monkeypatch, capsys):
    text = tmp_path / "sample.txt"
    text.write_text("low lower newest " * 9)
    monkeypatch.setattr(corpora, "corpus_paths", dict)
    monkeypatch.setattr(corpora, "sample_file", lambda: text)
    (corpus,) = corpora.find_corpora.__wrapped__(1_000)
    assert corpus.name == "sample"
    assert "embedded sample: all its words are single tokens" in capsys.readouterr().out
