"""How much of stored completions still stands when they are checked in place of decoded again.

    python -P benchmarks/evaluation_reuse.py MODEL_DIR --entropy 0.6    # of gpu_step.py make
    python -P benchmarks/evaluation_reuse.py MODEL_DIR --words          # a model that talks

An evaluation gives each prompt the noise of the one before. So one parallel pass over the stored
completions can draw each token again with its own noise, and a row stands up to its first
difference. First with the weights that decoded them: the pass sums in another order. Then after
updates of GRPO with random rewards. Weights that are random have their last norm scaled until the
entropy is --entropy nats a token; they end no completion. With --words the prompts are questions,
and completions end by themselves. One JSON line a measurement.

Shapes: B rows, T completion tokens, N all of them, V vocabulary.
"""

import argparse
import dataclasses
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from rlvr_cli.algorithms import objective
from rlvr_cli.algorithms.objective import Totals
from rlvr_cli.config import UpdateOptions
from rlvr_cli.engines.rollout.graph import GraphEngine
from rlvr_cli.engines.training import local
from rlvr_cli.kernels import dispatch
from rlvr_cli.kernels.reference import seeds_at
from rlvr_cli.models import chat, logprobs, policy as policies
from rlvr_cli.protocols import Completion, Request, Row, SamplingParams

CUDA = torch.cuda.is_available()
GENERATIONS = 8
CHUNK = 4096  # places whose logits are there at once
QUESTIONS = (
    "A farmer has {a} sheep and buys {b} more. Each gives {c} kg of wool. How much is that in all?",
    "Explain to a child in {a} sentences why the sky is blue, and why it is red at dusk.",
    "Write a story of {b} sentences about a lighthouse keeper who finds {a} letters.",
    "What is {a} times {b} plus {c}? Show your work in detail.",
    "List {a} tips for learning to cook, and explain each of them.",
    "A train travels {a} km in {c} hours and {b} km in {c} more. What is its average speed?",
    "Compare cats and dogs as pets. Give {c} reasons for each.",
    "Write a Python function that sums the first {a} multiples of {c}, and explain every line.",
)


def say(**facts: object) -> None:
    print(json.dumps(facts), flush=True)


def wait() -> float:
    if CUDA:
        torch.cuda.synchronize()
    return time.perf_counter()


def prompts_of(loaded: Any, count: int, words: bool) -> list[list[int]]:
    if not words:
        rng = np.random.default_rng(5)
        return rng.integers(2, loaded.model.config.vocab_size, (count, 64)).tolist()
    prompts = []
    for i in range(count):
        text = QUESTIONS[i % len(QUESTIONS)].format(a=7 + 3 * i, b=5 + 2 * i, c=2 + i % 7)
        message = json.dumps([{"role": "user", "content": text}])
        prompts.append(chat.Encoder(loaded.tokenizer).encode(str(i), message))
    return prompts


@torch.no_grad()
def scale_entropy(model: Any, entropy: float) -> None:
    """Scales the last norm, and so the logits, until random tokens have this entropy in nats."""
    torch.manual_seed(0)
    ids = torch.randint(2, model.config.vocab_size, (4, 256), device=model.device)
    hidden = model.base_model(input_ids=ids, use_cache=False).last_hidden_state[:, -64:]
    logits = model.get_output_embeddings()(hidden).float()
    low, high = 0.1, 100.0
    for _ in range(25):
        scale = (low * high) ** 0.5
        logp = (logits * scale).log_softmax(-1)
        low, high = (scale, high) if -(logp.exp() * logp).sum(-1).mean() > entropy else (low, scale)
    model.base_model.norm.weight.mul_(scale)


def decode(
    engine: GraphEngine, requests: list[Request], width: int
) -> tuple[list[Completion], float]:
    start = wait()
    completions = dict(engine.generate(requests, SamplingParams(width)))
    return [completions[i] for i in range(len(requests))], round(wait() - start, 2)


@torch.no_grad()
def drawn_again(
    model: Any, requests: list[Request], completions: list[Completion], tokens: int
) -> tuple[list[list[int]], list[list[float]], float]:
    """Each completion's tokens as the model draws them now, their log-probs, and the seconds."""
    start = wait()
    rows = [
        Row(r.prompt_token_ids, c.token_ids) for r, c in zip(requests, completions, strict=True)
    ]
    token_ids: list[list[int]] = [[]] * len(rows)
    logps: list[list[float]] = [[]] * len(rows)
    for indices in logprobs.micro_batches(rows, tokens):
        states = logprobs._states(model, [rows[i] for i in indices])
        at_BT = torch.arange(states.mask_BT.shape[1], device=model.device)
        at_BT = at_BT.expand_as(states.mask_BT)
        seed_B1 = torch.tensor([[requests[i].seed] for i in indices], device=model.device)
        seed_N = seeds_at(seed_B1.expand_as(at_BT)[states.mask_BT], at_BT[states.mask_BT])
        samples = [
            dispatch.sample(states.head.wide_logits(hidden_NH), part_N, 0)
            for hidden_NH, part_N in zip(
                states.hidden_NH.split(CHUNK), seed_N.split(CHUNK), strict=True
            )
        ]
        lengths = [len(rows[i].token_ids) for i in indices]
        token_N = torch.cat([sample.token_B for sample in samples])
        logp_N = torch.cat([sample.logp_B for sample in samples])
        for i, ids, logp in zip(
            indices, token_N.split(lengths), logp_N.split(lengths), strict=True
        ):
            token_ids[i], logps[i] = ids.tolist(), logp.tolist()
    return token_ids, logps, round(wait() - start, 2)


