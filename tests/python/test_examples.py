"""Examples that can be started as they lie."""

import ast
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[2] / "python" / "examples").glob("*.py"))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_no_example_shadows_what_an_example_imports(example):
    # The folder of the script that is started comes first on sys.path.
    names = {path.stem for path in EXAMPLES}
    for node in ast.walk(ast.parse(example.read_text())):
        if isinstance(node, ast.Import):
            imported = [one.name for one in node.names]
        elif isinstance(node, ast.ImportFrom):
            imported = [node.module]
        else:
            continue
        assert not names & {name.partition(".")[0] for name in imported}
