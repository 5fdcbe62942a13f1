"""Change a file so that loading it reaches new code, with Atheris.

The row `guided-files` runs this script in a new process, because Atheris changes the code of the
library while it is imported, and ends the process.
"""

from __future__ import annotations

import random
import sys
import tempfile
import tracemalloc
import warnings
from pathlib import Path


def main(folder: Path, seed: int, seconds: int) -> None:
    """Change one random file for some seconds. Atheris then ends the process.

    Args:
        folder: New directory.
        seed: Seed that chooses the file and its changes.
        seconds: Time in seconds.
    """
    import atheris

    with atheris.instrument_imports(include=["cs336_basics"]):
        from tests.test_hostile_files import is_refused, write_files
    (folder / "files").mkdir()
    loaders = write_files(folder / "files")
    for load in loaders.values():
        load()  # imports modules, whose memory does not count
    path, load = random.Random(seed).choice(list(loaders.items()))
    print(f"{path.relative_to(folder)}", flush=True)
    corpus = Path(tempfile.mkdtemp(dir=folder))
    (corpus / "whole").write_bytes(path.read_bytes())
    warnings.simplefilter("ignore")
    tracemalloc.start()

    def one_input(data: bytes) -> None:
        path.write_bytes(data)
        is_refused(path, load)

    options = [f"-seed={seed % 2**31 or 1}", f"-max_total_time={seconds}", "-print_final_stats=1"]
    options += ["-max_len=200000", "-rss_limit_mb=4096", f"-artifact_prefix={folder}/"]
    atheris.Setup([sys.argv[0], str(corpus), *options], one_input)
    atheris.Fuzz()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
