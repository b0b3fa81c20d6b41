"""What other trainers call the options of this one, so that an unknown name has an answer.

Of TRL's GRPOConfig and scripts, verl, OpenRLHF, open-instruct, vLLM and Hugging Face's Trainer.
"""

from collections.abc import Iterable

# Their names, with underscores and without dashes in front: ours, in the order of preference.
OPTIONS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("lr", "actor_lr", "actor_learning_rate"), ("learning_rate",)),
    **dict.fromkeys(
        ("group_size", "num_samples", "n_samples_per_prompt", "rollout_n", "n", "G", "k",
         "num_return_sequences", "num_samples_per_prompt_rollout", "n_samples"),
        ("num_generations",),
    ),
    **dict.fromkeys(
        ("max_tokens", "max_completion_length", "max_response_length", "response_length",
         "generate_max_len", "max_length", "max_gen_len", "max_completion_tokens"),
        ("max_new_tokens",),
    ),
    **dict.fromkeys(
        ("batch_size", "train_batch_size", "rollout_batch_size", "num_unique_prompts_rollout",
         "generation_batch_size", "per_device_train_batch_size", "bs"),
        ("prompts_per_step", "mini_batch_prompts", "micro_batch_tokens"),
    ),
    **dict.fromkeys(
        ("mini_batch_size", "ppo_mini_batch_size", "num_mini_batches"), ("mini_batch_prompts",)
    ),
    **dict.fromkeys(
        ("micro_batch_size", "micro_train_batch_size", "gradient_accumulation_steps",
         "ppo_micro_batch_size_per_gpu", "max_token_len_per_gpu", "per_device_eval_batch_size"),
        ("micro_batch_tokens",),
    ),
    **dict.fromkeys(
        ("num_iterations", "ppo_epochs", "max_epochs", "num_epochs", "update_epochs"), ("epochs",)
    ),
    **dict.fromkeys(
        ("max_steps", "total_steps", "num_steps", "num_train_epochs", "total_epochs",
         "total_training_steps", "total_episodes", "num_episodes"),
        ("steps",),
    ),
    **dict.fromkeys(("output_dir", "output", "o", "save_path", "default_local_dir"), ("out",)),
    **dict.fromkeys(
        ("model_name_or_path", "model_name", "model_path", "pretrain", "m", "policy", "base_model"),
        ("model",),
    ),
    **dict.fromkeys(
        ("dataset", "dataset_name", "train_files", "train_dataset", "data", "prompt_data",
         "dataset_mixer_list", "train_data"),
        ("prompts",),
    ),
    **dict.fromkeys(
        ("eval_dataset", "val_files", "val_data", "test_files", "validation_dataset",
         "dataset_mixer_eval_list", "eval_prompts"),
        ("heldout",),
    ),
    **dict.fromkeys(("eval_steps", "test_freq", "eval_freq", "eval_interval"), ("eval_every",)),
    **dict.fromkeys(("eval_n", "val_n", "eval_num_samples"), ("eval_num_generations",)),
    **dict.fromkeys(("save_steps", "save_freq", "save_interval"), ("save_every",)),
    **dict.fromkeys(
        ("save_total_limit", "max_ckpt_num", "max_ckpt_to_keep", "keep_last_n_checkpoints"),
        ("keep",),
    ),
    **dict.fromkeys(("lora_r", "lora_dim", "peft_r", "use_lora", "use_peft"), ("lora_rank",)),
    **dict.fromkeys(("lora_target_modules", "target_modules"), ("lora_targets",)),
    **dict.fromkeys(("warmup_steps", "lr_warmup_steps", "warmup"), ("warmup_updates",)),
    **dict.fromkeys(("lr_scheduler_type", "lr_scheduler", "lr_schedule"), ("schedule",)),
    **dict.fromkeys(("max_norm", "grad_clip", "clip_grad"), ("max_grad_norm",)),
    **dict.fromkeys(("gradient_checkpointing", "enable_gradient_checkpointing"),
                    ("recompute_activations",)),
    **dict.fromkeys(("temp", "sampling_temperature"), ("temperature",)),
    **dict.fromkeys(("random_seed", "data_seed"), ("seed",)),
    **dict.fromkeys(("report_to", "logger", "log_with"), ("track",)),
    **dict.fromkeys(("num_processes", "num_gpus", "n_gpus_per_node", "nproc_per_node", "gpus"),
                    ("nproc",)),
    **dict.fromkeys(("resume", "resume_from_checkpoint", "resume_from"), ("out",)),
    **dict.fromkeys(
        ("reward_funcs", "reward_func", "reward_fn", "reward", "reward_function", "grader",
         "custom_reward_function", "remote_rm_url", "reward_model"),
        ("verifier",),
    ),
    **dict.fromkeys(("ref_model_name_or_path", "reference_model"), ("ref_model",)),
    **dict.fromkeys(("advantage_estimator", "adv_estimator", "loss_type", "algorithm", "loss"),
                    ("algo",)),
}  # fmt: skip

