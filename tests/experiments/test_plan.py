"""The planned experiments, and how each differs from the baseline."""

from __future__ import annotations

import pytest

from cs336_basics.experiments.plan import LOWER_RATE, SCALES, plan
from cs336_basics.training.config_files import find_config, load_config


def groups_of(name):
    scale = SCALES[name]
    return plan(scale, load_config(find_config(scale.config), scale.values))


@pytest.mark.parametrize("name", SCALES)
def test_every_scale_plans_the_experiments_of_the_course(name):
    scale, groups = SCALES[name], groups_of(name)
    assert [group.name for group in groups] == [
        "learning-rate",
        "batch-size",
        "normalization",
        "position",
        "feed-forward",
    ]
    runs = {run.name: run for group in groups for run in group.experiments}
    configs = {
        run.name: load_config(find_config(scale.config), {**scale.values, **run.values})
        for run in runs.values()
    }
    base = configs["baseline"]
    for group in groups:
        assert [run.values for run in group.experiments].count(runs["baseline"].values) == 1
        assert [run.name for run in group.experiments].count("baseline") == 1
    assert configs["no-norm"].model.norm == configs["no-norm-lower"].model.norm == "none"
    assert configs["no-norm"].schedule == base.schedule
    assert configs["no-norm-lower"].schedule.max_learning_rate == LOWER_RATE
    assert configs["post-norm"].model.norm == "post"
    assert configs["nope"].model.position == "none"
    assert configs["silu"].model.ffn == "silu"
    assert configs["silu"].model.d_ff == 4 * base.model.d_model
    parameters = configs["silu"].model.num_parameters() / base.model.num_parameters()
    assert name == "test" or 0.97 < parameters < 1.03
    for size in scale.batch_sizes:
        tried = [run for run in groups[1].experiments if run.curve == f"batch size {size}"]
        rates = [configs[run.name].schedule.max_learning_rate for run in tried]
        assert {configs[run.name].batch_size for run in tried} == {size}
        assert len(set(rates)) == len(scale.rate_factors)
    for run in groups[1].experiments:  # all batch sizes have about as many tokens and evaluations
        config = configs[run.name]
        tokens = config.max_steps * config.batch_size
        assert tokens == pytest.approx(base.max_steps * base.batch_size, rel=0.05)
        assert config.eval_every * config.batch_size == pytest.approx(
            base.eval_every * base.batch_size, rel=0.35
        )
    rates = [configs[run.name].schedule.max_learning_rate for run in groups[0].experiments]
    assert rates == sorted(rates)
    assert rates == list(scale.learning_rates)
