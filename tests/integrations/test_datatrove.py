"""The datatrove steps, run by datatrove's local executor."""

import json
import random
from pathlib import Path

import numpy as np
import pytest

from cs336_basics import TRAINERS, Tokenizer
from cs336_basics.counting import WordCounts, count_texts
from cs336_basics.splitting import Splitter
from tests.errors import rejects
from tests.processes import run_python
from tests.tokenizer.examples import END, FRAGMENTS, TRAINING_TEXT, small_tokenizer
from tests.tokenizer.files.corpus_files import contents

pytest.importorskip("datatrove", reason="needs datatrove; pip install 'cs336-basics[datatrove]'")
pytest.importorskip("tokenizers")
from datatrove.data import Document
from datatrove.executor import LocalPipelineExecutor
from datatrove.pipeline.readers import JsonlReader
from datatrove.pipeline.tokens import DocumentTokenizer

from cs336_basics.integrations.datatrove import (
    CountWords,
    MergeWordCounts,
    TokenizeDocuments,
    TrainTokenizer,
)


def random_texts(count=200):
    chooser = random.Random(1)
    texts = [TRAINING_TEXT, "", END, "a" + END, END + "b" + END + "c"]
    for _ in range(count):
        texts.append("".join(chooser.choices([*FRAGMENTS, *TRAINING_TEXT.split(" ")], k=20)))
    return texts


@pytest.fixture
def texts(tmp_path):
    """Return texts, which are also the documents in five files in the `inputs` folder."""
    found = random_texts()
    (tmp_path / "inputs").mkdir()
    for number in range(5):
        rows = "".join(json.dumps({"text": text}) + "\n" for text in found[number::5])
        (tmp_path / "inputs" / f"{number}.jsonl").write_text(rows)
    return found


def run(tmp_path, *steps, tasks=1, workers=1):
    logs = str(tmp_path / "logs" / f"{random.random()}")
    executor = LocalPipelineExecutor(
        list(steps), tasks=tasks, workers=workers, logging_dir=logs, skip_completed=False
    )
    return executor.run()


def reader(tmp_path):
    # Documents without text are dropped by the reader.
    return JsonlReader(str(tmp_path / "inputs"))


@pytest.mark.parametrize("merge_tasks", [0, 1, 2, 7])
def test_a_pipeline_learns_the_tokenizer_of_one_process(tmp_path, texts, merge_tasks):
    counts, tokenizer = str(tmp_path / "counts"), str(tmp_path / "tokenizer")
    run(tmp_path, reader(tmp_path), CountWords(counts), tasks=3, workers=2)
    if merge_tasks:
        merged = str(tmp_path / "merged")
        run(tmp_path, MergeWordCounts(counts, merged), tasks=merge_tasks)
        counts = merged
    run(tmp_path, TrainTokenizer(counts, tokenizer, 320))
    expected = Tokenizer(*TRAINERS["heap"]().train_from_iterator(texts, 320, [END]), [END])
    assert Tokenizer.from_directory(tokenizer).hash() == expected.hash()
    names = sorted(path.name for path in Path(tokenizer).iterdir())
    assert names == ["tokenizer.json", "training.json"]


def test_the_counts_of_all_tasks_add_up_and_documents_pass_through(tmp_path, texts):
    passed = []

    def collect(data, rank=0, world_size=1):
        for document in data:
            passed.append(document.text)
            yield document

    run(tmp_path, reader(tmp_path), CountWords(str(tmp_path / "counts")), collect, tasks=7)
    assert sorted(passed) == sorted(filter(None, texts))
    files = sorted((tmp_path / "counts").iterdir())
    assert [file.name for file in files] == [f"{n:05}-of-00007.npz" for n in range(7)]
    total = WordCounts.combined(WordCounts.load(file) for file in files)
    assert total == count_texts(texts, Splitter(special_tokens=[END]))


def test_missing_and_foreign_counts_are_errors(tmp_path, texts):
    counts = tmp_path / "counts"
    train = TrainTokenizer(str(counts), str(tmp_path / "tokenizer"), 300)
    with rejects(None, "counts"):
        train.run()
    run(tmp_path, reader(tmp_path), CountWords(str(counts)), tasks=3)
    with rejects(None, 2, "tasks=1"):
        train.run(world_size=2)
    content = (counts / "00001-of-00003.npz").read_bytes()
    (counts / "00001-of-00003.npz").unlink()
    with rejects(None, "00001-of-00003.npz", 3):
        train.run()
    (counts / "00001-of-00003.npz").write_bytes(content)
    (counts / "notes.txt").write_text("")
    with rejects(None, "'notes.txt'", 3):
        train.run()
    (counts / "notes.txt").rename(counts / "00000")
    with rejects(None, "'00000'"):
        train.run()
    (counts / "00000").unlink()
    with rejects(None, "special_tokens"):
        TrainTokenizer(str(counts), str(tmp_path / "t"), 300, special_tokens=["<a>"]).run()
    assert not (tmp_path / "tokenizer").exists()


