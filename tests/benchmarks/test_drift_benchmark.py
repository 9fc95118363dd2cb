"""The benchmark of watched deployments: rounded weights, planned tests and days until a change."""

import drift
import numpy as np
import pytest
import torch
from scipy.stats import binom, fisher_exact

SIZES = drift.Sizes(runs=1, days=6, at_release=60)


@pytest.mark.parametrize(("release", "later"), [(0.2, 0.6), (0.7, 0.3)])
def test_a_planned_test_has_the_power_of_fishers(release, later):
    """The days are the least ones whose answers refute at the level with the power."""
    days = drift._plan_days(release, later, SIZES)
    count, total = round(release * SIZES.at_release), SIZES.at_release
    side = "greater" if later > release else "less"

    def find_power(drawn: int) -> float:
        refuted = [
            fisher_exact([[k, drawn - k], [count, total - count]], side).pvalue <= drift.LEVEL / 2
            for k in range(drawn + 1)
        ]
        return float(binom.pmf(np.arange(drawn + 1), drawn, later)[refuted].sum())

    assert find_power(drift.DAILY * days) >= drift.POWER
    assert days == 1 or find_power(drift.DAILY * (days - 1)) < drift.POWER


def test_rounded_weights_are_those_of_their_format():
    """Each block has at most 16 values as Q4_0, the embeddings more, and vectors stay."""
    network = torch.nn.ModuleDict(
        {"embed": torch.nn.Linear(64, 4), "layer": torch.nn.Linear(64, 4)}
    )
    before = {name: weight.detach().clone() for name, weight in network.named_parameters()}
    drift._round_weights(network, drift._LATER)
    after = dict(network.named_parameters())
    blocks = {n: after[f"{n}.weight"].detach().reshape(-1, 32) for n in ("embed", "layer")}
    assert all(len(block.unique()) <= 16 for block in blocks["layer"])
    assert all(len(block.unique()) > 16 for block in blocks["embed"])
    assert (before["layer.bias"] == after["layer.bias"]).all()
    assert (before["layer.weight"] - after["layer.weight"]).abs().max() < 0.05


def test_a_change_is_found_and_none_is_not():
    """A probability that falls from 0.9 to 0.1 is refuted early, and the same one never."""
    first = np.array([0.9])
    assert drift._count_days(np.array([0]), first, np.array([0.1]), SIZES) < SIZES.days
    assert drift._count_days(np.array([0]), first, first, SIZES) == SIZES.days
