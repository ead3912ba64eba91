"""Entmax and predicted attention in Hugging Face models."""
