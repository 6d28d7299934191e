"""The terminal for diffusion language models. Importing the package loads no torch."""

__version__ = "0.1.0"
