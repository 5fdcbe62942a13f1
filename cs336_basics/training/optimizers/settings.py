"""The settings of a run's optimizer. A settings class builds the optimizer for a model.

torch is imported inside functions, because help pages list the settings.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from cs336_basics._support.errors import Argument, InputError
from cs336_basics._support.validation import Checked, Limits, option
from cs336_basics.model.config import Positive
from cs336_basics.model.shapes import ROLES, Role

if TYPE_CHECKING:
    from torch.optim import Optimizer

    from cs336_basics.model import TransformerLM

DecayRate = Annotated[float, Limits(ge=0, lt=1)]

# Fields of AdamW, which Muon uses for some of the parameters.
_BETAS = option("decay rates of AdamW's moment estimates, as [beta1, beta2]", (0.9, 0.95))
_EPS = option("added to the denominator of AdamW's update", 1e-8)
_WEIGHT_DECAY = option("decoupled weight decay", 0.1, ge=0, le=1e38)


@dataclass(frozen=True)
class OptimizerSettings(Checked):
    """Base class of the settings, with the values that every optimizer has.

    A subclass declares `kind` as a Literal of the name that selects it in `OPTIMIZERS`.

    Raises:
        ValueError: If a value has the wrong type or is out of range.
    """

    decayed: ClassVar[tuple[Role, ...]] = ("matrix", "head")
    """The roles of the parameters that have weight decay, unless `decay` is "all".

    Weight decay would pull the gains, which should be about 1, and the vectors of rare tokens
    towards 0.
    """

    kind: str = option("", "")
    decay: Literal["matrices", "all"] = option(
        "weights that decay: the matrices of the blocks and the head, or all, as in CS336",
        "matrices",
    )
    max_grad_norm: float = option("maximum L2 norm of the gradients", 1.0, gt=0)

    def build(
        self, model: TransformerLM, *, lr: float = 1e-3, precision: str = "float32"
    ) -> Optimizer:
        """Create the optimizer of a model's parameters.

        Args:
            model: The model, which says which role each of its parameters has.
            lr: Learning rate.
            precision: Dtype of the optimizer's own matrix products, "float32" or "bfloat16".
        """
        raise NotImplementedError

    def groups(
        self, model: TransformerLM, own: dict[tuple[Role, ...], dict[str, Any]]
    ) -> list[dict[str, Any]]:
        """Return a model's parameters as groups, in the order of `own`.

        Args:
            model: The model.
            own: The settings of the parameters with these roles. Parameters that do not decay are a
                group of their own, with a weight decay of 0.
        """
        roles = model.parameter_roles()
        decayed = ROLES if self.decay == "all" else self.decayed
        groups = []
        for members, settings in own.items():
            for decays in (True, False):
                wanted = {role for role in members if (role in decayed) == decays}
                found = [p for name, p in model.named_parameters() if roles[name] in wanted]
                decay: dict[str, Any] = {} if decays else {"weight_decay": 0.0}
                if found:
                    groups.append({"params": found, **settings, **decay})
        return groups


@dataclass(frozen=True)
class AdamWSettings(OptimizerSettings):
    """Settings of AdamW for all parameters."""

    kind: Literal["adamw"] = option("AdamW for all weights", "adamw")
    betas: tuple[DecayRate, DecayRate] = _BETAS
    eps: Positive = _EPS
    weight_decay: float = _WEIGHT_DECAY
    fused: bool = option(
        "use torch's AdamW, which computes the same update in one pass over memory",
        False,
        resumable=True,
        changes_rounding=True,
    )

    def build(
        self, model: TransformerLM, *, lr: float = 1e-3, precision: str = "float32"
    ) -> Optimizer:
        """Create an AdamW, or with `fused` torch's."""
        import torch

        from cs336_basics.training.optimizers.adamw import AdamW

        settings: dict[str, Any] = {
            "lr": lr, "betas": self.betas, "eps": self.eps, "weight_decay": self.weight_decay,
        }  # fmt: skip
        groups = self.groups(model, {ROLES: {}})
        if self.fused:
            return torch.optim.AdamW(groups, fused=True, **settings)
        return AdamW(groups, **settings)


@dataclass(frozen=True)
class MuonSettings(OptimizerSettings):
    """Settings of Muon for the matrices, with AdamW for the other parameters.

    The embedding and the head have their own learning rates.
    """

    kind: Literal["muon"] = option("Muon for matrices with AdamW for the rest", "muon")
    betas: tuple[DecayRate, DecayRate] = _BETAS
    eps: Positive = _EPS
    weight_decay: float = _WEIGHT_DECAY
    momentum: DecayRate = option(
        "decay rate of the average of past gradients; 0: no momentum", 0.95
    )
    row_beta: DecayRate | None = option(
        "NorMuon: decay rate of the average size of each row of the updates, whose rows it makes "
        "equally large; unset: Muon",
        None,
    )
    embedding_lr_scale: float = option(
        "learning rate of the embedding as a multiple of the base rate", 1.0, ge=0
    )
    head_lr_scale: float = option(
        "learning rate of the output head as a multiple of the base rate", 1.0, ge=0
    )

    def build(
        self, model: TransformerLM, *, lr: float = 1e-3, precision: str = "float32"
    ) -> Optimizer:
        """Create a Muon with up to four groups: matrices, embedding, head and gains."""
        from cs336_basics.training.optimizers.muon import Muon

        groups = self.groups(
            model,
            {
                ("matrix",): {"muon": True},
                ("embedding",): {"lr_scale": self.embedding_lr_scale},
                ("head",): {"lr_scale": self.head_lr_scale},
                ("gain", "bias"): {},
            },
        )
        return Muon(
            groups,
            lr=lr,
            betas=self.betas,
            eps=self.eps,
            weight_decay=self.weight_decay,
            momentum=self.momentum,
            row_beta=self.row_beta,
            precision=precision,
        )


@dataclass(frozen=True)
class SGDSettings(OptimizerSettings):
    """Settings of gradient descent with momentum for all parameters."""

    kind: Literal["sgd"] = option("gradient descent with momentum for all weights", "sgd")
    momentum: DecayRate = option("factor of the sum of past gradients; 0: no momentum", 0.95)
    weight_decay: float = option("L2 penalty in the gradient", 0.1, ge=0, le=1e38)
    nesterov: bool = option("use Nesterov momentum", False)

    def __post_init__(self) -> None:
        """Check each value, then the constraints between values."""
        super().__post_init__()
        if self.nesterov and self.momentum == 0:
            raise InputError(
                "requires momentum",
                argument="nesterov",
                remedy=("set ", Argument("momentum"), " above 0"),
            )

    def build(
        self, model: TransformerLM, *, lr: float = 1e-3, precision: str = "float32"
    ) -> Optimizer:
        """Create a MomentumSGD."""
        from cs336_basics.training.optimizers.sgd import MomentumSGD

        return MomentumSGD(
            self.groups(model, {ROLES: {}}),
            lr=lr,
            momentum=self.momentum,
            weight_decay=self.weight_decay,
            nesterov=self.nesterov,
        )
