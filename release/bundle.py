"""Write one archive from which everything runs without a network:

    .venv/bin/python release/bundle.py llmchecker.tar resources/models/smollm2-135m …

It holds the tracked files of this checkout, `wheelhouse/` with every package that constraints.txt
pins, the fetched directories that are named, the results that are there, and `SHA256SUMS` of all of
them, which `sha256sum --check` reads. `make bundle` calls it; docs/how-to/reproduce.md says what to
do with the archive.
"""

import argparse
import hashlib
import io
import subprocess
import sys
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parent.parent
WHEELHOUSE = "wheelhouse"
CHECKSUMS = "SHA256SUMS"
RESULTS = ("results", "resources/datasets", ".snakemake/metadata", ".snakemake/incomplete")
"""Results, what they were made from, and Snakemake's records, by which they count as current."""
CACHES = ("results/distributions/", "results/cached/prism/")
"""Large files that no result needs again."""
NEWER = 60
"""Seconds by which what was made is newer than what it was made from."""


def main(argv: Sequence[str] | None = None) -> None:
    """Write the archive, and its checksum beside it."""
    parser = argparse.ArgumentParser(description="Write an archive that runs without a network.")
    parser.add_argument("archive", type=Path, help="a .tar file")
    parser.add_argument("fetched", nargs="*", help="directories that were fetched")
    arguments = parser.parse_args(argv)
    wheels = arguments.archive.absolute().with_suffix(f".{WHEELHOUSE}")
    if not (ROOT / ".git").exists():
        sys.exit("only a git checkout can be bundled: git tells which files are the project's")
    build_wheels(ROOT, wheels)
    made = {f"{WHEELHOUSE}/{file.name}": file for file in wheels.iterdir()}
    for folder in arguments.fetched:
        made |= below(ROOT, folder)
    sources = tracked(ROOT)
    made |= results(ROOT, sources)
    partial = arguments.archive.with_name(f"{arguments.archive.name}.partial")
    write_archive(partial, arguments.archive.stem, sources, made, committed(ROOT))
    partial.replace(arguments.archive)
    digest = sha256_of_file(arguments.archive)
    line = f"{digest}  {arguments.archive.name}\n"
    arguments.archive.with_name(f"{arguments.archive.name}.sha256").write_text(line)
    size = arguments.archive.stat().st_size / 1e9
    print(f"{arguments.archive}: {size:.2f} GB, sha256 {digest}")


def build_wheels(root: Path, wheels: Path) -> None:
    """Put a wheel of every pinned package into a directory, and nothing else.

    `pip wheel` also builds what is published as source only, so that nothing is left to be built
    where the archive is unpacked.
    """
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--wheel-dir", str(wheels)]
    command += ["--requirement", "constraints.txt"]
    subprocess.run(command, cwd=root, check=True)
    pins = pinned(root)
    for wheel in wheels.glob("*.whl"):
        name, version = named(wheel)
        if pins.get(name) != version:  # of an earlier bundle, before the pins changed
            wheel.unlink()
    if missing := pins.keys() - {named(wheel)[0] for wheel in wheels.glob("*.whl")}:
        sys.exit(f"{wheels} has no wheel of {', '.join(sorted(missing))}")


def pinned(root: Path) -> dict[str, str]:
    """The version of every package that constraints.txt pins."""
    lines = (root / "constraints.txt").read_text().splitlines()
    pins = [line.partition(";")[0].split("==") for line in lines if not line.startswith("#")]
    return {_normal(name): version.strip() for name, version in pins}


def named(wheel: Path) -> tuple[str, str]:
    """The package in a wheel, and its version without what a mirror appends to it."""
    name, version = wheel.name.split("-")[:2]
    return _normal(name), version.partition("+")[0]


def tracked(root: Path) -> dict[str, Path]:
    """The files that git tracks, by their place in the archive."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=root, check=True, capture_output=True, text=True
    ).stdout
    return {name: root / name for name in listed.split("\0") if name}


def below(root: Path, folder: str) -> dict[str, Path]:
    """The files in a directory, by their place in the archive."""
    files = [path for path in sorted((root / folder).rglob("*")) if path.is_file()]
    if not files:
        sys.exit(f"{folder} holds no files; `make bundle` fetches it first")
    return {f"{folder}/{path.relative_to(root / folder)}": path for path in files}


def results(root: Path, sources: Mapping[str, Path]) -> dict[str, Path]:
    """The finished results that are there and what they need, by their place in the archive.

    Args:
        root: the checkout.
        sources: the files that git tracks, by their place.
    """
    found = {}
    for folder in RESULTS:
        for path in sorted((root / folder).rglob("*")):
            name = path.relative_to(root).as_posix()
            # what a killed job left has a name with a dot; Snakemake's records have none
            is_left = path.name.startswith(".") or name.startswith(CACHES) or name in sources
            if path.is_file() and not is_left:
                found[name] = path
    return found


def committed(root: Path) -> int:
    """When the last commit was made, in seconds since 1970: the time of all files."""
    command = ["git", "log", "-1", "--format=%ct"]
    return int(subprocess.run(command, cwd=root, check=True, capture_output=True).stdout)


def write_archive(
    archive: Path, folder: str, sources: Mapping[str, Path], made: Mapping[str, Path], time: int
) -> None:
    """Write files to an archive, all in one folder, with their checksums beside them.

    Equal contents give equal archives: names are sorted, and owner and times are those given here.

    Args:
        archive: the file to write.
        folder: in the archive.
        sources: files by their place in the folder.
        made: files that came from these or from elsewhere, by their place. They are a minute newer
            than the sources, or snakemake would make them again.
        time: of the sources, in seconds since 1970.
    """
    with tarfile.open(archive, "w", format=tarfile.PAX_FORMAT) as tar:

        def add(name: str, size: int, mode: int, time: int, file: io.IOBase) -> None:
            entry = tarfile.TarInfo(str(PurePosixPath(folder, name)))
            entry.size, entry.mode, entry.mtime = size, mode, time
            tar.addfile(entry, file)

        lines = []
        for name, path in sorted({**sources, **made}.items()):
            stat = path.stat()
            mode = 0o755 if stat.st_mode & 0o100 else 0o644
            with path.open("rb") as file:
                add(name, stat.st_size, mode, time + NEWER * (name in made), file)
            lines.append(f"{sha256_of_file(path)}  {name}\n")
        text = "".join(lines).encode()
        add(CHECKSUMS, len(text), 0o644, time, io.BytesIO(text))


def sha256_of_file(path: Path) -> str:
    """The sha256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _normal(name: str) -> str:
    return name.strip().lower().replace("-", "_").replace(".", "_")


if __name__ == "__main__":
    main()
