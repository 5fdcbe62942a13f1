"""Training: loss, optimizers, learning-rate schedules, gradient clipping, batches, checkpoints."""

from typing import TYPE_CHECKING

from cs336_basics._support.lazy import lazy_names

__all__ = [
    "SGD",
    "AdamW",
    "LoadedRun",
    "MomentumSGD",
    "Muon",
    "clip_gradients",
    "cosine_schedule",
    "cross_entropy",
    "get_batch",
    "linear_schedule",
    "load_checkpoint",
    "save_checkpoint",
]

if TYPE_CHECKING:
    from cs336_basics.checkpoints.torch_file import load_checkpoint, save_checkpoint
    from cs336_basics.training.clipping import clip_gradients
    from cs336_basics.training.data import get_batch
    from cs336_basics.training.load_run import LoadedRun
    from cs336_basics.training.loss import cross_entropy
    from cs336_basics.training.optimizers import SGD, AdamW, MomentumSGD, Muon
    from cs336_basics.training.schedule import cosine_schedule, linear_schedule
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "cs336_basics.checkpoints.torch_file": "load_checkpoint save_checkpoint",
            "cs336_basics.training.clipping": "clip_gradients",
            "cs336_basics.training.data": "get_batch",
            "cs336_basics.training.load_run": "LoadedRun",
            "cs336_basics.training.loss": "cross_entropy",
            "cs336_basics.training.optimizers": "SGD AdamW MomentumSGD Muon",
            "cs336_basics.training.schedule": "cosine_schedule linear_schedule",
        },
    )
