"""What docs/python.md shows runs as it stands."""

import re
from pathlib import Path


def test_the_document_runs():
    text = (Path(__file__).parents[2] / "docs/python.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", text, re.S)
    assert len(blocks) >= 5
    names = {}
    for block in blocks:
        exec(compile(block, "docs/python.md", "exec"), names)
