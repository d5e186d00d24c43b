"""The version, read by the build and by every run."""

__version__ = "0.1.0"
