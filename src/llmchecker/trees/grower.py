"""Trees in files, each beside a record of how it was grown: `….parquet` beside `….json`."""

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llmchecker.deployed.chat import Start
from llmchecker.deployed.decoding import Asked
from llmchecker.errors import DamagedFile, UnusableModel
from llmchecker.fetching.checksums import known_checksums
from llmchecker.files import read_sealed, read_sealed_json, write_sealed_json
from llmchecker.serving.settings import SERVER
from llmchecker.trees import fingerprints, making
from llmchecker.trees.outlook import GrowthLimits, Watch
from llmchecker.trees.selection import CANCELLATION
from llmchecker.trees.shards import Shard, merge_shards
from llmchecker.trees.store import DistributionStore, StoredDistributions
from llmchecker.trees.text_tree import TextTree, Truncation

if TYPE_CHECKING:
    from llmchecker.models.causal import CausalModel
    from llmchecker.models.masked import MaskedModel
    from llmchecker.serving.served import ServedModel
    from llmchecker.trees.expansion import EndOfSequence, Progress

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Growth:
    """How a tree was grown.

    Attributes:
        fingerprint: of all that the tree depends on.
        nodes: texts that have children.
        computed: how many of these nodes the model was asked about. For the others its answer was
            stored.
        seconds: how long growing took, without loading the model.
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
    """The path of the record that belongs to a tree's file."""
    return Path(tree).with_suffix(".json")


