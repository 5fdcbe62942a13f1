"""The NeMo Curator stage: the files that it writes, and its errors."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from cs336_basics.formats import export_tokenizer
from cs336_basics.formats.megatron import load_indexed_dataset
from tests.tokenizer.examples import END, TRAINING_TEXT, small_tokenizer

TEXTS = ["the cat", "", TRAINING_TEXT, "b" + END + "c", "It's"]


@pytest.fixture
def writer():
    """Return our stage."""
    pytest.importorskip("nemo_curator", reason="needs nemo-curator")
    from cs336_basics.nemo_curator import MegatronTokenizerWriter

    return MegatronTokenizerWriter


@pytest.fixture
def tokenizer(tmp_path):
    """Return a tokenizer, which is also exported to the directory `hf`."""
    tokenizer = small_tokenizer()
    export_tokenizer(tokenizer, "huggingface", tmp_path / "hf")
    return tokenizer


def written(stage):
    """Run a stage, and return the contents of the two files and the task's metadata."""
    pandas = pytest.importorskip("pandas")
    from nemo_curator.tasks import DocumentBatch

    task = DocumentBatch(
        dataset_name="texts",
        data=pandas.DataFrame({"text": TEXTS}),
        _metadata={"source_files": ["texts.jsonl"]},
    )
    stage.setup_on_node()
    stage.setup()
    result = stage.process(task)
    dataset = load_indexed_dataset(result._metadata.pop("file_prefix"))
    assert [Path(name).suffix for name in result.data] == [".bin", ".idx"]
    return [Path(name).read_bytes() for name in result.data], result._metadata, dataset


@pytest.mark.parametrize("append_eod", [False, True])
@pytest.mark.parametrize("batch", [2, 1000])
def test_documents_are_encoded(tmp_path, writer, tokenizer, append_eod, batch):
    stage = writer(
        path=str(tmp_path / "out"),
        model_identifier=str(tmp_path / "hf"),
        append_eod=append_eod,
        tokenization_batch_size=batch,
    )
    _, metadata, (ids, starts) = written(stage)
    end = [tokenizer.special_token_id(END)] if append_eod else []
    ends = [*starts[1:], len(ids)]
    documents = [ids[start:stop].tolist() for start, stop in zip(starts, ends, strict=True)]
    assert documents == [tokenizer.encode(text) + end for text in TEXTS]
    assert metadata["num_tokens"] == len(ids)
    assert metadata["eod_token_id"] == tokenizer.special_token_id(END)


@pytest.mark.parametrize("append_eod", [False, True])
def test_the_files_equal_those_of_nemo_curators_stage(tmp_path, writer, tokenizer, append_eod):
    transformers = pytest.importorskip("transformers")
    if not hasattr(transformers.PreTrainedTokenizerFast, "batch_encode_plus"):
        pytest.skip("NeMo Curator's own stage needs transformers 4")
    from nemo_curator.stages.text.io.writer.megatron_tokenizer import MegatronTokenizerWriter

    options = {"model_identifier": str(tmp_path / "hf"), "append_eod": append_eod}
    ours = written(writer(path=str(tmp_path / "ours"), **options))
    theirs = written(MegatronTokenizerWriter(path=str(tmp_path / "theirs"), **options))
    assert ours[:2] == theirs[:2]


def test_an_end_token_must_be_a_special_token(tmp_path, writer, tokenizer):
    options = {"path": str(tmp_path), "model_identifier": str(tmp_path / "hf"), "eos_token": "<a>"}
    with pytest.raises(ValueError, match="'<a>' is not a special token"):
        writer(append_eod=True, **options).setup()
    stage = writer(**options)
    stage.setup()
    assert stage.tokenizer.eos_token_id is None


@pytest.mark.parametrize("option", ["cache_dir", "hf_token", "transformers_init_kwargs"])
def test_options_for_transformers_are_refused(tmp_path, writer, option):
    with pytest.raises(ValueError, match=rf"{option} is not supported; omit it \(.* HF_HOME"):
        writer(path=str(tmp_path), model_identifier="t", **{option: {"use_fast": True}})


PIPELINE = """
import sys
from nemo_curator.backends.ray_data import RayDataExecutor
from nemo_curator.pipeline import Pipeline
from nemo_curator.stages.text.io.reader import JsonlReader
from cs336_basics.nemo_curator import MegatronTokenizerWriter

if __name__ == "__main__":
    read = JsonlReader("texts", files_per_partition=1)
    write = MegatronTokenizerWriter("out", model_identifier=sys.argv[1], append_eod=True)
    Pipeline(name="encode", stages=[read, write]).run(RayDataExecutor())
"""


@pytest.mark.slow
def test_a_pipeline_writes_a_dataset_for_each_task(tmp_path, writer, tokenizer):
    (tmp_path / "texts").mkdir()
    for number in range(2):
        rows = [json.dumps({"text": text}) + "\n" for text in TEXTS[number::2] if text]
        (tmp_path / "texts" / f"{number}.jsonl").write_text("".join(rows))
    (tmp_path / "program.py").write_text(PIPELINE)
    subprocess.run(
        [sys.executable, "program.py", str(tmp_path / "hf")], cwd=tmp_path, check=True, timeout=300
    )
    prefixes = [path.with_suffix("") for path in (tmp_path / "out").glob("*.idx")]
    assert sorted(len(load_indexed_dataset(prefix)[1]) for prefix in prefixes) == [1, 3]