# What is an option of a spec here, or no option at all: the flag, and the words that set it.
_SPECS: dict[str, tuple[str, str]] = {
    **dict.fromkeys(
        ("beta", "kl_coef", "kl_loss_coef", "init_kl_coef", "kl_coefficient", "kl", "kl_penalty"),
        ("algo", "grpo+kl:beta=0.001"),
    ),
    **dict.fromkeys(("entropy_coeff", "entropy_coef", "ent_coef", "entropy_loss_coef"),
                    ("algo", "grpo+entropy:coef=0.001")),
    **dict.fromkeys(("epsilon_high", "clip_ratio_high", "clip_high", "eps_clip_high"),
                    ("algo", "dapo:clip_high=0.28")),
    **dict.fromkeys(("epsilon", "clip_ratio", "cliprange", "eps_clip", "clip_range", "clip_low"),
                    ("algo", "grpo:clip_low=0.2,clip_high=0.2")),
    **dict.fromkeys(
        ("vllm", "use_vllm", "vllm_mode", "rollout_backend", "vllm_num_engines"),
        ("engine", "vllm"),
    ),
    **dict.fromkeys(
        ("gpu_memory_utilization", "vllm_gpu_memory_utilization"), ("engine", "vllm:gpu_memory=0.3")
    ),
    **dict.fromkeys(("bf16", "bfloat16", "dtype", "torch_dtype", "precision", "fp16"),
                    ("trainer", "local:precision=bfloat16")),
    **dict.fromkeys(("deepspeed", "zero_stage", "fsdp"), ("trainer", "deepspeed:zero=2")),
    **{name: ("track", name) for name in ("tensorboard", "wandb", "trackio", "mlflow")},
    "use_wandb": ("track", "wandb"),
}  # fmt: skip

# What the losses, estimators and corrections of other trainers are called here, as a spec.
PARTS: dict[str, dict[str, tuple[str, ...]]] = {
    "objectives": {
        **dict.fromkeys(("ppo", "ppo_clip", "vanilla", "regular", "dual_clip", "group_norm"),
                        ("grpo", "dapo")),
        **dict.fromkeys(("geo_mean", "geometric_mean"), ("gmpo",)),
        **dict.fromkeys(("future_kl", "fipo_loss"), ("fipo",)),
        **dict.fromkeys(("optimal_token_baseline", "tir_optimal_token_baseline"), ("otb",)),
        **dict.fromkeys(("reinforce_plus_plus", "reinforce++"),
                        ("reinforce:whiten=true", "reinforce-pp")),
        **dict.fromkeys(("reinforce_plus_plus_baseline", "reinforce_baseline"), ("reinforce-pp",)),
        **dict.fromkeys(("bnpo", "token_mean"), ("grpo:aggregation=token-mean",)),
        "kimi15": ("dro",),
        "dppo": ("dppo-tv", "dppo-kl"),
        "clip_cov": ("grpo+clip-cov",),
        "kl_cov": ("grpo+kl-cov",),
        "spo": ("cfpo",),
    },
    "modifiers": {
        **dict.fromkeys(("tis", "rollout_is", "vllm_importance_sampling_correction", "use_tis"),
                        ("is-correction",)),
        "icepop": ("is-correction:kind=icepop",),
        **dict.fromkeys(("opsm", "use_opsm"), ("off-policy-mask",)),
        **dict.fromkeys(("rollout_rs", "rejection_sampling", "geometric"), ("reject",)),
        **dict.fromkeys(("kl_loss", "use_kl_loss", "kl_penalty"), ("kl",)),
        **dict.fromkeys(("use_kl_in_reward", "kl_reward"), ("kl-in-reward",)),
        **dict.fromkeys(("entropy_bonus", "entropy_coeff", "entropy_coef"), ("entropy",)),
        **dict.fromkeys(("mask_truncated_completions", "overlong_filtering", "overlong_filter"),
                        ("mask-truncated",)),
        **dict.fromkeys(("overlong_buffer", "soft_overlong_punishment"), ("overlong",)),
        "top_entropy_quantile": ("top-entropy",),
    },
}  # fmt: skip

