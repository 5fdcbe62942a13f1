"""The notebook docs/tour.ipynb goes from text to a story, cell by cell.

Its cells are plain Python, so the tests run them without Jupyter. If Jupyter's packages are
installed, `pytest -m slow` also runs the notebook there.
"""

import ast
import json
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="needs the torch extra")
plt = pytest.importorskip("matplotlib.pyplot", reason="needs the torch extra")

TOUR = Path(__file__).parents[1] / "docs" / "tour.ipynb"
NOTEBOOK = json.loads(TOUR.read_text(encoding="utf-8"))
CELLS = [cell for cell in NOTEBOOK["cells"] if cell["cell_type"] == "code"]
SOURCES = {cell["id"]: "".join(cell["source"]) for cell in CELLS}


def run_cells(sources):
    """Run cells in one namespace. Return the namespace, and a dict of the values that they show."""
    names, shown = {"__name__": "tour"}, {}
    for name, source in sources.items():
        tree = ast.parse(source)
        last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, f"cell {name}", "exec"), names)
        if last is not None:
            shown[name] = eval(compile(ast.Expression(last.value), f"cell {name}", "eval"), names)
    return names, shown


@pytest.fixture(autouse=True)
def no_windows():
    plt.switch_backend("agg")
    yield
    plt.close("all")


def test_ten_cells_lead_from_text_to_a_story(capsys):
    few = {**SOURCES, "training": SOURCES["training"].replace("steps = 400", "steps = 12")}
    assert few != SOURCES
    names, shown = run_cells(few)
    for cell, part in {"words": "·the", "tokens": "&lt;|endoftext|&gt;", "model": "head"}.items():
        assert part in shown[cell]._repr_html_()
    assert names["losses"][-1] < names["losses"][0]
    assert names["story"].startswith("Once upon a time")
    assert names["story"] in capsys.readouterr().out
    assert names["axes"].get_lines()


@pytest.mark.slow
def test_jupyter_runs_the_notebook():
    nbclient = pytest.importorskip("nbclient", reason="needs nbclient")
    pytest.importorskip("ipykernel", reason="needs ipykernel")
    import nbformat

    notebook = nbformat.read(TOUR, as_version=4)
    nbformat.validate(notebook)
    nbclient.NotebookClient(notebook, timeout=600, kernel_name="python3").execute()
    outputs = [cell.outputs for cell in notebook.cells if cell.cell_type == "code"]
    shown = {cell: outputs[number][0].get("data", {}) for number, cell in enumerate(SOURCES)}
    for cell in ("words", "tokens", "model"):
        assert "text/html" in shown[cell]
    assert "image/png" in shown["curve"]
    assert outputs[-1][0].text.startswith("Once upon a time")
