"""Reproduces the papers' small systems, figures and claims."""
