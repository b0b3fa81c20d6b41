"""Reinforcement learning with verifiable rewards, one command a stage, Parquet in between."""

__version__ = "0.1.0"
