"""The model of the suites in this folder."""

import agent

import llmchecker as lc


def pytest_llmchecker_models(path):
    """Return the agent, which answers at most eight questions at once."""
    return [lc.texts(agent.answer, name="agent", concurrency=8, seconds=60)]
