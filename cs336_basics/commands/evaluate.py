"""`python -m cs336_basics evaluate`: the loss, perplexity and bits per byte of models on text."""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from cs336_basics._support.errors import Argument, InputError
from cs336_basics._support.files import atomic_writer
from cs336_basics._support.messages import short_names
from cs336_basics._support.paths import printable_path
from cs336_basics._support.progress import progress_bar
from cs336_basics._support.validation import Count, option
from cs336_basics._support.visible import without_controls
from cs336_basics.checkpoints.run_dir import RunDirectory, step_of
from cs336_basics.commands._cli import say
from cs336_basics.commands._options import (
    CHECKPOINT,
    DEVICE,
    INPUT_HELP,
    NUM_WORKERS,
    OVERWRITE,
    Command,
    Several,
    SeveralTexts,
)
from cs336_basics.commands._outputs import check_output
from cs336_basics.commands._tables import table_lines
from cs336_basics.data.data_config import check_turn_fields

if TYPE_CHECKING:
    from cs336_basics.data.sources import TextOrTokens
    from cs336_basics.training.evaluation import Score
    from cs336_basics.training.load_run import LoadedRun
    from cs336_basics.training.text_evaluation import EncodedText, Reading


@dataclass(kw_only=True)
class Options(SeveralTexts):
    """Evaluate models on text, side by side: loss, perplexity and bits per byte.

    A text is read as `train` reads it, in windows. Every token but the first is predicted once.
    """

    run: Several = option("run directories", (), metavar="DIR")
    model: Several = option(
        "other models: directories with config.json, safetensors files and tokenizer.json, as "
        "Hugging Face's transformers saves them",
        (),
        metavar="DIR",
    )
    input: Several = option(
        f"{INPUT_HELP}; or .npy or .bin token files of the model's tokenizer; each input is a text",
        argument="paths",
    )
    checkpoint: str | None = CHECKPOINT
    stride: Count | None = option(
        "tokens from the start of one window to the start of the next; a smaller stride gives "
        "tokens longer contexts, and takes more time (default: the context length)",
        None,
    )
    context_length: Count | None = option(
        "maximum number of tokens in a window (default: the model's context length)", None
    )
    token_dtype: Literal["uint16", "uint32"] = option(
        "type of the ids in .bin token files without llm.c's header", "uint16", rare=True
    )
    per_document: Path | None = option(
        "evaluate each document on its own, and write a line for each to this .jsonl file",
        None,
        metavar="FILE",
    )
    pack: Literal["joined", "documents"] | None = option(
        "what a token attends to, as in train's --data.pack (default: as each run was trained; "
        "joined for other models)",
        None,
        rare=True,
    )
    prompt_field: str | None = option(
        "JSON Lines field that contains a prompt; requires --answer-field", None
    )
    answer_field: str | None = option(
        "JSON Lines field that contains the answer to the prompt; only answers count", None
    )
    format: Literal["table", "json"] = option("output format", "table")
    overwrite: bool = OVERWRITE
    device: str = DEVICE
    num_workers: int | None = NUM_WORKERS

    def __post_init__(self) -> None:
        """Check that there is a model."""
        super().__post_init__()
        if not self.run and not self.model:
            raise InputError(("pass ", Argument("run"), " or ", Argument("model")))
        if self.checkpoint is not None and not self.run:
            raise InputError(("requires ", Argument("run")), argument="checkpoint")
        check_turn_fields(
            self.prompt_field, self.answer_field, field=self.field, column=self.column
        )
        self.field = self.answer_field or self.field

    def texts(self) -> list[tuple[str, TextOrTokens]]:
        """Return the name and the source of each input."""
        from cs336_basics.data.sources import TOKEN_ENDINGS, Text, TokenFiles, turns_in
        from cs336_basics.text.paths import expand_paths

        names = [name for name in self.input if not name.endswith(TOKEN_ENDINGS)]
        try:
            corpora = dict(
                self.corpora(listed=self.format == "table", names=names) if names else ()
            )
        except InputError as error:
            given = "field" if self.answer_field is None else "answer_field"
            raise error.renamed(lambda name: given if name == "field" else name) from None
        if self.prompt_field is not None:
            if len(names) < len(self.input):
                name = next(name for name in self.input if name not in names)
                raise InputError(
                    f"applies only to JSON Lines, but {printable_path(name)} is a token file",
                    argument="answer_field",
                )
            corpora = {name: turns_in(found, self.prompt_field) for name, found in corpora.items()}
        return [
            (name, Text.of(corpora[name]) if name in corpora else TokenFiles(expand_paths(name)))
            for name in self.input
        ]


