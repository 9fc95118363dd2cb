"""A suite of an application with every kind of verdict, and its run."""

from pathlib import Path

import yaml

import llmchecker as lc
from llmchecker.suites.results import SuiteResult

SUITE = {
    "length": 5,
    "budget": {"answers": 60},
    "cases": [
        {
            "name": "capital",
            "user": "Where?",
            "require": {
                "paris": {"contains": "Paris", "at_least": 0.5},
                "rome": {"contains": "Rome", "at_least": 0.5},
                "sure": {"contains": "Paris", "at_least": 0.999},
            },
        },
        {
            "name": "talk",
            "turns": [{"user": "Hi"}, {"user": "Bye"}],
            "require": {"late": "P<=0.1 [ F (turn = 2 & paris > 0) ]"},
        },
    ],
    "properties": {"paris": {"type": "pattern", "pattern": "Paris"}},
}


def run_application_suite(path: Path) -> SuiteResult:
    """Write the suite to a file, and run it on an application that always answers `Paris.`"""
    path.write_text(yaml.safe_dump(SUITE))
    return lc.suite(path, models=[lc.texts(lambda messages: "Paris.", name="app")]).run().result
