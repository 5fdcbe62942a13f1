from typing import Any

import numpy as np
import numpy.typing as npt

from cs336_basics.model import ModelConfig

Floats = npt.NDArray[np.float32]
Integers = npt.NDArray[np.int64]

def simd_levels() -> list[str]: ...
def default_simd_level() -> str: ...
def product(weight: Floats, x: Floats, precision: str, simd_level: str | None = None) -> Floats: ...
def silu(x: Floats, simd_level: str | None = None) -> Floats: ...

class Inference:
    def __init__(
        self,
        config: ModelConfig,
        weights: dict[str, npt.NDArray[Any]],
        angles: tuple[npt.NDArray[Any], ...] | None,
        num_texts: int,
        precision: str,
        num_threads: int,
        simd_level: str | None = None,
    ) -> None: ...
    def forward(
        self,
        ids: Integers,
        texts: Integers,
        positions: Integers,
        wanted: Integers,
        logits: Floats,
        rows: Integers | None = None,
    ) -> None: ...