_TOKENS_SHOWN = 16
"""Number of tokens that show which document a line is about."""


class _Model(NamedTuple):
    """A model to evaluate."""

    name: str
    step: int | None
    """Step of the run's checkpoint, if known."""
    loaded: LoadedRun
    pack: str = "joined"
    """What a token attends to, unless it is given."""
    saw_turns: bool = False
    """Whether the model was trained on answers."""


class _Result(NamedTuple):
    """The score of a model on a text."""

    model: str
    step: int | None
    input: str
    documents: int | None
    score: Score
    reading: Reading
    pack: str
    counted: str
    """The predicted tokens that count: all, or those of answers."""
    tokenizer_hash: str

    def as_json(self) -> dict[str, Any]:
        """Return the result as JSON."""
        fields = {name: value for name, value in self._asdict().items() if value is not None}
        score, reading = fields.pop("score"), fields.pop("reading")
        return {
            **fields,
            **_figures(score),
            "context_length": reading.context_length,
            "stride": reading.stride,
        }


def _figures(score: Score) -> dict[str, float | None]:
    """Return the figures of a score as JSON, which has no not-a-number."""
    return {
        "tokens": int(score.tokens),
        "bytes": int(score.num_bytes),
        "loss": score.loss if score.tokens else None,
        "perplexity": score.perplexity if score.tokens else None,
        "bits_per_byte": score.bits_per_byte,
    }


def evaluate(options: Options) -> None:
    """Evaluate each model on each text, and print a table or JSON."""
    import torch

    from cs336_basics.training.text_evaluation import encode_text

    texts = options.texts()
    if options.per_document is not None:
        files = [file for _, source in texts for file in source.files]
        output = str(options.per_document)
        check_output("per_document", output, options.overwrite, files, ending=".jsonl")
    if options.num_workers is not None:
        torch.set_num_threads(options.num_workers)
    encoded: dict[tuple[str, int], EncodedText] = {}  # models may share a tokenizer
    results, lines, trained_on_answers = [], [], []
    with tempfile.TemporaryDirectory(prefix="cs336-") as directory:
        for model in _models(options):
            tokenizer = model.loaded.tokenizer
            if model.saw_turns and options.answer_field is None:
                trained_on_answers.append(model.name)
            for number, (name, source) in enumerate(texts):
                key = tokenizer.hash(), number
                if key not in encoded:
                    file = Path(directory) / f"{len(encoded)}.npy"
                    encoded[key] = encode_text(
                        tokenizer, source, file, dtype=options.token_dtype, progress=True
                    )
                result, documents = _score(options, model, name, encoded[key])
                results.append(result)
                lines += documents
        encoded.clear()  # unmaps the files before they are removed
    if options.per_document is not None:
        with atomic_writer(options.per_document, "w") as out:
            out.writelines(lines)
    if options.format == "json":
        say(json.dumps([result.as_json() for result in results], indent=2))
        return
    for line in _table(results):
        say(line)
    if trained_on_answers:
        say(
            f"trained on the answers of instruction data: {short_names(trained_on_answers)}; "
            "without --prompt-field and --answer-field, all tokens count"
        )
    if options.per_document is not None:
        say(f"written to {options.per_document}")


def _models(options: Options) -> Iterator[_Model]:
    """Load the models, one at a time."""
    from cs336_basics.training.config_files import load_config
    from cs336_basics.training.devices import choose_device
    from cs336_basics.training.load_run import LoadedRun, load_run
    from cs336_basics.training.origin import find_origin

    device = choose_device(options.device)
    runs = {path: RunDirectory(path) for path in options.run}
    for run in runs.values():
        run.check_exists()
    which = options.checkpoint or "last"
    checkpoints = {path: run.find_checkpoint(which) for path, run in runs.items()}
    try:  # all of them are found before the first is evaluated
        origins = {path: find_origin(path) for path in options.model}
    except InputError as error:
        raise error.renamed(lambda name: "model" if name == "init_from" else name) from None
    for path, checkpoint in checkpoints.items():
        loaded = load_run(path, checkpoint=checkpoint, device=options.device)
        data = load_config(runs[path].config).data
        yield _Model(path, step_of(checkpoint), loaded, data.pack, data.has_turns)
    for path, origin in origins.items():
        yield _Model(path, origin.step, LoadedRun(origin.load().to(device), origin.tokenizer))


