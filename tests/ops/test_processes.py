"""What tests start ends with them."""

import subprocess
from pathlib import Path

import pytest

from tests.ops import processes


def test_a_process_that_hangs_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "END_SECONDS", 0.1)

    with pytest.raises(subprocess.TimeoutExpired), processes.started(["sleep", "1000"], tmp_path) as process:
        pass

    assert process.returncode == -9
