"""Checksums of a model's files, from its record and from the files themselves.

The record is used as long as nothing is computed from the files. A check that a tree belongs to its
model therefore reads no weights. Before files are loaded, they are read and compared with the
record. Every result thus refers to the checksums of the bytes that it was computed from. Weights
that a failing disk changed give an error and no result.

A link leads to a file that its owner may replace, as a training run does. It is read again after a
change, also without loading. In a job of the workflow, links to other bytes than the recorded ones
are an error, because other jobs of its run may have read the recorded ones.
"""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from llmchecker.errors import ChecksumMismatch, DamagedFile
from llmchecker.models.sources.local_files import learn_local_files
from llmchecker.models.sources.model_directory import PROVENANCE
from llmchecker.utils.atomic_files import compute_sha256, is_sha256, read_json
from llmchecker.utils.file_state import FileStamp, compute_checksums, read_stamp
from llmchecker.utils.processes import is_workflow_job

_WEIGHTS_SUFFIX = ".safetensors"
"""Suffix of weights, which are read while they are compared."""

_T = TypeVar("_T")


def read_checksums(directory: str | Path) -> dict[str, str]:
    """Return the recorded sha256 of every file of a model, by name.

    Links and files without a record are read, unless they are unchanged since they were read.

    Raises:
        DamagedFile: the record is damaged.
        ChecksumMismatch: in a job of the workflow, the target of a link changed or is missing.
    """
    directory = Path(directory)
    recorded_checksums, files = read_recorded_checksums(directory), _find_files(directory)
    links = {n: c for n, c in recorded_checksums.items() if (directory / n).is_symlink()}
    copied_checksums = {
        name: recorded_checksums[name]
        for name in recorded_checksums
        if name in files and name not in links
    }
    other_files = {n: path for n, path in files.items() if n not in copied_checksums}
    learn_local_files(directory, other_files)
    other_checksums = compute_checksums(other_files)
    if is_workflow_job():
        _compare_checksums(directory, links, files, other_checksums)
    return dict(sorted((copied_checksums | other_checksums).items()))


def check_checksums(directory: str | Path) -> dict[str, str]:
    """Read every file of a model, compare it with the record, and return each sha256.

    Returns:
        The sha256 of every file by name.

    Raises:
        DamagedFile: the record is damaged.
        ChecksumMismatch: a fetched file has changed or is missing.
    """
    return load_checked(directory, lambda: None)[1]


def load_checked(directory: str | Path, load: Callable[[], _T]) -> tuple[_T, dict[str, str]]:
    """Load a model while its files are compared with the record, as in `check_checksums`.

    All files but the weights are compared first, so that no damaged file is parsed. Weights are
    read at the same time by `load` and for their checksums, once from the disk and once from the
    system's cache. A single read would need memory for them twice, as bytes and as tensors.

    Args:
        directory: path of the model directory.
        load: loads the model from the directory.

    Returns:
        The result of `load`, and the sha256 of every file by name.

    Raises:
        DamagedFile: the record is damaged.
        ChecksumMismatch: a fetched file has changed or is missing, or a file changed while it was
            read. This error replaces an error of `load`, which it explains.
    """
    directory = Path(directory)
    recorded_checksums, files = read_recorded_checksums(directory), _find_files(directory)
    stamps = _read_stamps(files, recorded_checksums)
    weights = {name: path for name, path in files.items() if path.suffix == _WEIGHTS_SUFFIX}
    checksums = _compute_checksums({n: path for n, path in files.items() if n not in weights})
    small_records = {n: c for n, c in recorded_checksums.items() if n not in weights}
    _compare_checksums(directory, small_records, files, checksums)
    with ThreadPoolExecutor(1) as pool:
        weight_checksums = pool.submit(_compute_checksums, weights)
        try:
            loaded = load()
        except Exception:
            checksums |= weight_checksums.result()
            _compare_checksums(directory, recorded_checksums, files, checksums)
            raise
        checksums |= weight_checksums.result()
    _compare_checksums(directory, recorded_checksums, files, checksums)
    # the weights were read twice, and both times must have found the same bytes
    if _read_stamps(files, recorded_checksums) != stamps:
        raise ChecksumMismatch(
            f"{directory}: its files changed while they were loaded; run the same command again"
        )
    return loaded, dict(sorted(checksums.items()))


def _read_stamps(
    files: Mapping[str, Path], recorded_checksums: Mapping[str, str]
) -> dict[str, FileStamp]:
    """Read the metadata of the files that their owner may change.

    A copy that was fetched is left out: another project may link the same file of a download
    cache, which changes its metadata.
    """
    return {
        name: read_stamp(path)
        for name, path in files.items()
        if path.is_symlink() or name not in recorded_checksums
    }


def _compare_checksums(
    directory: Path,
    recorded_checksums: dict[str, str],
    files: dict[str, Path],
    checksums: dict[str, str],
) -> None:
    """Raise ChecksumMismatch if a recorded file has another checksum or is missing.

    The target of a link may change between runs, but not between the jobs of a run.
    """
    for name, expected in recorded_checksums.items():
        path = directory / name
        is_link = path.is_symlink()
        if is_link and checksums.get(name) != expected and is_workflow_job():
            raise ChecksumMismatch(
                f"{path.resolve()}: the file changed after {directory} was fetched; run the same "
                "command again"
            )
        if name not in files:
            raise ChecksumMismatch(
                f"{directory}: {name} is missing; delete the directory to fetch the model again"
            )
        if not is_link and checksums[name] != expected:
            raise ChecksumMismatch(
                f"{path}: its sha256 is {checksums[name]}, but {PROVENANCE} records "
                f"{expected}; delete the directory to fetch the model again"
            )


def check_same_files(files: Mapping[str, str], directory: str | Path, result: str | Path) -> None:
    """Check that a result is of the model that is fetched now.

    Args:
        files: the sha256 of the files from which the result was computed, by name.
        directory: path of the model directory. One without a record is not compared.
        result: path of the result, for the message.

    Raises:
        DamagedFile: the record is damaged.
        ChecksumMismatch: a fetched file has another checksum.
    """
    recorded_checksums = read_recorded_checksums(Path(directory))
    for name, expected in recorded_checksums.items():
        if files.get(name) != expected:
            raise ChecksumMismatch(
                f"{result}: computed from another {name} than that of {directory}; delete the "
                "file and run the same command again"
            )


def read_recorded_checksums(directory: Path) -> dict[str, str]:
    """Return the checksums in the record; empty for a directory that was not fetched.

    Raises:
        DamagedFile: the record is truncated or has no checksums.
    """
    record = directory / PROVENANCE
    if not record.exists():
        return {}
    checksums = read_json(record).get("files")
    if not isinstance(checksums, dict) or not all(map(is_sha256, checksums.values())):
        raise DamagedFile(
            f"{record}: no checksums of the model's files; delete the directory to fetch "
            "the model again",
            record,
            "; delete the directory to fetch the model again",
        )
    return checksums


def _find_files(directory: Path) -> dict[str, Path]:
    """Return the files of a directory by name, except hidden files and the record."""
    paths = {str(path.relative_to(directory)): path for path in directory.rglob("*")}
    return {
        name: path
        for name, path in paths.items()
        if path.is_file()
        and name != PROVENANCE
        and not any(part.startswith(".") for part in Path(name).parts)
    }


def _compute_checksums(files: dict[str, Path]) -> dict[str, str]:
    # large models have several files, and neither reading nor hashing holds the interpreter's lock
    with ThreadPoolExecutor() as pool:
        return dict(zip(files, pool.map(compute_sha256, files.values()), strict=True))
