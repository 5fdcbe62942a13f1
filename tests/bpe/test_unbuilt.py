"""If the extensions are not built, the other trainers still work."""

import pytest

from cs336_basics.bpe import DEFAULT_TRAINER, TRAINERS
from tests.processes import run_python

pytestmark = pytest.mark.skipif(
    not all(trainer.is_built for trainer in TRAINERS.values()),
    reason="the compiled trainers are not built",
)


def test_native_is_the_default_trainer():
    assert DEFAULT_TRAINER == "native"


@pytest.mark.parametrize(
    ("missing", "default"),
    [
        (["v5_native"], "memoryview"),
        (["v4_memoryview"], "native"),
        (["v4_memoryview", "v5_native"], "heap"),
    ],
)
def test_missing_extensions_fall_back_to_the_best_built_trainer(missing, default, tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("low low lower lowest")
    code = f"""
import sys
for name in {missing!r}:
    sys.modules["cs336_basics.bpe." + name] = None  # import raises ImportError
from cs336_basics import TRAINERS, train_bpe
from cs336_basics.bpe import DEFAULT_TRAINER
assert DEFAULT_TRAINER == {default!r}, DEFAULT_TRAINER
assert list(TRAINERS) == ["naive", "incremental", "heap", "memoryview", "native"]
print(train_bpe({str(path)!r}, 258, [])[1])
try:
    TRAINERS[{missing[-1].split("_")[1]!r}]()
except ImportError as error:
    print("not built" in str(error))
"""
    assert run_python(code).stdout.splitlines() == ["[(b'o', b'w'), (b'l', b'ow')]", "True"]