def test_a_name_that_claims_too_many_tasks_is_an_error(tmp_path):
    (tmp_path / "00000-of-99999999999.npz").write_bytes(b"")
    with rejects(None, "00001-of-99999999999.npz"):
        TrainTokenizer(str(tmp_path), str(tmp_path / "t"), 300).run()


@pytest.mark.parametrize(
    ("make", "fields"),
    [
        (lambda: CountWords("counts", pattern="["), (None, "'['")),
        (lambda: CountWords("counts", special_tokens=[""]), ("special_tokens",)),
        (lambda: TrainTokenizer("counts", "t", 3), ("vocab_size",)),
        (lambda: TrainTokenizer("counts", "t", 300, min_frequency=-1), ("min_frequency",)),
        (lambda: TokenizeDocuments("out", "t", num_workers=0), ("num_workers",)),
        (
            lambda: TokenizeDocuments("out", "t", save_loss_metadata=True),
            (None, "save_loss_metadata"),
        ),
    ],
)
def test_wrong_options_are_rejected_when_a_step_is_made(make, fields):
    with rejects(*fields):
        make()


@pytest.mark.parametrize("options", [
    {},
    {"shuffle_documents": False},
    {"seed": 3},
    {"eos_token": None, "shuffle_documents": False, "save_final_metadata": False},
    {"max_tokens_per_file": 700, "seed": 1, "save_filename": "x"},
    {"batch_size": 7, "seed": 1},
    {"shuffle_chunk_size": 50},
    {"save_index": False, "shuffle_documents": False, "save_final_metadata": False},
], ids=str)  # fmt: skip
def test_documents_become_the_files_of_document_tokenizer(tmp_path, texts, options):
    options = {"seed": 1, "eos_token": END, **options}
    small_tokenizer().save(tmp_path / "tokenizer")
    name = str(tmp_path / "tokenizer" / "tokenizer.json")
    ours = TokenizeDocuments(str(tmp_path / "ours"), name, **options)
    theirs = DocumentTokenizer(str(tmp_path / "theirs"), tokenizer_name_or_path=name, **options)
    for step in (ours, theirs):
        run(tmp_path, reader(tmp_path), step, tasks=2, workers=2)
    expected = contents(tmp_path / "theirs")
    assert len(expected) >= 2
    assert contents(tmp_path / "ours") == expected


def test_empty_documents_and_large_vocabularies_are_encoded_alike(tmp_path):
    tokenizer = small_tokenizer()
    vocab = {**tokenizer.vocab}
    while len(vocab) < 70_000:
        vocab[len(vocab)] = b"%d" % len(vocab)
    Tokenizer(vocab, tokenizer.merges, [END]).save(tmp_path / "tokenizer")
    name = str(tmp_path / "tokenizer" / "tokenizer.json")
    documents = [Document(text=text, id=str(n)) for n, text in enumerate(["", "a cat", "", ""])]
    options = {"shuffle_documents": False, "save_final_metadata": False, "eos_token": END}
    TokenizeDocuments(str(tmp_path / "ours"), name, **options).run(iter(documents))
    theirs = DocumentTokenizer(str(tmp_path / "theirs"), tokenizer_name_or_path=name, **options)
    theirs.run(iter(documents))
    assert contents(tmp_path / "ours") == contents(tmp_path / "theirs")
    (file,) = (tmp_path / "ours").glob("*.ds")
    assert np.fromfile(file, "<u4").tolist()[0] == tokenizer.special_token_id(END)


def test_folders_may_be_on_another_file_system(tmp_path, texts):
    run(tmp_path, reader(tmp_path), CountWords("memory://cs336/counts"), tasks=2)
    run(tmp_path, MergeWordCounts("memory://cs336/counts", "memory://cs336/merged"))
    run(tmp_path, TrainTokenizer("memory://cs336/merged", "memory://cs336/tokenizer", 300))
    from datatrove.io import get_datafolder

    folder = get_datafolder("memory://cs336/tokenizer")
    folder.get_file("tokenizer.json", str(tmp_path / "tokenizer.json"))
    assert len(Tokenizer.from_directory(tmp_path / "tokenizer.json")) == 300


def test_the_error_without_datatrove_includes_the_install_command():
    error = run_python(
        "import cs336_basics.integrations.datatrove", missing=["datatrove"], check=False
    ).stderr
    assert "pip install 'cs336-basics[datatrove]'" in error.splitlines()[-1]
