"""A refinement visits the batch that promises most."""

from collections import defaultdict

import pytest
from helpers.anytime_checks import Kind, plant, refine, spread_model

from llmchecker.checking.anytime import refinement
from llmchecker.checking.anytime.refinement import _HORIZON_WEIGHT, select_batch


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("max_texts", [2, 384])
def test_a_batch_has_the_largest_total_gain(seed, max_texts):
    """At every refinement, the batch is the one that a loop over all open texts finds."""
    asked = Kind(("F", None, ("atom", "gender", ">", 1)), length=4).ask()
    tree, server = plant(asked, spread_model(seed))
    for _ in range(12):
        groups = defaultdict(list)
        for uid in range(len(tree.step)):
            missing = int(tree.length - 1 - tree.step[uid])
            weight = max(_HORIZON_WEIGHT**missing, tree.early_decided_share)
            weight *= _HORIZON_WEIGHT if tree.is_visited[uid] else 1
            gain = tree.undecided_mass[uid] * weight
            if (tree.truth[:, uid] < 0).any() and gain > 0:
                groups[tree.step[uid]].append((gain, -uid))
        totals = []
        for members in groups.values():
            best = max(members)[0]
            kept = sorted((m for m in members if m[0] >= best / 8), reverse=True)[:max_texts]
            totals.append((sum(gain for gain, _ in kept), {-uid for _, uid in kept}))
        batch = select_batch(tree, max_texts)
        chosen = sum(gain for members in groups.values() for gain, u in members if -u in set(batch))
        # equal totals may be chosen in any order
        assert chosen == pytest.approx(max(total for total, _ in totals), rel=1e-12)
        assert set(batch.tolist()) in [texts for _, texts in totals]
        refine(tree, server, max_texts)


def test_nothing_left_gives_an_empty_batch():
    """A tree in which every text is decided has no batch."""
    tree, server = plant(Kind(("F", None, ("atom", "step", ">", -1))).ask(), spread_model(0))
    while refine(tree, server):
        pass
    assert len(refinement.select_batch(tree)) == 0