@dataclass(frozen=True)
class Grower:
    """Grows trees of one model, which is loaded when it is needed, or whose server is asked then.

    Args:
        directory: of the model.
        kind, dtype, device, threads, memory_bytes: as in `load_model`.
        end_of_sequence: as in `expansion.grow_tree`.
        store: of distributions, so that none is computed twice.
        decoding: how next tokens are chosen.
        limits: that every tree must keep.
        origin: the grower whose loaded model is asked, with another decoding; see `decoded`.
    """

    directory: Path
    kind: str
    dtype: str
    device: str
    threads: int
    memory_bytes: int
    end_of_sequence: "EndOfSequence"
    store: DistributionStore
    decoding: Asked = None
    limits: GrowthLimits = field(default_factory=GrowthLimits)
    origin: "Grower | None" = field(default=None, repr=False, compare=False)

    def decoded(self, decoding: Asked) -> "Grower":
        """A grower of the same model with a decoding of its own; itself for None.

        The two load the model once.
        """
        return self if decoding is None else replace(self, decoding=decoding, origin=self)

    def has_grown(self, path: str | Path, start: Start, truncation: Truncation) -> bool:
        """Whether a file holds the very tree that would be grown, and no bit of it was changed."""
        try:
            recorded = Growth(**read_sealed_json(record_of(path))).fingerprint
            if recorded != self.fingerprint(start, truncation):
                return False
            read_sealed(path)
        except (OSError, TypeError):
            return False
        except DamagedFile as error:
            _log.warning("to be grown again: %s", error)
            return False
        return True

    def grow(
        self,
        path: str | Path,
        start: Start,
        truncation: Truncation,
        progress: "Progress",
        shard: Shard | None = None,
    ) -> tuple[TextTree, Growth]:
        """Grow a tree, or a shard of it; write it and its record.

        Raises:
            ChecksumMismatch: the model's files are not those that were fetched.
            UnusableModel: the model cannot be loaded.
            ConfigError: the tree is expected to exceed the limits.
        """
        # this imports torch and transformers, which takes seconds: a tree that is kept does without
        from llmchecker.trees.expansion import grow_tree

        model = self.model
        began = time.monotonic()
        stored = self.stored(start)
        watch = Watch(model.name, truncation, self.limits, len(str(start)))
        tree = grow_tree(
            model, start, truncation, self.end_of_sequence, progress, stored, shard, watch
        )
        seconds = time.monotonic() - began
        fingerprint = self.fingerprint(start, truncation)
        return tree, self.record(tree, path, fingerprint, stored.added, seconds)

    def record(
        self, tree: TextTree, path: str | Path, fingerprint: str, computed: int, seconds: float
    ) -> Growth:
        """Write a tree that was grown here and now, in whatever way, and its record.

        Args:
            fingerprint, computed, seconds: as in `Growth`.
        """
        return _written(tree, path, fingerprint, computed, seconds, [self.making_now()])

    def making_now(self) -> Mapping[str, Any]:
        """The fields of a `making.Making`: how the model is asked here and now."""
        return asdict(replace(self._making, date=making.utc_now()))

    def merge(
        self, path: str | Path, start: Start, shards: Sequence[str | Path]
    ) -> tuple[TextTree, Growth]:
        """Put a tree together from the files of all its shards; write it and its record.

        Raises:
            DamagedFile: a bit of a file is not what was written.
            InvalidTree: files that do not hold the shards of one tree.
        """
        tree = merge_shards([TextTree.read(shard, is_shard=True) for shard in shards])
        grown = [Growth(**read_sealed_json(record_of(shard))) for shard in shards]
        computed, seconds = sum(g.computed for g in grown), sum(g.seconds for g in grown)
        makings = [making for g in grown for making in g.makings]
        fingerprint = self.fingerprint(start, tree.truncation)
        return tree, _written(tree, path, fingerprint, computed, seconds, makings)

    def stored(self, start: Start) -> StoredDistributions:
        """What is stored of the model after a start string.

        Raises:
            UnusableModel: the model cannot be loaded.
        """
        model = self.model
        # where a model tells no more than what is stored, the rest is what is missing of 1
        least_rest = CANCELLATION if model.told == model.vocabulary_size else 0.0
        return self.store.after(self.model_fingerprint, model.encode(start), least_rest)

    @property
    def is_loaded(self) -> bool:
        """Whether the model was needed so far."""
        return "_loaded" in vars(self)

    @cached_property
    def model(self) -> "CausalModel | MaskedModel | ServedModel":
        from llmchecker.loading.models import decoded

        return decoded(self._loaded, self.decoding)

    @cached_property
    def _loaded(self) -> "CausalModel | MaskedModel | ServedModel":
        if self.origin is not None:
            return self.origin._loaded
        if (self.directory / SERVER).is_file():
            from llmchecker.serving.connecting import connect_model

            return connect_model(self.directory)
        if self.kind == "served":
            raise UnusableModel(
                f"{self.directory} was fetched from elsewhere, and not from the server that the "
                "configuration names now; remove the directory, and run the same command again"
            )
        from llmchecker.loading.models import load_model

        return load_model(
            self.directory, self.kind, self.dtype, self.device, self.threads, self.memory_bytes
        )

    @cached_property
    def _making(self) -> making.Making:
        return making.describe_making(
            self.directory,
            self.files,
            self.kind,
            self.dtype,
            self.device,
            self.threads,
            self.decoding,
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
        return fingerprints.of_model(self.files, self.kind, self.dtype, self.device, self.decoding)

    def fingerprint(self, start: Start, truncation: Truncation) -> str:
        """What the tree depends on, but for the last bits of its probabilities."""
        return fingerprints.of_tree(
            self.files,
            self.kind,
            self.dtype,
            start,
            truncation,
            self.end_of_sequence,
            self.decoding,
        )


def _written(
    tree: TextTree,
    path: str | Path,
    fingerprint: str,
    computed: int,
    seconds: float,
    makings: Sequence[Mapping[str, Any]],
) -> Growth:
    """Write a tree and its record."""
    growth = Growth(fingerprint, int(tree.internal.sum()), computed, seconds, makings)
    # a record must never stand beside a tree that it does not describe
    record_of(path).unlink(missing_ok=True)
    tree.write(path)
    write_sealed_json(asdict(growth), record_of(path))
    return growth
