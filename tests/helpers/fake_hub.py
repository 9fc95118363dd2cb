"""A hub on a port of this machine, which speaks the hub's protocol as far as fetching needs it."""

import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote

import pytest

COMMIT = "0123456789abcdef0123456789abcdef01234567"
NOT_LISTED = " and you are not in the authorized list."


@dataclass
class Hub:
    """What the hub has, how it refuses, and what it was asked for.

    Args:
        files: contents by name, the same in every repository and at every commit.
        large: names of files that are stored by sha256.
        commits: those that exist; the last is what the default branch stands at.
        tags: the commits of tags and branches.
        members: the tokens that may read a gated repository; None if it is not gated.
        accounts: all tokens that the hub knows.
        refuse_listing, refuse_files: a status and an error code.
        asked: the names of files that were asked for.
        address: where it is reached.
    """

    files: dict[str, bytes] = field(default_factory=dict)
    large: frozenset[str] = frozenset()
    commits: list[str] = field(default_factory=lambda: [COMMIT])
    tags: dict[str, str] = field(default_factory=dict)
    members: frozenset[str] | None = None
    accounts: frozenset[str] = frozenset()
    refuse_listing: tuple[int, str] | None = None
    refuse_files: tuple[int, str] | None = None
    asked: list[str] = field(default_factory=list)
    address: str = ""

    def object_id(self, name: str) -> str:
        contents = self.files[name]
        return hashlib.sha1(b"blob %d\0" % len(contents) + contents).hexdigest()

    def entry(self, name: str) -> dict:
        size = len(self.files[name])
        entry = {"type": "file", "path": name, "size": size, "oid": self.object_id(name)}
        if name in self.large:
            sha256 = hashlib.sha256(self.files[name]).hexdigest()
            entry["lfs"] = {"oid": sha256, "size": size, "pointerSize": 99}
        return entry

    def refusal(self, token: str | None) -> tuple[int, dict[str, str]] | None:
        """The status and headers by which the real hub keeps a token from a file."""
        if token is not None and token not in self.accounts:
            return 401, {"X-Error-Message": "Invalid credentials in Authorization header"}
        if self.members is None or token in self.members:
            return None
        status, reason = (401, ". Please log in.") if token is None else (403, NOT_LISTED)
        message = f"Access to model owner/name is restricted{reason}"
        return status, {"X-Error-Code": "GatedRepo", "X-Error-Message": message}


class HubHandler(BaseHTTPRequestHandler):
    """The requests of the hub's client: about a repository, a listing, a file and its head."""

    def do_GET(self) -> None:
        self.answer(with_body=True)

    def do_HEAD(self) -> None:
        self.answer(with_body=False)

    def answer(self, with_body: bool) -> None:
        served: Hub = self.server.hub
        commit = next((c for c in served.commits if f"/{c}" in self.path), served.commits[-1])
        if re.search(r"/[0-9a-f]{40}(/|$|\?)", self.path) and commit not in self.path:
            self.refuse(404, {"X-Error-Code": "RevisionNotFound"})
        elif re.fullmatch(r"/api/(models|datasets)/[^/]+/[^/?]+(/revision/[^/?]+)?", self.path):
            self.describe(served, with_body)
        elif "/tree/" in self.path:
            body = json.dumps([served.entry(name) for name in served.files]).encode()
            self.reply(served.refuse_listing, commit, body, with_body)
        else:
            self.send_file(served, commit, with_body)

    def describe(self, served: Hub, with_body: bool) -> None:
        """Anybody may know that a gated repository exists, and its newest commit."""
        name, _, revision = self.path.split("/", 3)[3].partition("/revision/")
        commit = served.tags.get(unquote(revision)) if revision else served.commits[-1]
        if commit is None:
            self.refuse(404, {"X-Error-Code": "RevisionNotFound"})
            return
        body = json.dumps({"id": name, "sha": commit, "siblings": []}).encode()
        self.reply(served.refuse_listing, commit, body, with_body)

    def send_file(self, served: Hub, commit: str, with_body: bool) -> None:
        name = self.path.partition(f"/resolve/{commit}/")[2]
        if name:  # the client asks for other things too, which this hub does not have
            served.asked.append(name)
        if name not in served.files:
            self.reply((404, "EntryNotFound"), commit, b"", with_body)
            return
        authorization = self.headers.get("Authorization")
        refusal = served.refusal(authorization and authorization.removeprefix("Bearer "))
        if refusal:
            self.refuse(*refusal)
            return
        entry = served.entry(name)
        etag = entry["lfs"]["oid"] if "lfs" in entry else entry["oid"]
        self.reply(served.refuse_files, commit, served.files[name], with_body, ETag=f'"{etag}"')

    def refuse(self, status: int, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": "0"}.items():
            self.send_header(name, value)
        self.end_headers()

    def reply(
        self,
        refusal: tuple[int, str] | None,
        commit: str,
        body: bytes,
        with_body: bool,
        **headers: str,
    ) -> None:
        if refusal:
            status, code = refusal
            self.refuse(status, {"X-Error-Code": code} if code else {})
            return
        self.send_response(200)
        headers |= {"X-Repo-Commit": commit, "Content-Type": "application/json"}
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        if with_body:
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Keep quiet."""


@contextmanager
def serving() -> Iterator[Hub]:
    """A hub that answers while the block runs."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), HubHandler)
    server.hub = Hub(address=f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server.hub
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def point_client_at(address: str, patch: pytest.MonkeyPatch) -> None:
    """Let the hub's client of this process take an address for the hub.

    HF_ENDPOINT does the same, but the client reads it only once.
    """
    template = address + "/{repo_id}/resolve/{revision}/{filename}"
    patch.setattr("huggingface_hub.constants.ENDPOINT", address)
    patch.setattr("huggingface_hub.constants.HUGGINGFACE_CO_URL_TEMPLATE", template)


def make_client_new(home: Path, patch: pytest.MonkeyPatch) -> None:
    """Let the hub's client of this process have an empty cache, and no token of who runs this."""
    patch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(home / "cache"))
    patch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", str(home / "token"))
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"):
        patch.delenv(name, raising=False)
