"""A model is opened by its description, and loaded by its first use."""

import os

from llmchecker.config.models import describe_directory
from llmchecker.config.opening import open_model
from llmchecker.config.registry_keys import ExpansionConfig
from llmchecker.models.servers.spending import Spending


def test_a_model_opens_on_a_system_without_affinities(random_model, monkeypatch):
    """Where a process cannot ask for its cores, a model uses all of the machine."""
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 3)
    model = describe_directory("given", random_model("gpt2"))
    assert open_model(model, ExpansionConfig(), Spending()).threads == 3
    assert open_model(model, ExpansionConfig(threads=2), Spending()).threads == 2


def test_the_name_of_a_directory_is_no_name_of_the_configuration(tmp_path):
    """A directory may end like a file of the workflow; a configured name may not."""
    assert describe_directory("words.grown", tmp_path).directory == tmp_path
