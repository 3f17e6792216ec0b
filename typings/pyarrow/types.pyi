# pyarrow ships no types, and makes many of its names at run time: everything in it is Any.
from typing import Any

def __getattr__(name: str) -> Any: ...
