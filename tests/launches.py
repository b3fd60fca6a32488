"""Which functions of ``quatgraph.ops.kernels`` launch kernels, read from their source."""

import ast
import os
from pathlib import Path

import quatgraph

KERNELS = Path(quatgraph.__file__).parent / "ops" / "kernels"
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"


def launch_of(module: str, function: str) -> str:
    return f"{module.rpartition('.')[2]}.{function}"


LAUNCHES = {
    launch_of(path.stem, node.name)
    for path in KERNELS.glob("*.py")
    for node in ast.walk(ast.parse(path.read_text()))
    if isinstance(node, ast.FunctionDef) and "with torch.cuda.device(" in ast.unparse(node)
}
"""Each as ``"module.function"``."""

KERNEL_NAMES = {
    node.func.value.id
    for path in KERNELS.glob("*.py")
    for node in ast.walk(ast.parse(path.read_text()))
    if isinstance(node, ast.Call)
    and isinstance(node.func, ast.Subscript)
    and isinstance(node.func.value, ast.Name)
}
"""The kernels themselves: what is called as ``kernel[grid](...)``."""
