from __future__ import annotations

from cs336_basics.training.learning_curves import plot_group


def test_every_run_that_took_a_step_has_its_curve(tmp_path, monkeypatch):
    legends = []

    def note(figure, *_, **__):
        legends.append([text.get_text() for text in figure.axes[0].get_legend().get_texts()])

    monkeypatch.setattr("matplotlib.figure.Figure.savefig", note)
    training = {"step": 1, "tokens": 64, "train_loss": 5.0}
    validation = {"step": 1, "tokens": 64, "val_loss": 5.0}
    curves = {"whole": [training, validation], "diverged": [training], "missing": []}
    plot_group(tmp_path / "curves.png", "Curves", curves)
    assert legends == [["whole", "diverged"]]
