"""Places to fetch from that need no network."""

from pathlib import Path

import pytest
from helpers.fake_hub import make_client_new, point_client_at, serving


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory that is the only place where pip looks for wheels."""
    links = tmp_path / "links"
    links.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(links))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    return links


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The client's cache, and no token of whoever runs the tests."""
    make_client_new(tmp_path, monkeypatch)
    return tmp_path / "cache"


@pytest.fixture
def served(cache: Path, monkeypatch: pytest.MonkeyPatch):
    """A hub on a port of this machine, which the hub's own client talks to."""
    with serving() as answering:
        point_client_at(answering.address, monkeypatch)
        yield answering
