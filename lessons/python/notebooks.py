"""Write a notebook for each lesson that has a version in NumPy: python3 notebooks.py

A notebook imports nothing of this folder: what the lesson's file imports from it becomes cells.
"""

import ast
import json
import re
import textwrap
from pathlib import Path

HERE = Path(__file__).parent
LESSONS = HERE.parent


def parts_of(name):
    """Return the files of this folder that name.py imports, its definitions and its example."""
    text = (HERE / f"{name}.py").read_text(encoding="utf-8")
    definitions, _, example = text.partition('\nif __name__ == "__main__":\n')
    imports = [node for node in ast.parse(text).body if isinstance(node, ast.ImportFrom)]
    definitions = re.sub(r'^("""|import |from ).*\n', "", definitions, flags=re.M)
    return [node.module for node in imports], definitions.strip(), textwrap.dedent(example).strip()


def in_order(name):
    """Return name after all files that it needs, each once."""
    needs = [need for each in parts_of(name)[0] for need in in_order(each)]
    return list(dict.fromkeys([*needs, name]))


def cells_of(folder):
    """Return the kind and the text of each cell of the notebook of lessons/<folder>."""
    title = (LESSONS / folder / "README.md").read_text(encoding="utf-8").split("\n# ", 1)[1]
    page = f"The lesson is [its page](../{folder}/README.md); this is its idea in NumPy."
    codes = [parts_of(name)[1] for name in in_order(folder[3:])] + [parts_of(folder[3:])[2]]
    return [
        ("markdown", f"# {title.partition(chr(10))[0]}\n\n{page}"),
        ("code", "import numpy as np"),
        *(("code", code) for code in codes if code),
    ]


def notebook(folder):
    cells = []
    for number, (kind, text) in enumerate(cells_of(folder)):
        cell = {"cell_type": kind, "id": f"cell-{number}", "metadata": {}}
        if kind == "code":
            cell |= {"execution_count": None, "outputs": []}
        cells.append(cell | {"source": text.splitlines(keepends=True)})
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    book = {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(book, indent=1, ensure_ascii=False) + "\n"


def notebooks():
    """Return the text of each notebook by its number."""
    folders = sorted(path.name for path in LESSONS.glob("[0-9][0-9]_*"))
    return {name[:2]: notebook(name) for name in folders if (HERE / f"{name[3:]}.py").exists()}


if __name__ == "__main__":
    for number, text in notebooks().items():
        (LESSONS / "notebooks" / f"{number}.ipynb").write_text(text, encoding="utf-8")
