"""The encoders behind `Tokenizer`: Python and native."""
