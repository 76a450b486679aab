"""A command-line agent harness that lives in the file system."""

__version__ = "0.1.0"
