"""Checkpoint families, one small file each."""
