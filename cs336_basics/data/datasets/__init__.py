"""The datasets: the generated sample corpus, TinyStories, and OpenWebText."""

from __future__ import annotations

from cs336_basics.data.datasets.registry import (
    DATASETS,
    DataFile,
    Dataset,
    data_directory,
    dataset_path,
)
from cs336_basics.data.datasets.sample import sample_documents, write_sample

__all__ = [
    "DATASETS",
    "DataFile",
    "Dataset",
    "data_directory",
    "dataset_path",
    "sample_documents",
    "write_sample",
]
