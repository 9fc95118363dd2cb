"""The benchmark of texts alone: every figure that it defines, on little work."""

import pytest
import texts_alone


@pytest.mark.long
def test_the_stub_and_the_client_give_every_figure_of_speed():
    """A stub in a process of its own answers both the client and bare sockets."""
    figures = texts_alone.measure_speed(128)
    assert set(figures) == {name for name in texts_alone.DEFINITIONS if name.startswith("speed.")}
    # the stub answers at most 64 requests in 50 ms
    assert 0 < figures["speed.ratio_to_limit"] <= 1.1


def test_a_test_of_a_fixed_number_decides_all_cases_mostly():
    """The fixed number grows as the threshold nears the pass rate of 0.95."""
    error_probability = 0.01 / texts_alone.CASES
    numbers = [texts_alone.find_fixed_number(t, error_probability) for t in (0.6, 0.7, 0.8)]
    assert numbers == sorted(numbers)
    # a case without a failure decides the threshold t at (e / 2)^(1 / n) >= t
    assert numbers[-1] > 40
