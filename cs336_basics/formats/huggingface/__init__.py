"""Hugging Face's formats: `tokenizer.json`, Llama weights, model directories."""
