"""How the code that runs here was built. This module is compiled with the cores, so its file tells what they are."""

from typing import Final

CORES: Final = "pure Python" if __file__.endswith(".py") else "compiled"
"""What the hot cores run as: native code made by mypyc, or the interpreter's own."""
