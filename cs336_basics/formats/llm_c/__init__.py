"""The token files of llm.c."""
