"""Installed packages with plug-ins, as pip leaves them."""

from pathlib import Path


def install(directory: Path, package: str, entries: str) -> None:
    """What pip leaves behind of an installed package: its metadata."""
    metadata = directory / f"{package}-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(entries)
