"""A graph of commands as one run: each stage released as its predecessors finish, through the same gate and journal."""

from harness.pipeline.drive import drive

__all__ = ["drive"]