def compare(
    name: str, stored: list[Completion], again: Sequence[Sequence[int]], logps: Any = None, **facts
) -> None:
    """Says what stands of the stored completions, and how far apart equal tokens' log-probs are."""
    stand, differ, total, kept_rows, gaps = 0, 0, 0, 0, []
    for i, completion in enumerate(stored):
        ids = np.array(completion.token_ids)
        count = min(len(ids), len(again[i]))
        same = ids[:count] == np.array(again[i])[:count]
        first = count if same.all() else int(same.argmin())
        stand, total = stand + first, total + len(ids)
        differ += count - int(same.sum())
        kept_rows += first == len(ids)
        if logps is not None:
            gaps.append(np.abs(np.array(completion.behaviour_logp) - np.array(logps[i]))[same])
    if gaps:
        facts |= {"gap_mean": round(float(np.concatenate(gaps).mean()), 5)}
    say(
        check=name, stands=round(stand / total, 4), rows_that_stand=kept_rows, rows=len(stored),
        tokens=total, differ_a_token=round(differ / total, 5), **facts,
    )  # fmt: skip


class Updates:
    """Updates of one policy from the same start, with rewards of 0 or 1 at random."""

    def __init__(self, loaded: Any, tokens: int) -> None:
        precision = "bfloat16" if CUDA else "float32"
        options = UpdateOptions(micro_batch_tokens=tokens)
        self.engine = local.LocalEngine(loaded, options, precision=precision)
        self._initial = {n: weight.detach().clone() for n, weight in self.engine._master.items()}
        self._rng = np.random.default_rng(11)

    @torch.no_grad()
    def restart(self) -> None:
        for name, weight in self._initial.items():
            self.engine._master[name].copy_(weight)
            self.engine._trained.named[name].copy_(weight)
        self.engine._optimizer.state.clear()

    def run(self, requests: list[Request], stored: list[Completion], groups: int, rate: float):
        """One update on the completions of `groups` prompts."""
        rows = []
        for group in self._rng.permutation(len(requests) // GENERATIONS)[:groups]:
            reward_G = self._rng.integers(0, 2, GENERATIONS)
            advantage_G = (reward_G - reward_G.mean()) / (reward_G.std() + 1e-4)
            for i, advantage in enumerate(advantage_G, GENERATIONS * group):
                ids = (requests[i].prompt_token_ids, stored[i].token_ids)
                rows.append(Row(*ids, advantage=float(advantage)))
        lengths = [len(row.token_ids) for row in rows]
        totals = Totals(sum(lengths), len(rows), max(lengths))
        self.engine.accumulate(rows, objective.build("grpo"), totals, 1.0)
        self.engine.update(rate)


def measure(options: argparse.Namespace) -> None:
    loaded = policies.load(policies.resolve(str(options.folder)))
    if not options.words:
        loaded = dataclasses.replace(loaded, eos_ids=(-1,))
    if options.entropy:
        scale_entropy(loaded.model, options.entropy)
    updates = Updates(loaded, options.tokens)
    model, width = loaded.model, options.new
    prompts = prompts_of(loaded, options.rows // GENERATIONS, options.words)
    requests = [Request(prompts[i // GENERATIONS], 1000 + i) for i in range(options.rows)]
    engine = GraphEngine(loaded, options.rows, fuse=CUDA)
    decode(engine, requests, 4)  # compiles and captures
    stored, decode_s = decode(engine, requests, width)
    mean = float(np.mean([logp for c in stored for logp in c.behaviour_logp]))
    say(decode_s=decode_s, parameters=model.num_parameters(), logp_mean=round(mean, 3))
    drawn_again(model, requests, stored, options.tokens)
    again, logps, seconds = drawn_again(model, requests, stored, options.tokens)
    compare("the same weights", stored, again, logps, check_s=seconds)
    for rows in (options.rows, options.rows // 2):
        repeated, seconds = decode(GraphEngine(loaded, rows, fuse=CUDA), requests, width)
        ids = [completion.token_ids for completion in repeated]
        compare(f"decoded again, {rows} rows at a time", stored, ids, decode_s=seconds)
    for rate in options.rates:
        updates.restart()
        for done in range(1, max(options.updates) + 1):
            updates.run(requests, stored, options.groups, rate)
            if done in options.updates:
                again, logps, _ = drawn_again(model, requests, stored, options.tokens)
                compare(f"updates: {done}, rate {rate:g}", stored, again, logps)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, default=512)
    parser.add_argument("--new", type=int, default=1024)
    parser.add_argument("--entropy", type=float, default=0.0)
    parser.add_argument("--words", action="store_true")
    parser.add_argument("--rates", type=float, nargs="+", default=[1e-6, 1e-5])
    parser.add_argument("--updates", type=int, nargs="+", default=[1, 10])
    parser.add_argument("--groups", type=int, default=16, help="of 8 completions, in an update")
    parser.add_argument("--tokens", type=int, default=16384, help="of a micro-batch")
    options = parser.parse_args()
    say(card=torch.cuda.get_device_name() if CUDA else "cpu", torch=torch.__version__)
    measure(options)


if __name__ == "__main__":
    main()
