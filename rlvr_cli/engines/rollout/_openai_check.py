"""Whether a server has the requested policy.

A server of `rlvr serve` calls its policy by the digest of its files, and refuses requests for
another. Of any other server the log-probs of a few completions are compared with the policy's own.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rlvr_cli.engines.rollout._openai_answers import FIXED_DEFAULTS, OWN_DEFAULTS
from rlvr_cli.engines.rollout._openai_pool import BUSY, Server
from rlvr_cli.engines.serving import names
from rlvr_cli.errors import DataError, UsageError
from rlvr_cli.models import policy as policies
from rlvr_cli.models.policy import Policy
from rlvr_cli.protocols import Completion, Request, SamplingParams
from rlvr_cli.terminal import console
from rlvr_cli.verification.remote.client import Client, Failed, Refused

_PROMPTS, _TOKENS = 4, 16  # of a comparison
_RETRIES = 2  # of a server that is met; one that is away is left to the others
# Nats, of the mean over tokens. A bfloat16 server differs by 0.02 to 0.1 from a float32 one, other
# weights of the same size by 1 or more.
_TOLERANCE = 0.25


def meet(server: Server, policy: Policy, model: str, *, load: bool, retries: int) -> bool:
    """Learns what a server calls the policy, and whether that proves that it has it.

    With `load` a server of `rlvr serve` takes the policy, where it has another one. It is asked
    again at most `retries` times.
    """
    listed = _listed(server, retries)
    server.listed = [str(entry["id"]) for entry in listed]
    owners = [str(entry.get("owned_by")) for entry in listed]
    server.is_neutral = any(owner in OWN_DEFAULTS for owner in owners)
    for name in {FIXED_DEFAULTS[owner] for owner in owners if owner in FIXED_DEFAULTS}:
        console.say(
            f"rollout: {server.endpoint.host} is {name}, which samples with a top_k and penalties "
            "of its own: requests cannot set them, its model settings can"
        )
    with Client(replace(server.endpoint, retries=min(_RETRIES, retries))) as connection:
        own = [name for entry in listed if names.is_of_serve(name := str(entry.get("id")))]
        if policy.is_served or (model and not own):
            server.model = model
            return False
        if own:
            server.model = names.of(policy.digest)
            if server.model not in own:
                _take(connection, server, policy, load=load)
            return True
        server.model = _guessed(listed, policy, server)
        return False


def _listed(server: Server, retries: int) -> list[dict[str, Any]]:
    """The models that a server lists; one that is busy, as while it loads, is asked for longer."""
    try:
        return _models(server, min(_RETRIES, retries))
    except Failed as error:
        if error.code not in BUSY or retries <= _RETRIES:
            raise
        console.say(f"rollout: {error}; trying again")
        return _models(server, retries - _RETRIES)


def _models(server: Server, retries: int) -> list[dict[str, Any]]:
    """The models that a server lists; none where it has no list, or fails to make one."""
    try:
        with Client(replace(server.endpoint, retries=retries)) as connection:
            data = connection.ask("GET", "/models")
    except Failed as error:
        if error.code in (None, 401, 403, *BUSY):
            raise
        return []
    entries = data.get("data") if isinstance(data, dict) else None
    return [entry for entry in entries or [] if isinstance(entry, dict) and "id" in entry]


def _take(connection: Client, server: Server, policy: Policy, *, load: bool) -> None:
    """Has a server of `rlvr serve` load the policy, if it may."""
    if not load:
        raise UsageError(
            f"{server.endpoint.host} has another policy than `{policy.name}`",
            "have it load that with `load=true`, as in `--engine openai:url=...,load=true`",
        )
    body = {"path": str(policy.path.resolve()), "digest": policy.digest}
    try:
        connection.ask("POST", names.PATH, body)
    except Refused as error:
        raise DataError(
            f"{server.endpoint.host} cannot take `{policy.name}`: {error}",
            "it must be of the architecture that it was started with, on a disk that it sees",
        ) from None


def _guessed(listed: list[dict[str, Any]], policy: Policy, server: Server) -> str:
    known = [str(entry["id"]) for entry in listed]
    path = str(policy.path.resolve())
    same = [str(e["id"]) for e in listed if path in (str(e["id"]), str(e.get("root")))]
    same += [name for name in known if name in (policy.name, policy.path.resolve().name)]
    if len(known) != 1 and not same:
        have = f"it has {', '.join(known[:5])}" if known else "it lists none"
        raise UsageError(
            f"which model of {server.endpoint.host} is `{policy.name}`? {have}",
            f"name it, as in `--engine openai:url=...,model={known[0] if known else 'NAME'}`",
        )
    return (same or known)[0]


def letters(text: str) -> str:
    """A text without white space and broken characters, which decoders treat as they like."""
    return "".join(text.replace("\ufffd", "").split())


@dataclass(frozen=True)
class Few:
    """The completions that are compared."""

    requests: list[Request]
    sampling: SamplingParams


def few(requests: Sequence[Request], sampling: SamplingParams) -> Few:
    """Short completions of the first prompts that differ."""
    first = {tuple(request.prompt_token_ids): request for request in reversed(requests)}
    chosen = list(first.values())[-_PROMPTS:]
    return Few(chosen, replace(sampling, max_new_tokens=min(_TOKENS, sampling.max_new_tokens)))


def compare(policy: Policy, few: Few, drawn: Mapping[str, list[Completion]]) -> None:
    """An error if a server's log-probs, by its name, are not those of the policy."""
    own = _Own(policy)
    for host, completions in drawn.items():
        pairs = [(request.prompt_token_ids, completion)
                 for request, completion in zip(few.requests, completions, strict=True)
                 if completion.token_ids]  # fmt: skip
        if not pairs:
            continue
        as_sampled, plain = own.gaps(pairs, few.sampling)
        if as_sampled <= _TOLERANCE:
            continue
        if plain <= _TOLERANCE:
            raise DataError(
                f"{host} gives the log-probs of temperature 1 over all tokens, not of what it "
                "samples from",
                "start vLLM with `--logprobs-mode processed_logprobs`, sample with --temperature 1 "
                "--top-p 1 --top-k 0, or leave --model out if you only evaluate",
            )
        raise DataError(
            f"{host} has other weights than `{policy.name}`: log-probs differ by "
            f"{as_sampled:.2g} nats per token, bfloat16 explains {_TOLERANCE:g}",
            "name the policy that the server has with --model; `check=false` takes it on trust",
        )


