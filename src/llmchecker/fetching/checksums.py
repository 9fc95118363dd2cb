"""The checksums of a model's files: those that its record holds, and those that the files have.

As long as nothing is computed from the files, the record is believed. So no weights are read to
find out whether a tree still belongs to its model. Before files are loaded they are read and
compared with the record. So every result stands beside the checksums of the bytes that it was
computed from, and weights that a failing disk changed give an error and no result.
"""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from llmchecker.errors import ChecksumMismatch, DamagedFile
from llmchecker.fetching.model_files import PROVENANCE
from llmchecker.files import is_sha256, read_json, sha256_of


def known_checksums(directory: str | Path) -> dict[str, str]:
    """The sha256 of every file of a model by name, as recorded when the file was fetched.

    Links and files without a record are read. Their size and time would be faster to compare, but
    they do not tell the content.

    Raises:
        DamagedFile: the record is not as it was written.
    """
    directory = Path(directory)
    recorded, files = _recorded(directory), _files(directory)
    fetched = {name: recorded[name] for name in recorded if name in files and _is_ours(files[name])}
    return _sorted(fetched | _read({n: path for n, path in files.items() if n not in fetched}))


def checked_checksums(directory: str | Path) -> dict[str, str]:
    """The sha256 of every file of a model by name; each is read now and compared with its record.

    A link is not compared, since it leads to a file that somebody else keeps and may change.

    The weights are read here and once more when they are loaded, then from the system's cache. To
    read them once they would have to lie in memory twice, as bytes and as tensors.

    Raises:
        DamagedFile: the record is not as it was written.
        ChecksumMismatch: a file that was fetched has changed or is gone.
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


def demand_record(directory: Path) -> None:
    """Raise DamagedFile if a model has a record that is cut or no record."""
    _recorded(directory)


def _recorded(directory: Path) -> dict[str, str]:
    """The checksums in the record; none for a directory that was not fetched."""
    record = directory / PROVENANCE
    if not record.exists():
        return {}
    recorded = read_json(record).get("files")
    if not isinstance(recorded, dict) or not all(map(is_sha256, recorded.values())):
        raise DamagedFile(
            f"{record} holds no checksums of the model's files; delete the directory to fetch the "
            "model again"
        )
    return recorded


def _files(directory: Path) -> dict[str, Path]:
    """The files of a directory by name, except hidden ones and the record."""
    paths = {str(path.relative_to(directory)): path for path in directory.rglob("*")}
    return {
        name: path
        for name, path in paths.items()
        if path.is_file()
        and name != PROVENANCE
        and not any(part.startswith(".") for part in Path(name).parts)
    }


def _is_ours(path: Path) -> bool:
    """Whether fetching wrote the content of a file, instead of linking to it."""
    return not path.is_symlink()


def _read(files: dict[str, Path]) -> dict[str, str]:
    # Threads help: large models come in several files, and neither reading nor hashing holds the
    # interpreter's lock.
    with ThreadPoolExecutor() as pool:
        return dict(zip(files, pool.map(sha256_of, files.values()), strict=True))


def _sorted(checksums: dict[str, str]) -> dict[str, str]:
    return dict(sorted(checksums.items()))
