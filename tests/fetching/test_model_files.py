"""The files of a model directory, and what becomes of a GGUF file."""

from pathlib import Path

import numpy as np
import pytest
from helpers.sources import (
    assert_nothing_left,
)

from llmchecker.errors import (
    UnusableModel,
)
from llmchecker.fetching.model_files import convert_gguf
from llmchecker.fetching.models import ModelSource, fetch_model
from llmchecker.fetching.sources import Source

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