def _score(
    options: Options, model: _Model, name: str, text: EncodedText
) -> tuple[_Result, list[str]]:
    """Return the result of a model on a text, and a line of JSON for each document if asked."""
    from cs336_basics.training.data import AnswerRule
    from cs336_basics.training.text_evaluation import Reading, score_sequences, total_score

    per_document = options.per_document is not None
    tokenizer = model.loaded.tokenizer
    pack = options.pack or model.pack
    answers, document_start = None, text.marks.separator
    if options.answer_field is not None:
        try:
            answers = AnswerRule.of(tokenizer)
        except InputError as error:
            raise error.at(printable_path(model.name)) from None
        document_start = answers.prompt
    reading = Reading.of(
        model.loaded,
        options.context_length,
        options.stride,
        document_start if pack == "documents" else None,
        answers,
    )
    with progress_bar(True, total=len(text.tokens), desc=without_controls(model.name)) as bar:
        scores = score_sequences(
            model.loaded, text.sequences(per_document), reading, advance=bar.update
        )
    result = _Result(
        model.name,
        model.step,
        name,
        len(scores) if per_document else None,
        total_score(scores),
        reading,
        pack,
        "all" if answers is None else "answers",
        tokenizer.hash(),
    )
    if not per_document:
        return result, []
    named = {"model": model.name, "input": name}
    starts = (tokenizer.decode(ids[:_TOKENS_SHOWN].tolist()) for ids in text.documents())
    return result, [
        json.dumps({**named, "document": number, **_figures(score), "start": start}) + "\n"
        for number, (score, start) in enumerate(zip(scores, starts, strict=True))
    ]


def _table(results: Sequence[_Result]) -> list[str]:
    """Return the results as lines of text."""
    columns: dict[str, list[str]] = {
        "model": [result.model for result in results],
        "text": [result.input for result in results],
    }
    if any(result.step is not None for result in results):
        columns["step"] = ["" if r.step is None else f"{r.step:,}" for r in results]
    if any(result.documents is not None for result in results):
        columns["documents"] = [f"{result.documents:,}" for result in results]
    columns |= {
        "bytes": [f"{result.score.num_bytes:,.0f}" for result in results],
        "tokens": [f"{result.score.tokens:,.0f}" for result in results],
        "window": [f"{result.reading.context_length:,}" for result in results],
        "stride": [f"{result.reading.stride:,}" for result in results],
    }
    if any(result.pack != "joined" for result in results):
        columns["pack"] = [result.pack for result in results]
    columns |= {
        "loss": [_shown(result.score.loss, 4) for result in results],
        "perplexity": [_shown(result.score.perplexity, 2) for result in results],
        "bits/byte": [_shown(result.score.bits_per_byte, 4) for result in results],
    }
    lines = table_lines([*columns], [*zip(*columns.values(), strict=True)], num_names=2)
    lines.append(
        "bytes and bits/byte: of the predicted text, without special tokens and without their loss"
    )
    if results[0].counted == "answers":
        lines.append("all figures: of the answers only, and of the token that ends each")
    if len({result.tokenizer_hash for result in results}) > 1:
        lines.append(
            "loss and perplexity are per token, so only bits/byte compares models with different "
            "tokenizers"
        )
    return lines


def _shown(value: float | None, digits: int) -> str:
    """Return a number as text, or "-" if nothing was predicted."""
    return "-" if value is None or math.isnan(value) else f"{value:,.{digits}f}"


COMMAND = Command(
    "evaluate",
    Options,
    evaluate,
    "evaluate --run runs/my --input my.txt",
    "evaluate --run runs/a runs/b --checkpoint best --model llama/ --input a.txt b.jsonl \\\n"
    "      --field text --stride 128",
    "evaluate --run runs/my --input reviews.jsonl --field text --per-document losses.jsonl",
    "evaluate --run runs/chat --input turns.jsonl --prompt-field prompt --answer-field answer",
    uses_torch=True,
)
