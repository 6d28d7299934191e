"""The decode loop and what it is made of. Importing the package loads no torch."""
