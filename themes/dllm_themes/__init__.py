"""Themes, one TOML file each; read as package data."""
