"""The optimizers that a run can use, by the value of `optimizer.kind` that selects them."""

from cs336_basics.training.optimizers.settings import (
    AdamWSettings,
    MuonSettings,
    OptimizerSettings,
    SGDSettings,
)

OPTIMIZERS: dict[str, type[OptimizerSettings]] = {
    "adamw": AdamWSettings,
    "muon": MuonSettings,
    "sgd": SGDSettings,
}
