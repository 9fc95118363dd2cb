"""The source of the installed package, from which another machine can install it too."""

import json
import re
import urllib.request
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from urllib.parse import urlsplit

_PACKAGE = "llmchecker"
_REPOSITORY_LABELS = ("repository", "source", "source code")
"""Labels of project URLs that name the repository of the sources."""
_GITHUB = re.compile(
    r"git\+https://github\.com/(?P<name>[\w.-]+/[\w.-]+?)(\.git)?@(?P<revision>[\w./-]+)"
)


def find_install_source() -> str | None:
    """Return what pip installs on another machine to get this package; None if it is unknown.

    Returns:
        `git+https://…@commit` or the path of a wheel, as pip recorded them; or else the repository
        of the metadata, with the tag of the version. A directory of this machine is no source.
    """
    try:
        package = distribution(_PACKAGE)
    except PackageNotFoundError:
        return None
    record = json.loads(package.read_text("direct_url.json") or "{}")
    if "archive_info" in record:
        return _find_wheel(record["url"])
    if (version_control := record.get("vcs_info")) is not None:
        return f"{version_control['vcs']}+{record['url']}@{version_control['commit_id']}"
    repository = _find_repository(package)
    return None if repository is None else f"git+{repository}@v{package.version}"


def find_github_repository(install_source: str) -> str | None:
    """Return `owner/name@revision` of a source on GitHub; None for other sources."""
    match = _GITHUB.fullmatch(install_source)
    return None if match is None else f"{match['name']}@{match['revision']}"


def _find_wheel(url: str) -> str | None:
    """Return the path of an installed wheel, or the address of one that was downloaded."""
    if not url.startswith("file:"):
        return url
    path = Path(urllib.request.url2pathname(urlsplit(url).path))
    return str(path) if path.is_file() else None


def _find_repository(package: Distribution) -> str | None:
    entries: list[str] = package.metadata.get_all("Project-URL") or []
    for entry in entries:
        label, _, address = entry.partition(",")
        if label.strip().lower() in _REPOSITORY_LABELS:
            return address.strip()
    return None
