"""Tree builder: trees in files, each with a record of its build.

A tree is in `NAME.parquet`, and its record is next to it in `NAME.json`.
"""

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llmchecker.errors import ChecksumMismatch, DamagedFile
from llmchecker.models import fingerprint
from llmchecker.models.decoding.chat_template import Start, start_as_json
from llmchecker.models.lazy_model import LazyModel
from llmchecker.trees.distribution_cache import DistributionCache, PromptDistributions
from llmchecker.trees.growth_forecast import GrowthLimits, GrowthMonitor
from llmchecker.trees.selection import CANCELLATION_THRESHOLD
from llmchecker.trees.shards import Shard, merge_shards
from llmchecker.trees.text_tree import Horizon, TextTree, Truncation
from llmchecker.utils.atomic_files import (
    read_json_with_digest,
    read_with_digest,
    write_json_with_digest,
)
from llmchecker.utils.number_format import format_count

if TYPE_CHECKING:
    from llmchecker.models.decoding.settings import DecodingChoice
    from llmchecker.trees.expansion import ProgressCallback

TREE_MODULES = (
    *fingerprint.MODEL_MODULES,
    "models/end_of_sequence.py",
    "models/decoding/answer_reader.py",
    "trees/expansion.py",
    "trees/shards.py",
)
"""Modules that determine a tree."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class BuildRecord:
    """Record of a tree's build.

    Attributes:
        fingerprint: hash of all inputs that determine the tree.
        nodes: number of texts that have children.
        computed: number of these nodes whose distributions the model computed. The others were read
            from the cache.
        seconds: duration of the build in seconds, without loading the model.
        makings: the fields of a `run_metadata.RunMetadata` for each job that built the tree or a
            shard.
    """

    fingerprint: str
    nodes: int
    computed: int
    seconds: float
    makings: Sequence[Mapping[str, Any]]

    def __str__(self) -> str:
        rate = self.nodes / self.seconds if self.seconds else 0
        return (
            f"{format_count(self.nodes, 'node')} in {self.seconds:.1f} s, {rate:.0f} nodes/s, "
            f"{self.computed} of them computed"
        )


def _record_path(tree: str | Path) -> Path:
    """Return the path of the record of a tree's file."""
    return Path(tree).with_suffix(".json")


@dataclass(frozen=True)
class TreeBuilder:
    """Builder of the trees of one model.

    Args:
        lazy_model: the model.
        cache: cache of distributions, so that none is computed twice.
        limits: limits of every tree.
    """

    lazy_model: LazyModel
    cache: DistributionCache
    limits: GrowthLimits = field(default_factory=GrowthLimits)

    def with_decoding(self, decoding: "DecodingChoice") -> "TreeBuilder":
        """Return the builder for another decoding of the model, as in `LazyModel`."""
        return replace(self, lazy_model=self.lazy_model.with_decoding(decoding))

    def is_cached(self, path: str | Path, start: Start, truncation: Truncation) -> bool:
        """Return whether a file holds exactly the requested tree, undamaged."""
        try:
            # the fingerprint first: it costs less than the hash of the tree's file
            recorded_fingerprint = BuildRecord(
                **read_json_with_digest(_record_path(path))
            ).fingerprint
            if recorded_fingerprint != self.compute_fingerprint(start, truncation):
                return False
            read_with_digest(path)
        # a missing file, or a record whose fields another version wrote
        except (OSError, TypeError):
            return False
        except DamagedFile as error:
            _log.warning("to be grown again: %s", error)
            return False
        return True

    def build(
        self,
        path: str | Path,
        start: Start,
        truncation: Truncation,
        progress: "ProgressCallback",
        shard: Shard | None = None,
    ) -> tuple[TextTree, BuildRecord]:
        """Build a tree or a shard of it; write the tree and its record.

        Args:
            path: path of the tree's file.
            start: the start string or chat.
            truncation: alpha, k and L.
            progress: callback of `expansion.build_tree`.
            shard: the part to build; None for the whole tree.

        Raises:
            ChecksumMismatch: the model's files are not those that were fetched.
            UnusableModel: the model cannot be loaded.
            ConfigError: the forecast of the tree exceeds the limits.
        """
        # imported here: torch and transformers take seconds, and a cached tree does not need them
        from llmchecker.trees.expansion import build_tree

        model = self.lazy_model.model
        start_time = time.monotonic()
        distributions = self._open_distributions(start)
        monitor = GrowthMonitor(model.name, truncation, self.limits, len(str(start)))
        tree = build_tree(model, start, truncation, progress, distributions, shard, monitor)
        seconds = time.monotonic() - start_time
        fingerprint = self.compute_fingerprint(start, truncation)
        computed, metadata = distributions.added_count, [self.lazy_model.current_metadata()]
        return tree, _write_tree(tree, path, fingerprint, computed, seconds, metadata)

    def _open_distributions(self, start: Start) -> PromptDistributions:
        """Open the stored distributions of the model after a start string."""
        model = self.lazy_model.model
        # a server reports only its most probable tokens: the rest can only be 1 minus their sum
        min_rest = CANCELLATION_THRESHOLD if model.listed_tokens == model.vocabulary_size else 0.0
        return self.cache.open_distributions(
            self.lazy_model.model_fingerprint, model.encode(start), min_rest
        )

    def merge(
        self, path: str | Path, start: Start, shards: Sequence[str | Path]
    ) -> tuple[TextTree, BuildRecord]:
        """Merge the files of all shards of a tree; write the tree and its record.

        Raises:
            DamagedFile: the contents of a file differ from those written.
            InvalidTree: the files do not hold the shards of one tree.
            ChecksumMismatch: a shard is of another model, code or setting.
        """
        tree = merge_shards([TextTree.read(shard, is_shard=True) for shard in shards])
        records = [BuildRecord(**read_json_with_digest(_record_path(shard))) for shard in shards]
        fingerprint = self.compute_fingerprint(start, tree.truncation)
        for shard, record in zip(shards, records, strict=True):
            if record.fingerprint != fingerprint:
                raise ChecksumMismatch(
                    f"{shard}: grown with another model, code or setting than the tree has now; "
                    "delete the file and run the same command again"
                )
        # the shards' seconds add up although machines may have worked at the same time
        computed, seconds = (
            sum(record.computed for record in records),
            sum(record.seconds for record in records),
        )
        metadata = [job for record in records for job in record.makings]
        return tree, _write_tree(tree, path, fingerprint, computed, seconds, metadata)

    def compute_fingerprint(self, start: Start, truncation: Truncation | Horizon) -> str:
        """Return the hash of all inputs that determine the tree.

        The machine does not enter, so that the tree may be from another one. The last bits of the
        probabilities may differ there.
        """
        model = self.lazy_model
        bounds = vars(truncation).values()
        return fingerprint.hash_inputs(
            dict(model.files),
            [model.text_settings, start_as_json(start), *bounds],
            modules=fingerprint.select_modules(TREE_MODULES, model.files),
        )


def _write_tree(
    tree: TextTree,
    path: str | Path,
    fingerprint: str,
    computed: int,
    seconds: float,
    makings: Sequence[Mapping[str, Any]],
) -> BuildRecord:
    """Write a tree and its record."""
    record = BuildRecord(fingerprint, int(tree.internal.sum()), computed, seconds, makings)
    # A killed write must not leave an old record next to a new tree.
    _record_path(path).unlink(missing_ok=True)
    tree.write(path)
    write_json_with_digest(asdict(record), _record_path(path))
    return record
