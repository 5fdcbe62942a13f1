"""Read, write and check files in the formats of other libraries.

`exports.py` lists the export formats. Each folder contains the formats of one library or program.
The other files are shared by several formats.
"""

from typing import TYPE_CHECKING

from cs336_basics._support.lazy import lazy_names

__all__ = [
    "MODEL_FORMATS",
    "TOKENIZER_FORMATS",
    "TOKEN_FORMATS",
    "Agreement",
    "ModelCard",
    "check_model",
    "check_tokenizer",
    "export_model",
    "export_tokenizer",
    "export_tokens",
]

if TYPE_CHECKING:
    from cs336_basics.formats.agreement import Agreement
    from cs336_basics.formats.exports import (
        MODEL_FORMATS,
        TOKEN_FORMATS,
        TOKENIZER_FORMATS,
        check_model,
        check_tokenizer,
        export_model,
        export_tokenizer,
        export_tokens,
    )
    from cs336_basics.formats.model_card import ModelCard
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "cs336_basics.formats.agreement": "Agreement",
            "cs336_basics.formats.exports": "MODEL_FORMATS TOKENIZER_FORMATS "
            "TOKEN_FORMATS check_model check_tokenizer export_model export_tokenizer export_tokens",
            "cs336_basics.formats.model_card": "ModelCard",
        },
    )
