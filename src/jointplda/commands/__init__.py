"""The command line. Importing it is quick: commands load NumPy and the rest only once they run."""

from jointplda.commands.app import app, main

__all__ = ["app", "main"]
