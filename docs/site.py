"""A hook of mkdocs: the tutorials, which are scripts, as pages with what they print and draw when they are run now.

A script that fails, fails the site.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jupytext
from mkdocs.structure.files import File, Files
from nbclient import NotebookClient


def on_files(files: Files, config: Any) -> Files:
    """Add a page for each script in tutorials/."""
    for script in sorted(Path(config.docs_dir, "tutorials").glob("*.py")):
        files.append(File.generated(config, f"tutorials/{script.stem}.md", content=_page(script)))
    return files


def _page(script: Path) -> str:
    notebook = jupytext.read(script)
    NotebookClient(notebook, kernel_name="python3", timeout=600, extra_arguments=["--log-level=ERROR"]).execute()
    return "\n\n".join(part for cell in notebook.cells if cell.source for part in _parts(cell))


def _parts(cell: Any) -> list[str]:
    if cell.cell_type == "markdown":
        return [cell.source]
    return [f"```python\n{cell.source}\n```", *(part for output in cell.outputs for part in _shown(output))]


def _shown(output: Any) -> list[str]:
    """What a cell printed, as text, and what it drew; how far something is (stderr) is of no interest afterwards."""
    image = output.get("data", {}).get("image/png")
    if image:
        return [f"![what the code above draws](data:image/png;base64,{''.join(image.split())})"]
    return [f"```text\n{output.text.rstrip()}\n```"] if output.get("name") == "stdout" else []
