"""Reproduce, question and extend two lines of work on faster CNN training."""

__version__ = "0.1.0"
