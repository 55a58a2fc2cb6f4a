"""A run that is killed outright, at its worst moments: nothing is lost or counts twice, no half report."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from interrupted_runs import assert_as_undisturbed, command, fill, newest_start, run


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["scores/model=*/**/*.parquet", "ledger/host=*/recent.json", "reports/2*"])
def test_a_run_that_is_killed_is_made_good_by_the_next(fitted_store, tmp_path: Path, moment: str) -> None:
    start = newest_start()
    label = f"{fitted_store.model['model']}@{fitted_store.model['version']}"
    environment = {**os.environ, "MLFLOW_TRACKING_URI": fitted_store.tracking_uri}
    killed, whole = (fill(str(tmp_path / name), start) for name in ("killed", "whole"))
    process = subprocess.Popen(
        command(killed), env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    until = time.monotonic() + 60
    while not list(Path(killed.url).glob(moment)):
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < until
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    late = bool(killed.watermarks())  # the last moment is so short that it may be over
    found = [run(store, environment) for store in (killed, whole)]
    if not late:
        assert [i["id"] for i in found[0]["incidents"]] == [i["id"] for i in found[1]["incidents"]]
    assert len(found[1]["incidents"]) == 1
    assert_as_undisturbed(killed, whole, label, start)
