"""Keys and values of prompts and continuations."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor
from transformers.cache_utils import CacheLayerMixin

from llmchecker.models.device import find_free_bytes, is_processor

_FIRST_ROWS = 1024
"""Number of rows that an accelerator allocates first."""


def copy_layer(layer: object) -> tuple[Tensor, Tensor]:
    """Return copies of a layer's keys and values, (1, tokens, heads, width) each.

    Raises:
        TypeError: the layer of the cache stores no keys and values.
    """
    if not isinstance(layer, CacheLayerMixin) or layer.keys is None or layer.values is None:
        raise TypeError(f"{type(layer).__name__} stores no keys and values")
    # tokens before heads: the keys and values of one token are then contiguous
    return layer.keys.transpose(1, 2).contiguous(), layer.values.transpose(1, 2).contiguous()


class BatchCacheLayer(CacheLayerMixin):
    """Keys and values of one layer for a batch of texts of equal length.

    Args:
        prompt: keys and values of the prompt, (1, tokens, heads, width) each.
        rows: number of rows of the batch.
        depth: number of tokens of each text after the prompt, including the last token.
        copies_prompt: whether each row has the keys and values of the prompt too; otherwise the
            attention adds them.
    """

    is_sliding = False

    def __init__(
        self, prompt: tuple[Tensor, Tensor], rows: int, depth: int, copies_prompt: bool
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._tokens = prompt[0].shape[1] + depth
        copied_tokens = prompt[0].shape[1] if copies_prompt else 0
        buffers = [t.new_empty((rows, copied_tokens + depth, *t.shape[2:])) for t in prompt]
        for buffer, tensor in zip(buffers, prompt, strict=True):
            buffer[:, :copied_tokens] = tensor[:, :copied_tokens]
        self.own_tokens = tuple(buffer[:, copied_tokens:] for buffer in buffers)
        """Keys and values of the texts' own tokens, (rows, depth, heads, width) each."""
        # views in the order of axes that transformers expects
        keys, values = (buffer.transpose(1, 2) for buffer in buffers)
        self._views = keys, values
        self.keys, self.values = self._views
        self.is_initialized = True

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        """Do nothing: the constructor allocates all tensors."""

    def update(
        self, key_states: Tensor, value_states: Tensor, *_: object, **__: object
    ) -> tuple[Tensor, Tensor]:
        """Store the last token, and return the keys and values of all tokens."""
        keys, values = self._views
        keys[:, :, -1:] = key_states
        values[:, :, -1:] = value_states
        return keys, values

    def get_seq_length(self) -> int:
        """Return the number of tokens before the last one."""
        return self._tokens - 1

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """Return the number of attended tokens and the position of the first."""
        return self.get_seq_length() + query_length, 0

    def get_max_length(self) -> int:
        """Return -1, which transformers reads as no limit."""
        return -1


