"""Training recipes at an equal number of tokens: `python benchmarks/compare_recipes.py OUT ...`.

Each `--recipe NAME:OPTIONS` is trained with each seed, OPTIONS being those of
`python -m cs336_basics.train`, after the common ones of `--options`. A command that was
stopped continues when it is repeated; the table and the figure show the runs so far. Without
`--recipe` it compares the named configurations tinystories and speedrun.
"""

import argparse
import shlex
import statistics
import sys
from pathlib import Path

from cs336_basics._support.files import atomic_writer
from cs336_basics.checkpoints.run_dir import RunDirectory
from cs336_basics.commands._options import parse_command_line
from cs336_basics.experiments.report import as_options
from cs336_basics.experiments.runner import prepare_shared_data, run_one
from cs336_basics.training.learning_curves import plot_group

DEFAULT_RECIPES = ["tinystories:--config tinystories", "speedrun:--config speedrun"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path, help="output directory")
    parser.add_argument("--recipe", action="append", metavar="NAME:OPTIONS")
    parser.add_argument("--options", default="", help="options of all recipes, in one string")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    arguments = parser.parse_args()

    recipes = dict(recipe.split(":", 1) for recipe in arguments.recipe or DEFAULT_RECIPES)
    common = shlex.split(arguments.options)
    shared = None
    for seed in arguments.seeds:
        for name, text in recipes.items():
            words = [*shlex.split(text), *common]
            if shared is None:  # one tokenizer and one set of token files for all
                shared = prepare_shared_data(
                    parse_command_line(words).config, arguments.out / "data", print
                )
            command = [*words, *as_options(shared), "--seed", str(seed)]
            print(f"{name}, seed {seed}", flush=True)
            directory = arguments.out / "runs" / f"{name}-{seed}"
            check_same_command(directory, command)
            run_one(directory, parse_command_line([*command, "--name", directory.name]).config)
            write_comparison(arguments.out, list(recipes), arguments.seeds)
    print((arguments.out / "comparison.md").read_text())
    return 0


def check_same_command(directory, command):
    """Exit if the directory holds a run with other options."""
    record = directory.parent / f"{directory.name}.command.txt"
    text = shlex.join(command)
    if record.exists() and record.read_text() != text:
        sys.exit(f"{directory} was trained with other options: see {record}, or take another OUT")
    record.parent.mkdir(parents=True, exist_ok=True)
    record.write_text(text)


def write_comparison(out, recipes, seeds):
    """Write comparison.md, the mean validation loss over tokens, and comparison.png."""
    curves = {}
    for name in recipes:
        runs = [RunDirectory(out / "runs" / f"{name}-{seed}").read_metrics() for seed in seeds]
        runs = [rows for rows in runs if any("val_loss" in row for row in rows)]
        if runs:
            curves[name] = runs
    lines = [f"| tokens | {' | '.join(curves)} |", "|---|" + "---|" * len(curves)]
    losses = {name: losses_by_tokens(runs) for name, runs in curves.items()}
    for tokens in sorted({tokens for found in losses.values() for tokens in found}):
        cells = [show(found.get(tokens, [])) for found in losses.values()]
        lines.append(f"| {tokens:,} | {' | '.join(cells)} |")
    last = {name: [rows[-1] for rows in runs] for name, runs in curves.items()}
    for key, digits in (("val_bits_per_byte", 4), ("seconds", 0)):
        cells = [show([row[key] for row in rows if key in row], digits) for rows in last.values()]
        lines.append(f"| {key.replace('_', ' ')}, at the end | {' | '.join(cells)} |")
    with atomic_writer(out / "comparison.md", "w") as file:
        file.write("\n".join(lines) + "\n")
    lines = {
        f"{name}, mean of {len(curves[name])}": [
            {"tokens": tokens, "val_loss": statistics.mean(values)}
            for tokens, values in sorted(found.items())
            if len(values) == len(curves[name])
        ]
        for name, found in losses.items()
    }
    plot_group(out / "comparison.png", "Recipes: validation loss", lines)


def losses_by_tokens(runs):
    """Return tokens -> the validation losses of the runs there."""
    found = {}
    for rows in runs:
        for row in rows:
            if "val_loss" in row:
                found.setdefault(row["tokens"], []).append(row["val_loss"])
    return found


def show(values, digits=4):
    """Return the mean, and the standard deviation where there are several values."""
    if not values:
        return ""
    mean = f"{statistics.mean(values):.{digits}f}"
    return mean if len(values) == 1 else f"{mean} ± {statistics.stdev(values):.{digits}f}"


if __name__ == "__main__":
    sys.exit(main())
