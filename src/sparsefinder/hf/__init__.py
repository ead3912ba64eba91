"""Entmax and predicted attention in Hugging Face models."""

from ..extras import require

require("hf", "transformers", "huggingface_hub")
