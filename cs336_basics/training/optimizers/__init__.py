"""Optimizers: SGD in two forms, AdamW and Muon, and the settings with which a run builds one.

Reading order: `group_optimizer.py` (what all share), `sgd.py`, `adamw.py`, `muon.py`. `settings.py`
and `registry.py` connect them to a run's configuration.
"""

from typing import TYPE_CHECKING

from cs336_basics._support.lazy import lazy_names

__all__ = [
    "OPTIMIZERS",
    "SGD",
    "AdamW",
    "AdamWSettings",
    "GroupOptimizer",
    "MomentumSGD",
    "Muon",
    "MuonSettings",
    "OptimizerSettings",
    "SGDSettings",
]

if TYPE_CHECKING:
    from cs336_basics.training.optimizers.adamw import AdamW
    from cs336_basics.training.optimizers.group_optimizer import GroupOptimizer
    from cs336_basics.training.optimizers.muon import Muon
    from cs336_basics.training.optimizers.registry import OPTIMIZERS
    from cs336_basics.training.optimizers.settings import (
        AdamWSettings,
        MuonSettings,
        OptimizerSettings,
        SGDSettings,
    )
    from cs336_basics.training.optimizers.sgd import SGD, MomentumSGD
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "cs336_basics.training.optimizers.adamw": "AdamW",
            "cs336_basics.training.optimizers.group_optimizer": "GroupOptimizer",
            "cs336_basics.training.optimizers.muon": "Muon",
            "cs336_basics.training.optimizers.registry": "OPTIMIZERS",
            "cs336_basics.training.optimizers.settings": "AdamWSettings MuonSettings "
            "OptimizerSettings SGDSettings",
            "cs336_basics.training.optimizers.sgd": "SGD MomentumSGD",
        },
    )
