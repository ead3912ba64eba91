"""Small random Hugging Face models of many families, with weights large enough for attention to be sparse."""

from collections.abc import Callable
from typing import Any

import torch
import transformers as hf
from torch import Tensor
from transformers import PreTrainedModel

WORDS, PAD = 60, 0
COMMON: dict[str, Any] = {"vocab_size": WORDS, "pad_token_id": PAD, "bos_token_id": 1, "eos_token_id": 2}
ENCODER: dict[str, Any] = {
    "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48,
}  # fmt: skip
SEQ2SEQ: dict[str, Any] = {
    "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4, "decoder_attention_heads": 4,
    "encoder_ffn_dim": 48, "decoder_ffn_dim": 48, "max_position_embeddings": 64, "decoder_start_token_id": 3,
    "forced_eos_token_id": None,
}  # fmt: skip
T5: dict[str, Any] = {
    "d_model": 32, "d_kv": 8, "num_layers": 2, "num_heads": 4, "d_ff": 48, "decoder_start_token_id": 3,
}  # fmt: skip

MODELS: dict[str, Callable[[], PreTrainedModel]] = {
    "bert": lambda: hf.BertForMaskedLM(hf.BertConfig(**ENCODER, **COMMON)),
    "roberta": lambda: hf.RobertaForMaskedLM(hf.RobertaConfig(**ENCODER, **COMMON)),
    "distilbert": lambda: hf.DistilBertForMaskedLM(
        hf.DistilBertConfig(dim=32, n_layers=2, n_heads=4, hidden_dim=48, **COMMON)
    ),
    "modernbert": lambda: hf.ModernBertForMaskedLM(
        hf.ModernBertConfig(**ENCODER, **COMMON, local_attention=6, cls_token_id=1, sep_token_id=2)
    ),
    "marian": lambda: hf.MarianMTModel(hf.MarianConfig(**SEQ2SEQ, **COMMON)),
    "bart": lambda: hf.BartForConditionalGeneration(hf.BartConfig(**SEQ2SEQ, **COMMON)),
    "t5": lambda: hf.T5ForConditionalGeneration(hf.T5Config(**T5, **COMMON)),
    "gpt2": lambda: hf.GPT2LMHeadModel(hf.GPT2Config(n_embd=32, n_layer=2, n_head=4, n_positions=64, **COMMON)),
    "llama": lambda: hf.LlamaForCausalLM(hf.LlamaConfig(**ENCODER, **COMMON, num_key_value_heads=2)),
    "mistral": lambda: hf.MistralForCausalLM(
        hf.MistralConfig(**ENCODER, **COMMON, num_key_value_heads=2, sliding_window=4)
    ),
    "qwen": lambda: hf.Qwen3ForCausalLM(hf.Qwen3Config(**ENCODER, **COMMON, num_key_value_heads=2, head_dim=8)),
}
CAUSAL = ("gpt2", "llama", "mistral", "qwen")
SEQUENCE_TO_SEQUENCE = ("marian", "bart", "t5")


def make(family: str) -> PreTrainedModel:
    """The model in float64, so that what should be equal is, in evaluation mode."""
    torch.manual_seed(1)
    model = MODELS[family]().double().eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "norm" not in name.lower() and "position" not in name:
                parameter.mul_(6 if family != "t5" else 1)
    return model


def words(*shape: int) -> Tensor:
    return torch.randint(4, WORDS, shape)


def padded(ids: Tensor, lengths: list[int], side: str) -> dict[str, Tensor]:
    """The first `lengths` words of each row, filled up with padding on one side; position ids that do not see it."""
    width = ids.shape[1]
    out, mask = torch.full_like(ids, PAD), torch.zeros_like(ids)
    for row, length in enumerate(lengths):
        place = slice(0, length) if side == "right" else slice(width - length, width)
        out[row, place], mask[row, place] = ids[row, :length], 1
    return {"input_ids": out, "attention_mask": mask}


def positions(family: str, mask: Tensor) -> dict[str, Tensor]:
    """Where a model counts positions from the edge of the batch, count them from the first real word instead."""
    if family in ("roberta", *SEQUENCE_TO_SEQUENCE) or family == "distilbert":
        return {}
    return {"position_ids": (mask.cumsum(-1) - 1).clamp(min=0)}


def run(model: PreTrainedModel, ids: Tensor, **more: Any) -> Tensor:
    """The logits of a model, with something for a decoder to look at where there is one."""
    if model.config.is_encoder_decoder and "decoder_input_ids" not in more:
        more["decoder_input_ids"] = ids[:, :5].clamp(min=4)
    return model(ids, **more).logits
