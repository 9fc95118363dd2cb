"""Suites over table models: every probability is known by enumeration."""

from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

import llmchecker as lc


@dataclass(frozen=True)
class OpenTable:
    """A table model in place of a loaded one."""

    model: lc.TableModel
    end_of_sequence: str = "terminal"

    def open_prompt_cache(self, start):
        return None
