"""Trees in files, each beside a record of how it was grown: `….parquet` beside `….json`."""

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llmchecker.errors import DamagedFile
from llmchecker.fetching.checksums import known_checksums
from llmchecker.files import read_json, read_sealed, write_json
from llmchecker.trees import fingerprints, making
from llmchecker.trees.shards import Shard, merge_shards
from llmchecker.trees.store import DistributionStore
from llmchecker.trees.text_tree import TextTree, Truncation

if TYPE_CHECKING:
    from llmchecker.models.causal import CausalModel
    from llmchecker.models.masked import MaskedModel
    from llmchecker.trees.expansion import EndOfSequence, Progress

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Growth:
    """How a tree was grown.

    Attributes:
        fingerprint: of all that the tree depends on.
        nodes: texts that have children.
        computed: those of them for which the model was asked; for the others its answer was stored.
        seconds: what growing took, loading the model not included.
        makings: the fields of a `making.Making` for each job that grew the tree or a shard.
    """

    fingerprint: str
    nodes: int
    computed: int
    seconds: float
    makings: Sequence[Mapping[str, Any]]

    def __str__(self) -> str:
        rate = self.nodes / self.seconds if self.seconds else 0
        return (
            f"{self.nodes} nodes in {self.seconds:.1f} s, {rate:.0f} nodes/s, "
            f"{self.computed} of them computed"
        )


def record_of(tree: str | Path) -> Path:
    """Where the record of a tree is, given the tree's file."""
    return Path(tree).with_suffix(".json")


@dataclass(frozen=True)
class Grower:
    """Grows trees of one model, which is loaded when it is needed.

    Args:
        directory: of the model.
        kind, dtype, device, threads, memory_bytes: as in `loading.load_model`.
        end_of_sequence: as in `expansion.grow_tree`.
        store: of distributions, so that none is computed twice.
    """

    directory: Path
    kind: str
    dtype: str
    device: str
    threads: int
    memory_bytes: int
    end_of_sequence: "EndOfSequence"
    store: DistributionStore

    def has_grown(self, path: str | Path, start: str, truncation: Truncation) -> bool:
        """Whether a file holds just the tree that would be grown, to the last bit of the file."""
        try:
            recorded = Growth(**read_json(record_of(path))).fingerprint
            if recorded != self.fingerprint(start, truncation):
                return False
            read_sealed(path)
        except (OSError, ValueError, TypeError):
            return False
        except DamagedFile as error:
            _log.warning("to be grown again: %s", error)
            return False
        return True

    def grow(
        self,
        path: str | Path,
        start: str,
        truncation: Truncation,
        progress: "Progress",
        shard: Shard | None = None,
    ) -> tuple[TextTree, Growth]:
        """Grow a tree, or a shard of it; write it and its record.

        Raises:
            ChecksumMismatch: the model's files are not those that were fetched.
            UnusableModel: the model cannot be loaded.
        """
        # with torch and transformers it takes seconds to import, which a tree that is there saves
        from llmchecker.trees.expansion import grow_tree

        model = self.model
        began = time.monotonic()
        stored = self.store.after(self.model_fingerprint, model.encode(start))
        tree = grow_tree(model, start, truncation, self.end_of_sequence, progress, stored, shard)
        seconds = time.monotonic() - began
        made = [asdict(replace(self._making, date=making.now()))]
        return tree, self._written(tree, path, start, stored.added, seconds, made)

    def merge(
        self, path: str | Path, start: str, shards: Sequence[str | Path]
    ) -> tuple[TextTree, Growth]:
        """Put together a tree from the files of all its shards; write it and its record.

        Raises:
            DamagedFile: a bit of a file is not what was written.
            InvalidTree: files that do not hold the shards of one tree.
        """
        tree = merge_shards([TextTree.read(shard, is_shard=True) for shard in shards])
        grown = [Growth(**read_json(record_of(shard))) for shard in shards]
        computed, seconds = sum(g.computed for g in grown), sum(g.seconds for g in grown)
        makings = [making for g in grown for making in g.makings]
        return tree, self._written(tree, path, start, computed, seconds, makings)

    def _written(
        self,
        tree: TextTree,
        path: str | Path,
        start: str,
        computed: int,
        seconds: float,
        makings: Sequence[Mapping[str, Any]],
    ) -> Growth:
        fingerprint = self.fingerprint(start, tree.truncation)
        growth = Growth(fingerprint, int(tree.internal.sum()), computed, seconds, makings)
        # a record must never stand beside a tree that it does not describe
        record_of(path).unlink(missing_ok=True)
        tree.write(path)
        write_json(asdict(growth), record_of(path))
        return growth

    @property
    def is_loaded(self) -> bool:
        """Whether the model was needed so far."""
        return "model" in vars(self)

    @cached_property
    def model(self) -> "CausalModel | MaskedModel":
        from llmchecker.models.loading import load_model

        return load_model(
            self.directory, self.kind, self.dtype, self.device, self.threads, self.memory_bytes
        )

    @cached_property
    def _making(self) -> making.Making:
        return making.making(
            self.directory, self.files, self.kind, self.dtype, self.device, self.threads
        )

    @property
    def files(self) -> Mapping[str, str]:
        """The sha256 of the model's files: as they were loaded, or as far as they are known."""
        return self.model.files if self.is_loaded else self._known_files

    @cached_property
    def _known_files(self) -> Mapping[str, str]:
        return known_checksums(self.directory)

    @property
    def model_fingerprint(self) -> str:
        """What the model's answers depend on, to the last bit."""
        return fingerprints.of_model(self.files, self.kind, self.dtype, self.device)

    def fingerprint(self, start: str, truncation: Truncation) -> str:
        """What the tree depends on, but for the last bits of its probabilities."""
        return fingerprints.of_tree(
            self.files, self.kind, self.dtype, start, truncation, self.end_of_sequence
        )
