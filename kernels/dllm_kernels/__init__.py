"""Triton kernels, each with its torch reference beside it."""
