"""`Encode`, a Ray Data stage, called directly and on a local cluster."""

import importlib.util
import pickle

import pytest

from cs336_basics._support.errors import InputError, InputTypeError
from cs336_basics.integrations.ray import Encode
from tests.errors import rejects
from tests.tokenizer.examples import END, FRAGMENTS, TRAINING_TEXT, small_tokenizer

pa = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")
TEXTS = ["the cat", "", *FRAGMENTS, TRAINING_TEXT, "a" + END + "b"]


def test_a_batch_gets_a_column_with_ids():
    tokenizer = small_tokenizer()
    encode = Encode(tokenizer)
    table = pa.table({"text": TEXTS, "id": range(len(TEXTS))})
    expected = tokenizer.encode_batch(TEXTS)
    found = encode(table)
    assert found.column_names == ["text", "id", "input_ids"]
    assert found["input_ids"].type == pa.list_(pa.uint16())
    assert found["input_ids"].to_pylist() == expected
    batch = {"text": TEXTS, "id": list(range(len(TEXTS)))}
    found = encode(batch)
    assert [ids.to_pylist() for ids in found.pop("input_ids")] == expected
    assert found == batch


@pytest.mark.parametrize(
    ("batch", "error", "fields"),
    [
        ({"body": ["a"]}, InputError, ("column", "'text'", "['body']")),
        (pa.table({"body": ["a"]}), InputError, ("column", "'text'", "['body']")),
        (["a"], InputTypeError, ("batch", "batch_format=")),
        ({"text": ["a", None]}, InputTypeError, ("text", "text 1")),
        ({"text": ["a\ud800"]}, InputError, (None, "text 0")),
    ],
)
def test_wrong_batches_are_rejected(batch, error, fields):
    with rejects(*fields, kind=error):
        Encode(small_tokenizer())(batch)


def test_a_pickled_stage_loads_its_tokenizer_once():
    encode = pickle.loads(pickle.dumps(Encode(small_tokenizer())))
    for _ in range(3):
        encode({"text": ["a"]})
    from cs336_basics.execution.jobs import unpickled

    assert unpickled.cache_info().currsize == 1


@pytest.mark.skipif(
    importlib.util.find_spec("pandas") is None, reason="Ray Data needs pandas: pip install pandas"
)
def test_a_ray_dataset_is_encoded(local_ray, tmp_path):
    tokenizer = small_tokenizer()
    rows = [{"text": text, "id": index} for index, text in enumerate(TEXTS)]
    for batch_format in ("numpy", "pyarrow"):
        dataset = local_ray.data.from_items(rows, override_num_blocks=3)
        encoded = dataset.map_batches(Encode(tokenizer), batch_format=batch_format)
        encoded.write_parquet(str(tmp_path / batch_format))
        # Other Parquet readers see lists.
        read = parquet.read_table(tmp_path / batch_format).sort_by("id")
        assert read["input_ids"].type.value_type == pa.uint16()
        assert read["input_ids"].to_pylist() == tokenizer.encode_batch(TEXTS)
        assert read["text"].to_pylist() == TEXTS