class _Own:
    """Log-probs of the policy itself."""

    def __init__(self, policy: Policy) -> None:
        self._loaded = policies.load(policy, frozen=True)

    def gaps(
        self, pairs: list[tuple[list[int], Completion]], sampling: SamplingParams
    ) -> tuple[float, float]:
        """The mean gap, in nats per token, to the sampled distribution and to the plain policy."""
        sampled: list[np.ndarray] = []
        plain: list[np.ndarray] = []
        for prompt, completion in pairs:
            logits_TV = self._logits(prompt, completion.token_ids)
            given_T = np.array(completion.behaviour_logp)
            for gaps, params in ((sampled, sampling), (plain, SamplingParams(1))):
                own_T = _logps(logits_TV, completion.token_ids, params)
                gaps.append(np.minimum(np.abs(given_T - own_T), 20.0))
        return float(np.concatenate(sampled).mean()), float(np.concatenate(plain).mean())

    def _logits(self, prompt: list[int], token_ids: list[int]) -> np.ndarray:
        """The logits [T, V] of each token of a completion, in float64."""
        import torch

        model = self._loaded.model
        ids = torch.tensor([[*prompt, *token_ids]], device=model.device)
        with torch.no_grad():
            logits = model(ids).logits[0, len(prompt) - 1 : -1]
        array: np.ndarray = logits.double().cpu().numpy()
        return array


def _logps(logits_TV: np.ndarray, token_ids: list[int], sampling: SamplingParams) -> np.ndarray:
    """The log-probs [T] of tokens; -inf of one that is not sampled from."""
    scaled_TV = logits_TV / (sampling.temperature or 1.0)
    logp_TV = scaled_TV - np.logaddexp.reduce(scaled_TV, axis=-1, keepdims=True)
    order_TV = np.sort(logp_TV, axis=-1)[:, ::-1]
    before_TV = np.exp(order_TV).cumsum(-1) - np.exp(order_TV)  # the mass of likelier tokens
    allowed_TV = before_TV < sampling.top_p
    if sampling.top_k:
        allowed_TV[:, sampling.top_k :] = False
    least_T = np.where(allowed_TV, order_TV, math.inf).min(-1)
    kept_TV = np.where(logp_TV >= least_T[:, None], logp_TV, -math.inf)
    kept_TV = kept_TV - np.logaddexp.reduce(kept_TV, axis=-1, keepdims=True)
    logp_T: np.ndarray = kept_TV[np.arange(len(token_ids)), token_ids]
    return logp_T
