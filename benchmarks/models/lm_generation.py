"""Measure generation in tokens per second: this library, transformers and llama.cpp.

    pip install -r benchmarks/peers/peers.txt
    python -m benchmarks.models.lm_generation  # TinyStories and GPT-2 small, on the CPU
    python -m benchmarks.models.lm_generation --shape tinystories --batch-size 8
    python -m benchmarks.models.lm_generation --shape tinystories --prompt-tokens 200 --new-tokens 1
    python -m benchmarks.models.lm_generation --shape tinystories --batch-size 1 --busy

All libraries start from the same weights in float32 and continue the same prompts greedily. Before
anything is timed, the peers in float32 must generate the same tokens as this library, and the
compiled code with rounded weights the same as the readable model with these weights. The peer is
LlamaForCausalLM, measured with a static cache and with its default cache, which grows, and
llama.cpp with weights in Q8_0 for a single prompt, if xllamacpp is installed. The
implementations take turns, so that other load on the machine affects all of them. Times include
processing the prompt and, with "bfloat16" and "int8", rounding the weights.

With --busy, each implementation is also measured while a process of another program computes. With
--cpu-time, each computes with one thread, and the rates are per second of CPU time of the process,
which other programs affect less.
"""

import argparse
import contextlib
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch

from benchmarks.models.llama import PEER_SHAPES, SHAPES, llama_of
from benchmarks.models.speedup import SPEEDUP_HEADINGS, speedup_cells
from cs336_basics.generation import Sampling, generate_batch
from cs336_basics.model import TransformerLM
from cs336_basics.training.devices import choose_device, device_name

PROMPT_TOKENS = 16
EQUAL_TOKENS = 16  # later, rounding may break a tie differently
GREEDY = Sampling(temperature=0)
PRECISIONS = ["float32", "bfloat16", "int8"]
CACHES = {"transformers, static cache": "static", "transformers, dynamic cache": "dynamic"}
LLAMA_CPP = "llama.cpp, Q8_0"
BUSY = "while True: pass"


def generators(shape, device, precisions, batch_size):
    """Return a dict from kind to a function that takes prompts and a length and returns ids."""
    torch.manual_seed(0)
    model = TransformerLM(SHAPES[shape]).eval()
    llama = llama_of(model).to(device).eval()
    peer = llama_cpp(model) if batch_size == 1 else {}
    model.to(device)

    def ours(precision):
        return lambda prompts, number, **options: generate_batch(
            model, prompts.tolist(), number, GREEDY, precision=precision, **options
        )

    def theirs(cache):
        def generated(prompts, number):
            ids = llama.generate(
                prompts.to(device),
                attention_mask=torch.ones_like(prompts, device=device),
                max_new_tokens=number,
                do_sample=False,
                eos_token_id=None,
                pad_token_id=0,
                cache_implementation=cache,
            )
            return ids[:, prompts.shape[1] :].tolist()

        return generated

    run = {f"cs336_basics, {precision}": ours(precision) for precision in precisions}
    return run | {kind: theirs(cache) for kind, cache in CACHES.items()} | peer


def llama_cpp(model):
    """Return a dict with llama.cpp's generator for a model, or {} if xllamacpp is not installed."""
    try:
        import xllamacpp
    except ImportError:
        return {}
    from cs336_basics import Tokenizer
    from cs336_basics.formats import export_model

    # The file must have a vocabulary, with at least one merge.
    vocab = {number: bytes([number]) for number in range(256)}
    vocab |= {256: b"<|endoftext|>", 257: b"th"}
    tokenizer = Tokenizer(vocab, [(b"t", b"h")], ["<|endoftext|>"])
    folder = tempfile.TemporaryDirectory()
    path = Path(folder.name) / "model.gguf"
    export_model(model, tokenizer, "gguf", path, type="q8_0")
    settings = xllamacpp.CommonParams()
    settings.model.path = str(path)
    settings.n_ctx = model.config.context_length
    settings.n_parallel = 1
    settings.verbosity = -1
    settings.cpuparams.n_threads = torch.get_num_threads()
    settings.cpuparams_batch.n_threads = torch.get_num_threads()
    server = xllamacpp.Server(settings)

    def generated(prompts, number, folder=folder):
        (prompt,) = prompts.tolist()
        request = {"prompt": prompt, "n_predict": number, "temperature": 0.0}
        answer = server.handle_completions({**request, "ignore_eos": True, "cache_prompt": False})
        return [[None] * answer["usage"]["completion_tokens"]]  # it does not return ids

    return {LLAMA_CPP: generated}


