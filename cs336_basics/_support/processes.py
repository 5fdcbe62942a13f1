"""Worker processes."""

from __future__ import annotations

import os
import threading
import time


def end_with_parent() -> None:
    """End this worker process within a second of its parent, even if the parent is killed.

    Without this, the worker would wait for work forever.
    """
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:  # always true on Windows
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
