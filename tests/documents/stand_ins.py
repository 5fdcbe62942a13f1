"""Small texts, tokenizers, token files and runs with the names that a page uses."""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path

import pytest

from cs336_basics import Tokenizer, train_bpe
from cs336_basics._support.text import END_OF_TEXT
from cs336_basics.counting import count_words
from cs336_basics.data.datasets.sample import write_sample
from cs336_basics.splitting import Splitter
from cs336_basics.tokenizer.files.encode_files import encode_file
from tests.documents.shell import MODEL, TRAINING
from tests.tokenizer.files.corpus_files import zstandard


class StandIns:
    """Creates files by name. The tokenizer and the run are created once and then copied."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._text = directory / "text.txt"
        write_sample(self._text, 40_000)
        self._valid_text = directory / "valid.txt"  # a run refuses its training text
        write_sample(self._valid_text, 40_000, seed=1)

    def _text_of(self, name: str) -> Path:
        return self._valid_text if Path(name).name.startswith("valid") else self._text

    def make(self, name: str, directory: Path) -> None:
        """Create the file or directory `name` below `directory`.

        Raises:
            ValueError: If there is no stand-in for the name.
        """
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if name.endswith("/"):
            source = self._run() if name.startswith("runs/") else self._tokenizer()
            shutil.copytree(source, path)
        elif name.endswith(".npz"):
            count_words(self._text, Splitter(special_tokens=[END_OF_TEXT])).save(path)
        elif name.endswith(".npy"):
            encode_file(Tokenizer.from_directory(self._tokenizer()), self._text_of(name), path)
        else:
            path.write_bytes(self._contents(name))

    def _contents(self, name: str) -> bytes:
        if name.endswith(".gz"):
            return gzip.compress(self._contents(name.removesuffix(".gz")))
        if name.endswith(".zst"):
            return zstandard().compress(self._contents(name.removesuffix(".zst")))
        text = self._text_of(name).read_text(encoding="utf-8")
        if name.endswith((".txt", ".py")):
            return text.encode()
        rows = [story.strip() for story in text.split(END_OF_TEXT) if story.strip()]
        if name == "turns.jsonl":
            turns = ({"prompt": "write a story", "story": row} for row in rows)
            return "".join(json.dumps(turn) + "\n" for turn in turns).encode()
        if name.endswith(".jsonl"):
            return "".join(json.dumps({"text": row}) + "\n" for row in rows).encode()
        if name.endswith(".parquet"):
            pyarrow = pytest.importorskip("pyarrow", reason="needs pyarrow to write Parquet")
            parquet = pytest.importorskip("pyarrow.parquet")
            sink = pyarrow.BufferOutputStream()
            parquet.write_table(pyarrow.table({"text": rows}), sink)
            return sink.getvalue().to_pybytes()
        raise ValueError(f"no stand-in for {name!r}; add one to {Path(__file__).name}")

    def _tokenizer(self) -> Path:
        path = self._directory / "tokenizer"
        if not path.exists():
            vocab, merges = train_bpe(self._text, 500, [END_OF_TEXT])
            Tokenizer(vocab, merges, special_tokens=[END_OF_TEXT]).save(path)
        return path

    def _run(self) -> Path:
        from cs336_basics.__main__ import main

        path = self._directory / "run"
        if not path.exists():
            status = main(["train", *TRAINING, *MODEL, "--run-dir", str(path)])
            assert status == 0, "the stand-in run could not be trained"
        return path
