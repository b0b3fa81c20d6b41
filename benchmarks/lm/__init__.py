"""The parts of benchmarks/head_to_head_lm.py."""
