"""Optional packages: the extra of this package that installs each."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

from llmchecker.errors import MissingTool

EXTRAS = {
    "aiohttp": "servers",
    "docutils": "workflow",
    "lingua": "language",
    "llguidance": "grammars",
    "matplotlib": "workflow",
    "peft": "adapters",
    "pkg_resources": "readability",
    "seaborn": "workflow",
    "snakemake": "workflow",
    "textblob": "polarity",
    "textstat": "readability",
    "truststore": "servers",
}
"""Extra of each optional package by the name of its module."""

_PACKAGES = frozenset({"torchao"})
"""Optional packages that no extra installs, by the names of their modules."""

_STORM = (
    "stormpy: the package is missing; run pip install 'stormpy>=2.0,<3' (where it has no wheel, "
    "build Storm first)"
)


@contextmanager
def explain_missing_packages() -> Iterator[None]:
    """Name the command that installs an optional package if the block fails to import it.

    Raises:
        MissingTool: an import in the block needs a package that is not installed.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if (message := find_install_message(error)) is None:
            raise
        raise MissingTool(message) from error


def check_packages(*modules: str) -> None:
    """Check that optional packages are installed, without an import, which may take seconds.

    Raises:
        MissingTool: a package is missing.
    """
    for module in modules:
        if find_spec(module) is None:
            raise MissingTool(_format_install_message(module))


def find_install_message(error: BaseException) -> str | None:
    """Return the message for a missing optional package; None for any other error."""
    # a missing module of an installed package is a matter of its version, not of an extra
    if not isinstance(error, ModuleNotFoundError):
        return None
    if error.name == "stormpy":
        return _STORM
    if error.name not in EXTRAS:
        return None
    return _format_install_message(error.name)


def _format_install_message(module: str) -> str:
    package = module if module in _PACKAGES else f"'llmchecker[{EXTRAS[module]}]'"
    return f"{module}: the package is missing; run pip install {package}"
