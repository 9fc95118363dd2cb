"""The checksums of a model's files: those that its record tells, and those that the files have.

What was fetched is believed as long as nothing is computed from it, so that asking whether a tree
is still that of its model reads no weights. What is loaded is read and compared first. So every
result stands beside the checksums of the bytes that it was computed from, and weights that a
failing disk changed give an error and no result.
"""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from llmchecker.errors import ChecksumMismatch
from llmchecker.fetching.model_files import PROVENANCE
from llmchecker.files import read_json, sha256_of


def known_checksums(directory: str | Path) -> dict[str, str]:
    """The sha256 of every file of a model by name, read only where no record holds it.

    A link and a file that nobody recorded are read. Size and time of a file would be faster, but
    do not tell its content.
    """
    directory = Path(directory)
    recorded, files = _recorded(directory), _files(directory)
    fetched = {name: recorded[name] for name in recorded if name in files and _is_ours(files[name])}
    return _sorted(fetched | _read({n: path for n, path in files.items() if n not in fetched}))


def checked_checksums(directory: str | Path) -> dict[str, str]:
    """The sha256 of every file of a model by name, each read now and compared with its record.

    A link leads to what somebody else keeps and may change, so it is not compared.

    Raises:
        ChecksumMismatch: a file that was fetched is another one now, or is gone.
    """
    directory = Path(directory)
    recorded, files = _recorded(directory), _files(directory)
    found = _read(files)
    for name, expected in recorded.items():
        if name not in files:
            raise ChecksumMismatch(
                f"{directory} has no {name}, which was fetched with the model; delete the "
                "directory to fetch the model again"
            )
        if _is_ours(files[name]) and found[name] != expected:
            raise ChecksumMismatch(
                f"{directory / name} is not what was fetched: its sha256 is {found[name]}, and "
                f"{PROVENANCE} beside it records {expected}; delete the directory to fetch the "
                "model again"
            )
    return _sorted(found)


def _recorded(directory: Path) -> dict[str, str]:
    try:
        return dict(read_json(directory / PROVENANCE)["files"])
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def _files(directory: Path) -> dict[str, Path]:
    """The files of a directory by name, hidden ones and the record left out."""
    paths = {str(path.relative_to(directory)): path for path in directory.rglob("*")}
    return {
        name: path
        for name, path in paths.items()
        if path.is_file()
        and name != PROVENANCE
        and not any(part.startswith(".") for part in Path(name).parts)
    }


def _is_ours(path: Path) -> bool:
    """Whether the content of a file was put there by fetching."""
    return not path.is_symlink()


def _read(files: dict[str, Path]) -> dict[str, str]:
    # reading and hashing let other threads go on, and large models come in several files
    with ThreadPoolExecutor() as pool:
        return dict(zip(files, pool.map(sha256_of, files.values()), strict=True))


def _sorted(checksums: dict[str, str]) -> dict[str, str]:
    return dict(sorted(checksums.items()))
