"""Small random models of real architectures, saved as a hub would deliver them."""

import json
from pathlib import Path

import numpy as np
import torch
from tokenizers import (
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)
from transformers import (
    BertConfig,
    BertForMaskedLM,
    BertForSequenceClassification,
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    GemmaConfig,
    GemmaForCausalLM,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    PreTrainedTokenizerFast,
)

CORPUS = [
    "The player won because he trained and she cheered.",
    "Once upon a time there was a reader, a writer and a very small machine.",
    "The exam went well; the results were good, bad and in between.",
]
CAUSAL = ("llama", "gemma3", "mistral", "gpt2")
ARCHITECTURES = (*CAUSAL, "bert")

_SIZES = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 1024,  # prompts with programs in them are long in few merges
}

LABELS = ("calm", "glad", "angry")
"""The labels of a classifier."""


def save(architecture: str, directory: Path, seed: int = 0) -> Path:
    """Save a randomly initialised model and its tokenizer to a directory."""
    torch.manual_seed(seed)
    tokenizer = _TOKENIZERS[architecture]()
    network = _network(architecture, tokenizer)
    # the default initialisation makes all next tokens about equally likely
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.mul_(6 if parameter.dim() > 1 else 1)
    network.save_pretrained(directory)
    tokenizer.save_pretrained(directory)
    return directory


