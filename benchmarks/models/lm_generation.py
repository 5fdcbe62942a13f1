"""Measure generation in tokens per second: this library and transformers' `generate`.

    pip install -r benchmarks/peers/peers.txt
    python -m benchmarks.models.lm_generation  # TinyStories and GPT-2 small, on the CPU
    python -m benchmarks.models.lm_generation --shape tinystories --batch-size 8

Both libraries start from the same weights in float32 and continue the same prompts greedily, so
they must generate the same tokens before anything is timed. The peer is LlamaForCausalLM, measured
with a static cache and with its default cache, which grows. The implementations take turns, so that
other load on the machine affects all of them. Times include processing the prompt.
"""

import argparse
import statistics
import time

import torch

from benchmarks.models.llama import PEER_SHAPES, SHAPES, llama_of
from benchmarks.models.speedup import SPEEDUP_HEADINGS, speedup_cells
from cs336_basics.generation import Sampling, generate_batch
from cs336_basics.model import TransformerLM
from cs336_basics.training.devices import choose_device, device_name

PROMPT_TOKENS = 16
EQUAL_TOKENS = 16  # later, rounding may break a tie differently
GREEDY = Sampling(temperature=0)
KINDS = {"cs336_basics": None, "static cache": "static", "dynamic cache": "dynamic"}


def generators(shape, device):
    """Return a dict from kind to a function that takes prompts and a length and returns ids."""
    torch.manual_seed(0)
    model = TransformerLM(SHAPES[shape])
    llama = llama_of(model).to(device).eval()
    model.to(device)

    def ours(prompts, number):
        return generate_batch(model, prompts.tolist(), number, GREEDY)

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

    return {kind: ours if cache is None else theirs(cache) for kind, cache in KINDS.items()}


def measure(shape, batch_size, new_tokens, device, rounds):
    """Check the ids, and return a dict from kind to the tokens per second in each round."""
    run = generators(shape, device)
    prompts = torch.randint(SHAPES[shape].vocab_size, (batch_size, PROMPT_TOKENS))
    first = {kind: generated(prompts, EQUAL_TOKENS) for kind, generated in run.items()}
    assert all(ids == first["cs336_basics"] for ids in first.values()), first
    speeds = {kind: [] for kind in run}
    for _ in range(rounds):
        for kind, generated in run.items():
            start = time.perf_counter()
            ids = generated(prompts, new_tokens)
            seconds = time.perf_counter() - start
            assert [len(row) for row in ids] == [new_tokens] * batch_size
            speeds[kind].append(batch_size * new_tokens / seconds)
    return speeds


def report(shape, batch_size, new_tokens, device, speeds):
    """Print the results of `measure`."""
    print(
        f"{shape}, generating {new_tokens} tokens for {batch_size} "
        f"prompt{'s' if batch_size > 1 else ''} of {PROMPT_TOKENS}, float32, on "
        f"{device_name(device)}"
    )
    print("Speedup of cs336_basics: median, lower quartile and minimum")
    print(f"{'':<20}{'tokens/s':>11}{SPEEDUP_HEADINGS}")
    for kind, values in speeds.items():
        cells = speedup_cells(speeds["cs336_basics"], values)
        print(f"{kind:<20}{statistics.median(values):>11,.0f}{cells}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shape", action="append", choices=PEER_SHAPES)
    parser.add_argument("--batch-size", action="append", type=int, help="default: 1 and 32")
    parser.add_argument("--new-tokens", type=int, help="default: 224, or as many as fit")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    device = choose_device(options.device)
    for shape in options.shape or ["tinystories", "gpt2"]:
        room = SHAPES[shape].context_length - PROMPT_TOKENS
        new_tokens = options.new_tokens or min(224, room)
        for batch_size in options.batch_size or [1, 32]:
            speeds = measure(shape, batch_size, new_tokens, device, options.rounds)
            report(shape, batch_size, new_tokens, device, speeds)


if __name__ == "__main__":
    main()
