"""Reinforcement learning with verifiable rewards, one command per stage, Parquet in between."""

__version__ = "0.1.0"