def save_as_published(name: str, directory: Path, seed: int = 0) -> Path:
    """Save a small random model in the form in which one of the paper's models is published.

    The weights are bfloat16 in several files with an index, and lie there as pickles too. The
    tokenizer's class is named as it is there, since loading may build the tokenizer by its class.

    Args:
        name: one of `PUBLISHED`.
    """
    architecture, build, tokenizer_class = _PUBLISHED[name]
    torch.manual_seed(seed)
    tokenizer = build()
    network = _network(architecture, tokenizer).to(torch.bfloat16)
    network.save_pretrained(directory, max_shard_size="20KB")
    tokenizer.save_pretrained(directory)
    settings = json.loads((directory / "tokenizer_config.json").read_text(encoding="utf-8"))
    settings["tokenizer_class"] = tokenizer_class
    (directory / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
    if name == "bert":
        vocabulary = sorted(tokenizer.get_vocab().items(), key=lambda item: item[1])
        words = "".join(f"{word}\n" for word, _ in vocabulary)
        (directory / "vocab.txt").write_text(words, encoding="utf-8")
    torch.save(network.state_dict(), directory / "pytorch_model.bin")
    return directory


def save_classifier(directory: Path, labels: tuple[str, ...] = LABELS, **settings: object) -> Path:
    """Save a random BERT that classifies, as a hub would deliver it."""
    torch.manual_seed(0)
    tokenizer = word_piece()
    config = BertConfig(
        vocab_size=len(tokenizer),
        pad_token_id=tokenizer.pad_token_id,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=48,
        id2label=dict(enumerate(labels)),
        label2id={label: number for number, label in enumerate(labels)},
        **settings,
    )
    network = BertForSequenceClassification(config)
    with torch.no_grad():  # the default initialisation finds all labels about equally likely
        for parameter in network.parameters():
            parameter.mul_(12 if parameter.dim() > 1 else 1)
    network.save_pretrained(directory)
    tokenizer.save_pretrained(directory)
    return directory


def write_gguf(
    path: Path, without: str = "", splitting: str | None = "gpt-2"
) -> dict[str, np.ndarray]:
    """Write a random Llama of one layer as a GGUF file, and return its tensors by name.

    Args:
        without: the tensor that the file lacks.
        splitting: the name of the rule that splits texts; None for none.
    """
    from gguf import GGUFWriter

    letters = "abcdefghijklmnopqrstuvwxyz"
    words = ["<s>", "</s>", "<unk>", *letters, "Ġ", "ab", "Ġa", "<|endoftext|>"]
    size, heads = 32, 2
    rng = np.random.default_rng(7)
    shapes = {
        "token_embd.weight": (len(words), size),
        "output_norm.weight": (size,),
        "output.weight": (len(words), size),
        "blk.0.attn_norm.weight": (size,),
        "blk.0.ffn_norm.weight": (size,),
        **{f"blk.0.attn_{name}.weight": (size, size) for name in ("q", "k", "v", "output")},
        **{f"blk.0.ffn_{name}.weight": (2 * size, size) for name in ("gate", "up")},
        "blk.0.ffn_down.weight": (size, 2 * size),
    }
    tensors = {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    writer = GGUFWriter(path, "llama")
    writer.add_name("tiny")
    writer.add_context_length(64)
    writer.add_embedding_length(size)
    writer.add_block_count(1)
    writer.add_feed_forward_length(2 * size)
    writer.add_head_count(heads)
    writer.add_head_count_kv(heads)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10000.0)
    writer.add_tokenizer_model("gpt2")
    if splitting is not None:
        writer.add_tokenizer_pre(splitting)
    writer.add_token_list(words)
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


def _network(architecture: str, tokenizer: PreTrainedTokenizerFast) -> torch.nn.Module:
    ids = {
        "vocab_size": len(tokenizer),
        "bos_token_id": tokenizer.bos_token_id,
        "eos_token_id": tokenizer.eos_token_id,
        "pad_token_id": tokenizer.pad_token_id,
    }
    match architecture:
        case "llama":
            return LlamaForCausalLM(LlamaConfig(**_SIZES, **ids, num_key_value_heads=2))
        case "mistral":
            return MistralForCausalLM(
                MistralConfig(**_SIZES, **ids, num_key_value_heads=2, sliding_window=4)
            )
        case "gemma":
            return GemmaForCausalLM(GemmaConfig(**_SIZES, **ids, num_key_value_heads=1, head_dim=8))
        case "gemma3":
            return Gemma3ForCausalLM(
                Gemma3TextConfig(
                    **_SIZES,
                    **ids,
                    num_key_value_heads=1,
                    head_dim=8,
                    sliding_window=4,
                    layer_types=["sliding_attention", "full_attention"],
                )
            )
        case "gpt2":
            return GPT2LMHeadModel(GPT2Config(**ids, n_embd=32, n_layer=2, n_head=4))
        case "bert":
            return BertForMaskedLM(BertConfig(**_SIZES, **ids))
    raise ValueError(architecture)


def _metaspace() -> PreTrainedTokenizerFast:
    """As Llama, Gemma and Mistral: BPE over a marked space, unknown characters as bytes."""
    tokenizer = _byte_fallback_bpe([decoders.Strip(" ", 1, 0)])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    return _trained(tokenizer)


def _sentencepiece_of_llama() -> PreTrainedTokenizerFast:
    """As Llama 2 and Mistral: a space before the text, and every space is marked."""
    tokenizer = _byte_fallback_bpe([decoders.Strip(" ", 1, 0)])
    marks = [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    tokenizer.normalizer = normalizers.Sequence(marks)
    return _trained(tokenizer)


def _sentencepiece_of_gemma() -> PreTrainedTokenizerFast:
    """As Gemma: every space is marked, and none is added before the text."""
    tokenizer = _byte_fallback_bpe([])
    tokenizer.normalizer = normalizers.Replace(" ", "▁")
    tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    return _trained(tokenizer)


def _byte_fallback_bpe(last_decoders: list) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>", fuse_unk=True))
    first = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    tokenizer.decoder = decoders.Sequence([*first, *last_decoders])
    return tokenizer


def _trained(tokenizer: Tokenizer) -> PreTrainedTokenizerFast:
    """Trained on the corpus, with <s> before every text."""
    bytes_ = [f"<0x{byte:02X}>" for byte in range(256)]
    trainer = trainers.BpeTrainer(
        vocab_size=380, special_tokens=["<unk>", "<s>", "</s>", "<pad>", *bytes_]
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    # the trainer marks the bytes as special tokens, which decoding leaves out
    written = json.loads(tokenizer.to_str())
    written["added_tokens"] = [t for t in written["added_tokens"] if t["content"] not in bytes_]
    tokenizer = Tokenizer.from_str(json.dumps(written))
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", tokenizer.token_to_id("<s>"))]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token="<s>",
        eos_token="</s>",
        unk_token="<unk>",
        pad_token="<pad>",
    )


def _byte_level() -> PreTrainedTokenizerFast:
    """As GPT-2: BPE over bytes, no token before the text."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=330,
        special_tokens=["<|endoftext|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token="<|endoftext|>",
        eos_token="<|endoftext|>",
        pad_token="<|endoftext|>",
    )


def word_piece() -> PreTrainedTokenizerFast:
    """As BERT: lower-cased word pieces between [CLS] and [SEP]."""
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece(cleanup=False)
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    trainer = trainers.WordPieceTrainer(vocab_size=160, special_tokens=special)
    tokenizer.train_from_iterator(CORPUS, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        special_tokens=[(name, tokenizer.token_to_id(name)) for name in ("[CLS]", "[SEP]")],
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
        pad_token="[PAD]",
    )


def _word_piece_of_bert() -> PreTrainedTokenizerFast:
    """As BERT, whose decoder takes the space from before punctuation."""
    tokenizer = word_piece()
    tokenizer.backend_tokenizer.decoder = decoders.WordPiece(cleanup=True)
    return tokenizer


_PUBLISHED = {
    "llama-2": ("llama", _sentencepiece_of_llama, "LlamaTokenizer"),
    "gemma": ("gemma", _sentencepiece_of_gemma, "GemmaTokenizer"),
    "mistral": ("mistral", _sentencepiece_of_llama, "LlamaTokenizer"),
    "bert": ("bert", _word_piece_of_bert, "BertTokenizer"),
}
"""Architecture, tokenizer and tokenizer class of the paper's models; Genstruct is a Mistral."""

PUBLISHED = tuple(_PUBLISHED)

_TOKENIZERS = {
    "llama": _metaspace,
    "gemma3": _metaspace,
    "mistral": _metaspace,
    "gpt2": _byte_level,
    "bert": word_piece,
}
