"""The packages that only programs need, and their check."""

from importlib.util import find_spec

from llmchecker.errors import ConfigError

_PACKAGES = ("pcpp", "pycparser", "z3")


def check_dependencies() -> None:
    """Check that the packages of the extra `programs` are installed.

    Raises:
        ConfigError: a package is missing.
    """
    for package in _PACKAGES:
        if find_spec(package) is None:
            raise ConfigError(
                f"loop_invariants: the package {package} is missing; "
                'pip install "llmchecker[programs]"'
            )