class KeyValueStore:
    """Keys and values of continuations' last tokens, in tables on the device of each layer.

    A stored text's beginnings are stored too. A processor reserves all rows at once, because it
    provides memory on first use. Tables on an accelerator grow.

    Args:
        prompt: keys and values of the prompt in every layer, which have the shape of a row.
        capacity: largest number of rows.
    """

    def __init__(self, prompt: Sequence[tuple[Tensor, Tensor]], capacity: int) -> None:
        self._template = prompt
        self._devices = frozenset(tensor.device for layer in prompt for tensor in layer)
        self._row_bytes = sum(t[:, 0].nbytes for layer in prompt for t in layer)
        self._row_index: dict[bytes, int] = {}
        self._tables: list[tuple[Tensor, ...]] = []
        self._parents = np.empty(0, dtype=np.int64)
        self.capacity = capacity
        is_growing = not all(map(is_processor, self._devices))
        self._allocate(min(capacity, _FIRST_ROWS) if is_growing else capacity)

    def make_room(self, rows: int) -> bool:
        """Return whether so many further rows are free, after growing within the capacity."""
        total = len(self._row_index) + rows
        if total <= self._allocated:
            return True
        if total > self.capacity:
            return False
        grown = min(max(total, 2 * self._allocated), self.capacity)
        free_bytes = (find_free_bytes(device) for device in self._devices)
        available = min((number for number in free_bytes if number is not None), default=None)
        # the other half is for batches, and the old tables exist until they are copied
        if available is not None and grown * self._row_bytes > available // 2:
            return False
        self._allocate(grown)
        return True

    def reserve_rows(self, rows: int) -> None:
        """Grow to this many rows, even above the limit: the smallest batch needs them."""
        if self.capacity < rows:
            self.capacity = rows
        if self._allocated < rows:
            self._allocate(rows)

    def clear(self) -> None:
        """Remove all entries."""
        self._row_index = {}

    def release(self) -> None:
        """Remove all entries, and free the memory of an accelerator."""
        self.clear()
        self._tables = []
        self._allocate(min(self.capacity, _FIRST_ROWS))

    def __len__(self) -> int:
        return len(self._row_index)

    def has_all(self, continuations: np.ndarray) -> bool:
        """Return whether all continuations are stored, and so all their beginnings."""
        return all(key in self._row_index for key in _build_keys(continuations))

    def find_missing(self, continuations: np.ndarray) -> np.ndarray:
        """Return the distinct continuations that are not stored."""
        missing_rows: dict[bytes, int] = {}
        for row, key in enumerate(_build_keys(continuations)):
            if key not in self._row_index:
                missing_rows.setdefault(key, row)
        return continuations[list(missing_rows.values())]

    def fill_layers(self, continuations: np.ndarray, layers: Sequence[BatchCacheLayer]) -> None:
        """Copy the keys and values of all tokens of the texts but the last into layers.

        Args:
            continuations: (rows, depth) int64; all their beginnings must be stored.
            layers: the layers of a batch of that shape.
        """
        depth = continuations.shape[1]
        if depth == 1:
            return
        paths = self._copy_to_devices(self._find_paths(continuations[:, :-1]))
        for layer, tables in zip(layers, self._tables, strict=True):
            for buffer, table in zip(layer.own_tokens, tables, strict=True):
                rows = paths[table.device]
                if not is_processor(table.device):
                    # one operation, because each one takes time to start
                    buffer[:, :-1] = table[rows]
                    continue
                for position in range(depth - 1):
                    torch.index_select(table, 0, rows[:, position], out=buffer[:, position])

    def put(self, continuations: np.ndarray, layers: Sequence[BatchCacheLayer]) -> None:
        """Store the last tokens of a batch's texts, in order, until the tables are full."""
        # a continuation that is stored already keeps its row
        new_rows: dict[bytes, int] = {}
        parents = _build_keys(continuations[:, :-1])
        for row, key in enumerate(_build_keys(continuations)):
            # another thread may have removed the beginning
            if key not in self._row_index and (not parents[row] or parents[row] in self._row_index):
                new_rows.setdefault(key, row)
        first = len(self._row_index)
        self.make_room(min(len(new_rows), self.capacity - first))
        items = list(new_rows.items())[: self._allocated - first]
        texts = [row for _, row in items]
        stop = first + len(items)
        # the parent of a first token is not used
        self._parents[first:stop] = [self._row_index.get(parents[row], -1) for row in texts]
        self._row_index |= {key: first + i for i, (key, _) in enumerate(items)}
        rows_of = self._copy_to_devices(np.array(texts, dtype=np.int64))
        for tables, layer in zip(self._tables, layers, strict=True):
            for table, buffer in zip(tables, layer.own_tokens, strict=True):
                table[first:stop] = buffer[rows_of[table.device], -1]

    @property
    def nbytes(self) -> int:
        """Size of the tables in bytes."""
        return sum(table.nbytes for tables in self._tables for table in tables)

    def _find_paths(self, continuations: np.ndarray) -> np.ndarray:
        """Return the rows of each continuation's tokens, (n, depth) int64."""
        paths = np.empty(continuations.shape, dtype=np.int64)
        rows = np.array([self._row_index[key] for key in _build_keys(continuations)])
        for position in range(continuations.shape[1] - 1, -1, -1):
            paths[:, position] = rows
            rows = self._parents[rows]
        return paths

    def _copy_to_devices(self, indices: np.ndarray) -> dict[torch.device, Tensor]:
        """Return indices by device, copied once instead of for each layer."""
        return {device: torch.from_numpy(indices).to(device) for device in self._devices}

    def _allocate(self, rows: int) -> None:
        """Allocate tables of that many rows, with the entries of the old ones."""
        count, old_tables = len(self._row_index), self._tables
        self._allocated = rows
        self._tables = [
            tuple(t.new_empty((rows, *t.shape[2:])) for t in layer) for layer in self._template
        ]
        parents = np.empty(rows, dtype=np.int64)
        parents[:count] = self._parents[:count]
        # the first tables have no predecessors
        for tables, old_layer in zip(self._tables, old_tables, strict=False):
            for table, old_table in zip(tables, old_layer, strict=True):
                table[:count] = old_table[:count]
        self._parents = parents


def _build_keys(continuations: np.ndarray) -> list[bytes]:
    """Return the bytes of each continuation's tokens."""
    tokens = np.ascontiguousarray(continuations, dtype=np.int64)
    # numpy has no values without bytes
    if tokens.shape[1] == 0:
        return [b""] * len(tokens)
    keys: list[bytes] = tokens.view(f"V{tokens.itemsize * tokens.shape[1]}").ravel().tolist()
    return keys
