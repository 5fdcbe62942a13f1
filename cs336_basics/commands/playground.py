"""`python -m cs336_basics playground`: a local page for exploring tokenizers and their training."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

from cs336_basics._support.lazy import needed_for
from cs336_basics._support.validation import Checked, option
from cs336_basics.commands._cli import say
from cs336_basics.commands._options import TOKENIZERS_HELP, Command, Several


@dataclass(kw_only=True)
class Options(Checked):
    """Serve a page on this machine that shows the tokens of a text as you type it.

    Other machines cannot reach the page. The server reads only the files that you name here.
    """

    tokenizer: Several = option(
        TOKENIZERS_HELP + " (default: the runs' tokenizers, or one trained on the sample corpus)",
        (),
        metavar="NAME",
    )
    run: Several = option(
        "run directory with the training to watch and the model to use", (), metavar="DIR"
    )
    port: int = option("port on 127.0.0.1; 0 chooses a free one", 0, ge=0, le=65535)
    no_browser: bool = option("do not open the page in a browser", False)


def playground(options: Options) -> None:
    """Serve the page until Ctrl-C."""
    from cs336_basics.playground.answers import make_answers

    with needed_for("the playground", "'cs336-basics[playground]'"):
        from cs336_basics.playground.server import serve

    # A text of a few words yields fewer merges than the page asks for.
    warnings.filterwarnings("ignore", "no pair was left")
    answers = make_answers(options.tokenizer, options.run)
    try:
        serve(answers, options.port, not options.no_browser, say)
    except KeyboardInterrupt:  # the usual way to stop
        return


COMMAND = Command(
    "playground",
    Options,
    playground,
    "playground --tokenizer tokenizers/my",
    "playground --run runs/my",
    "playground --tokenizer tokenizers/my gpt2 --port 8336 --no-browser",
)
