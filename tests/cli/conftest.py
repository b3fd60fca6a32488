from pathlib import Path

import pets as made
import pytest


@pytest.fixture
def pets(tmp_path: Path) -> Path:
    return made.written(tmp_path / "pets")
