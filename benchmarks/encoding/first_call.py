"""Compare the first call: the start of a process, loading a tokenizer, and the ids of one line.

    pip install -r benchmarks/peers/peers.txt
    python -m benchmarks.encoding.first_call TOKENIZER [--rounds 15]

TOKENIZER is a directory with a tokenizer.json, such as GPT-2's, or a rank file of tiktoken with the
pattern cl100k. Every run is a new process, and the libraries take turns, so that other load on the
machine affects all of them. A time is the CPU time of the whole process (user and system, with all
its threads) in ms, less that of `python -c pass`: the minimum over the rounds, and the median in
brackets. Files are in the disk's cache, and the bytecode of all modules is in a directory of its
own, as after an installation: without it, compiling this library takes longer than all the rest.
Before a library is timed, its ids are compared with ours;
a library with other ids is left out. toktok and splintr contain their vocabularies.

The second table has whole commands of this library, including the start of Python.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.encoding.short import load, rank_file
from benchmarks.machine import ROOT, machine_line

LINE = "The quick brown fox jumps over the lazy dog today."

# Each program takes the arguments JSON, RANKS, SPECIAL and PATTERN, and prints the ids of LINE. The
# first line imports what the rest needs.
PROGRAMS = {
    "ours": """
from cs336_basics import Tokenizer
print(Tokenizer.from_pretrained(json).encode(line))
""",
    "ours, from ranks": """
from cs336_basics import Tokenizer
from json import loads
special = loads(special)
print(Tokenizer.from_tiktoken(ranks, special, pattern=pattern).encode(line))
""",
    "tiktoken": """
import tiktoken, tiktoken.load
from json import loads
from cs336_basics.splitting import PATTERNS
loaded = tiktoken.load.load_tiktoken_bpe(ranks)
encoding = tiktoken.Encoding(
    "b", pat_str=PATTERNS[pattern], mergeable_ranks=loaded, special_tokens=loads(special))
print(encoding.encode(line))
""",
    "tokenizers": """
import tokenizers
print(tokenizers.Tokenizer.from_file(json).encode(line).ids)
""",
    "gigatoken": """
import gigatoken
from pathlib import Path
print(list(map(int, gigatoken.Tokenizer.from_json(Path(json).read_text()).encode(line))))
""",
    "tokie": """
import tokie
print(tokie.Tokenizer.from_json(json).encode(line, False).ids)
""",
    "toktok": """
from toktok import _encoding
assert pattern == "cl100k"
print(_encoding("cl100k_base").encode(line))
""",
    "splintr": """
import splintr
name = {"cl100k": "cl100k_base", "o200k": "o200k_base"}[pattern]
print(splintr.Tokenizer.from_pretrained(name).encode(line))
""",
}
ARGUMENTS = "import sys\njson, ranks, special, pattern, line = sys.argv[1:]"

COMMANDS = {
    "tokenize, one line": ["tokenize", "--tokenizer", "{directory}", "{text}"],
    "encode, one line, to standard output": [
        *("encode", "--tokenizer", "{directory}", "--input", "{text}", "--output", "-"),
    ],
    "encode --help": ["encode", "--help"],
    "train --help": ["train", "--help"],
    "the list of commands": ["--help"],
}


def cpu_time(arguments, environment):
    """Run a process, and return its CPU time in ms and its standard output."""
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            arguments, stdout=output, stderr=subprocess.DEVNULL, env=environment
        )
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise RuntimeError(f"exit status {process.returncode}")
        output.seek(0)
        return 1e3 * (usage.ru_utime + usage.ru_stime), output.read().decode()


def python(code, *arguments):
    return [sys.executable, "-c", code, *arguments]


def environment_of(bytecode):
    """Return the environment of the processes, which store bytecode in a directory."""
    inherited = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    return {
        **inherited,
        "PYTHONPATH": str(ROOT),
        "PYTHONPYCACHEPREFIX": bytecode,
        "TOKENIZERS_PARALLELISM": "false",
    }


def in_turns(processes, rounds, environment):
    """Return the CPU times of each process, by name."""
    times = {name: [] for name in processes}
    for turn in range(rounds):
        for name in list(processes)[:: 1 if turn % 2 else -1]:
            times[name].append(cpu_time(processes[name], environment)[0])
    return times


def shown(times, less=0.0):
    return f"{min(times) - less:.0f} ({statistics.median(times) - less:.0f})"


def compare_libraries(tokenizer, arguments, rounds, environment):
    processes = {"bare": python("pass")}
    expected = tokenizer.encode(LINE)
    names = []
    for name, program in PROGRAMS.items():
        run = python(ARGUMENTS + program, *arguments)
        try:
            _, printed = cpu_time(run, environment)  # also fills the caches
        except RuntimeError as error:
            print(f"<!-- {name} is left out: {error} -->")
            continue
        if json.loads(printed) != expected:
            print(f"<!-- {name} is left out: other ids -->")
            continue
        names.append(name)
        processes[f"{name}, import"] = python(program.split("\n")[1])
        processes[name] = run
    times = in_turns(processes, rounds, environment)
    bare = min(times["bare"])
    print(f"<!-- python -c pass: {shown(times['bare'])} ms -->")
    print(f"\n| {tokenizer.pattern}, {len(tokenizer):,} tokens | importing | first ids |")
    print("|---|---|---|")
    for name in names:
        print(f"| {name} | {shown(times[f'{name}, import'], bare)} | {shown(times[name], bare)} |")


def compare_commands(directory, text, rounds, environment):
    where = {"directory": directory, "text": text}
    processes = {
        name: [sys.executable, "-m", "cs336_basics", *(word.format(**where) for word in words)]
        for name, words in COMMANDS.items()
    }
    for process in processes.values():
        cpu_time(process, environment)
    times = in_turns(processes, rounds, environment)
    print("\n| command | CPU time |")
    print("|---|---|")
    for name in processes:
        print(f"| {name} | {shown(times[name])} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tokenizer", type=Path)
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    print(machine_line())
    tokenizer = load(options.tokenizer)
    with tempfile.TemporaryDirectory() as directory, tempfile.TemporaryDirectory() as bytecode:
        environment = environment_of(bytecode)
        tokenizer.save(directory)
        path = Path(directory, "tokenizer.json")
        text = Path(directory, "line.txt")
        text.write_text(LINE + "\n")
        special = json.dumps(tokenizer.definition.special_ids)
        arguments = [str(path), str(rank_file(tokenizer, path)), special, tokenizer.pattern, LINE]
        compare_libraries(tokenizer, arguments, options.rounds, environment)
        compare_commands(directory, str(text), options.rounds, environment)


if __name__ == "__main__":
    main()
