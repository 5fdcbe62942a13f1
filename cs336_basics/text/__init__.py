"""Reading the text of files and rows. Only this folder distinguishes kinds of files."""

from cs336_basics.text.corpus import Corpus
from cs336_basics.text.sources import MissingFieldError

__all__ = ["Corpus", "MissingFieldError"]
