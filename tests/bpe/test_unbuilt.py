"""If the extensions are not built, the other trainers still work."""

import pytest

from cs336_basics.bpe import TRAINERS
from tests.bpe.trainers import COMPILED_TRAINERS
from tests.processes import run_python

pytestmark = pytest.mark.skipif(
    not all(trainer.is_built for trainer in TRAINERS.values()),
    reason="the compiled trainers are not built",
)


@pytest.mark.parametrize(
    "missing", [[], *([name] for name in COMPILED_TRAINERS), list(COMPILED_TRAINERS)], ids=str
)
def test_missing_extensions_fall_back_to_the_best_built_trainer(missing, tmp_path):
    default = [name for name in TRAINERS if name not in missing][-1]
    path = tmp_path / "text.txt"
    path.write_text("low low lower lowest")
    code = f"""
import sys
for module in {[COMPILED_TRAINERS[name] for name in missing]!r}:
    sys.modules[module] = None  # import raises ImportError
from cs336_basics import TRAINERS, train_bpe
from cs336_basics.bpe import DEFAULT_TRAINER
assert DEFAULT_TRAINER == {default!r}, DEFAULT_TRAINER
assert list(TRAINERS) == {list(TRAINERS)!r}
print(train_bpe({str(path)!r}, 258, [])[1])
for name in {missing!r}:
    try:
        TRAINERS[name]()
    except ImportError as error:
        print("not built" in str(error))
"""
    merges = "[(b'o', b'w'), (b'l', b'ow')]"
    assert run_python(code).stdout.splitlines() == [merges, *["True"] * len(missing)]
