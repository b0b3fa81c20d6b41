"""The names that the text of tests has: what they call, import and mean.

It runs inside the sandbox and imports only the standard library.
"""

import ast
from typing import Any

_REPORTS = {"warns", "catch_warnings", "simplefilter", "assertWarns", "assertWarnsRegex",
            "assertLogs", "assertNoLogs", "deprecated_call"}  # fmt: skip


class Words:
    """The names that the text of tests has."""

    def __init__(self, tree: ast.AST) -> None:
        nodes = list(ast.walk(tree))
        self.names = {node.id for node in nodes if isinstance(node, ast.Name)}
        self.dotted = {
            (node.value.id, node.attr)
            for node in nodes
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
        }
        self.bases = {base for base, _ in self.dotted}
        imports = [alias for n in nodes if isinstance(n, ast.Import) for alias in n.names]
        self.imports = {alias.name for alias in imports}
        self.modules = {alias.asname or alias.name for alias in imports}  # as tests call them
        self.called = [
            node.func.id
            for node in nodes
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        ]
        self.imported: dict[str, set[str]] = {}
        for node in nodes:
            if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names = self.imported.setdefault(node.module, set())
                names |= {alias.name for alias in node.names}
                self.names |= {alias.name for alias in node.names}
        self.in_classes = {
            name.id
            for node in nodes
            if isinstance(node, ast.ClassDef)
            for part in node.body
            if not isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef)
            for name in ast.walk(part)
            if isinstance(name, ast.Name)
        }
        waits = (ast.AsyncFunctionDef, ast.Await)
        self.is_async = "asyncio" in self.names or any(isinstance(n, waits) for n in nodes)
        texts = {n.value for n in nodes if isinstance(n, ast.Constant) and isinstance(n.value, str)}
        attributes = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
        self.sets_environment = bool(
            {"argv", "environ", "setenv", "delenv", "putenv"} & (attributes | self.names)
            or {"os.environ", "sys.argv"} & texts
        )
        self.expects_reports = bool(_REPORTS & (attributes | self.names))
        self.trusted: dict[str, Any] = {}