# What the options of those are called here, where a spec has them.
_IN_SPECS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(
        ("epsilon", "clip_ratio", "cliprange", "eps_clip", "clip_eps", "clip_range"),
        ("clip_low", "clip_high", "clip", "width"),
    ),
    **dict.fromkeys(("epsilon_low", "clip_ratio_low", "eps_clip_low", "cliprange_low"),
                    ("clip_low", "floor", "low")),
    **dict.fromkeys(("epsilon_high", "clip_ratio_high", "eps_clip_high", "cliprange_high"),
                    ("clip_high", "cap", "high")),
    **dict.fromkeys(("clip_ratio_c", "delta", "eps_clip_c"), ("dual_clip", "c")),
    **dict.fromkeys(("kl_coef", "kl_loss_coef", "init_kl_coef", "dro_beta"), ("beta", "kl")),
    **dict.fromkeys(("kl_loss_type", "kl_estimator", "kl_type"), ("estimator",)),
    **dict.fromkeys(("loss_agg_mode", "loss_reduction"), ("aggregation",)),
    **dict.fromkeys(("entropy_coeff", "entropy_coef"), ("coef",)),
    **dict.fromkeys(("decay_rate", "fipo_decay_rate"), ("half_life",)),
    **dict.fromkeys(("safety_thresh", "fipo_safety_threshold"), ("safety",)),
    **dict.fromkeys(("future_kl_clip_ratio", "fipo_clip_range"), ("f_low", "f_high")),
    **dict.fromkeys(("overlong_buffer_len", "soft_punish_cache"), ("buffer",)),
    **dict.fromkeys(("rollout_is_threshold", "vllm_importance_sampling_cap", "tis_imp_ratio_cap"),
                    ("cap",)),
    **dict.fromkeys(("clip_cov_ratio", "kl_cov_ratio", "top_entropy_quantile"), ("share",)),
    "off_policy_mask_threshold": ("delta",),
}  # fmt: skip


def parts(folder: str, name: str) -> tuple[str, ...]:
    """The specs that do what a loss, estimator or correction of that name does elsewhere."""
    return PARTS.get(folder, {}).get(name.lower().replace("-", "_"), ())


def in_spec(key: str, known: Iterable[str]) -> list[str]:
    """Those of a spec's options that another trainer calls `key`."""
    has = set(known)
    return [ours for ours in _IN_SPECS.get(key.lower(), ()) if ours in has]


def keys(name: str) -> tuple[str, ...]:
    """What an option of another trainer, or one with a typing slip, is called here."""
    return OPTIONS.get(name, ())


def instead(name: str) -> str | None:
    """The words that set what another trainer has an option for, None where a name is unknown."""
    spec = _SPECS.get(name)
    return f"`--{spec[0]} {spec[1]}`" if spec else None


def flags(given: str, known: set[str]) -> list[str]:
    """The words that were meant by an unknown flag, of a command that takes `known` flags."""
    plain = given.lstrip("-").replace("-", "_").rpartition(".")[2]  # as in data.train_files
    name = plain if plain in OPTIONS or plain in _SPECS else plain.lower()
    if (own := f"--{name.replace('_', '-')}") in known:
        return [own]
    spec = _SPECS.get(name)
    if spec and f"--{spec[0]}" in known:
        return [f"--{spec[0]} {spec[1]}"]
    near = [f"--{other.replace('_', '-')}" for other in keys(name)]
    return [flag for flag in near if flag in known]