def check(run, prompts, number):
    """Check the first ids of each kind; see the module's docstring."""
    first = {kind: generated(prompts, number) for kind, generated in run.items()}
    expected = first["cs336_basics, float32"]
    for kind, ids in first.items():
        if kind in CACHES:
            assert ids == expected, (kind, ids, expected)
        elif kind != LLAMA_CPP:  # rounds the weights differently
            assert ids == run[kind](prompts, number, use_cache=False), kind


@contextlib.contextmanager
def busy_process():
    """Run a process that computes without end."""
    with subprocess.Popen([sys.executable, "-c", BUSY]) as process:
        try:
            yield
        finally:
            process.kill()


def measure(run, prompts, new_tokens, rounds, clock=time.perf_counter):
    """Return a dict from kind to the tokens per second in each round."""
    speeds = {kind: [] for kind in run}
    for _ in range(rounds):
        for kind, generated in run.items():
            start = clock()
            ids = generated(prompts, new_tokens)
            seconds = clock() - start
            assert [len(row) for row in ids] == [new_tokens] * len(prompts)
            speeds[kind].append(len(prompts) * new_tokens / seconds)
    return speeds


def report(title, speeds, base):
    """Print the results of `measure`, relative to the results of the kind `base`."""
    print(title)
    print(f"Speedup over {base}: median, lower quartile and minimum")
    print(f"{'':<28}{'tokens/s':>11}{SPEEDUP_HEADINGS}")
    for kind, values in speeds.items():
        cells = speedup_cells(values, speeds[base])
        print(f"{kind:<28}{statistics.median(values):>11,.4g}{cells}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shape", action="append", choices=PEER_SHAPES)
    parser.add_argument("--batch-size", action="append", type=int, help="default: 1 and 32")
    parser.add_argument("--new-tokens", type=int, help="default: 224, or as many as fit")
    parser.add_argument("--prompt-tokens", type=int, default=PROMPT_TOKENS)
    parser.add_argument("--precision", action="append", choices=PRECISIONS)
    parser.add_argument("--busy", action="store_true")
    parser.add_argument("--cpu-time", action="store_true")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    device = choose_device(options.device)
    clock = time.perf_counter
    if options.cpu_time:
        torch.set_num_threads(1)
        clock = time.process_time  # llama.cpp computes in a thread of its own
    precisions = PRECISIONS if options.precision is None else ["float32", *options.precision]
    for shape in options.shape or ["tinystories", "gpt2"]:
        room = SHAPES[shape].context_length - options.prompt_tokens
        new_tokens = options.new_tokens or min(224, room)
        for batch_size in options.batch_size or [1, 32]:
            run = generators(shape, device, dict.fromkeys(precisions), batch_size)
            size = (batch_size, options.prompt_tokens)
            prompts = torch.randint(SHAPES[shape].vocab_size, size)
            check(run, prompts, min(EQUAL_TOKENS, room))
            title = (
                f"{shape}, {new_tokens} new tokens for {batch_size} "
                f"prompt{'s' if batch_size > 1 else ''} of {options.prompt_tokens}, on "
                f"{device_name(device)}"
            )
            arguments = (run, prompts, new_tokens, options.rounds, clock)
            quiet = measure(*arguments)
            base = max(CACHES, key=lambda kind, quiet=quiet: statistics.median(quiet[kind]))
            report(title, quiet, base)
            if options.busy:
                with busy_process():
                    report(f"{title}, beside a busy process", measure(*arguments), base)


if __name__ == "__main__":
    main()
