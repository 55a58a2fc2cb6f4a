"""A source that falls silent, from raw samples to a page that says so."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import polars as pl
from synthetic_telemetry import SYNTHETIC_START

from reveal_core.method import analyse, fit_model
from reveal_core.profiles import load_profile
from reveal_core.report.model import HostInput, ModelInfo, build_report
from reveal_core.report.render_html import render_html
from reveal_core.report.words import metric_sentence
from reveal_core.telemetry import Telemetry
from storage.store import Store


def with_sources(telemetry: Telemetry, lost: tuple[float, float] | None) -> Telemetry:
    """Return telemetry with a source for each family of metrics; that of the cores loses some seconds."""
    channels = {
        name: replace(channel, source=channel.metric.partition(".")[0])
        for name, channel in telemetry.channels.items()
    }
    frame = telemetry.frame
    if lost is not None:
        begin, end = (SYNTHETIC_START + timedelta(seconds=s) for s in lost)
        silent = pl.col("ts").is_between(begin, end, closed="left")
        names = [name for name, channel in channels.items() if channel.source == "cpu"]
        frame = frame.with_columns(pl.when(~silent).then(pl.col(name)).alias(name) for name in names)
    return replace(telemetry, frame=frame, channels=channels)


def test_lost_telemetry_is_an_incident_that_names_its_source(tmp_path: Path, make_store) -> None:
    store = Store(str(make_store(tmp_path, bursts=())))
    times = [SYNTHETIC_START + timedelta(seconds=s) for s in (0, 110, 180)]
    healthy = with_sources(store.read_telemetry("node-1", times[0], times[1]).telemetry, None)
    model = fit_model([healthy], load_profile("default"))
    after = store.read_telemetry("node-1", times[1], times[2]).telemetry
    assert analyse(model, with_sources(after, None)).incidents == ()
    analysis = analyse(model, with_sources(after, (140, 155)))
    (incident,) = analysis.incidents
    assert abs((incident.start - SYNTHETIC_START).total_seconds() - 140) <= 3
    lost = next(m for m in incident.metrics if m.metric == "telemetry.coverage.cpu")
    assert (lost.direction, lost.instance, incident.subsystem) == ("down", "", "cpu")
    sentence = metric_sentence(lost)
    assert sentence.startswith("Share of the samples due that source cpu delivered fell to ")
    host = HostInput(
        "node-1", analysis.series, analysis.scores, analysis.incidents, {}, times[1], times[2], [], []
    )
    info = ModelInfo("m", "1", "default", "", {}, times[0], times[1], 100, 10)
    report = build_report("r", "Lost", times[2], times[1], times[2], [host], info, [], [], command="")
    assert sentence in render_html(report)
