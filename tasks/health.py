"""The agent's own health in Prometheus' text format, on request."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from reveal_core.collect.agent import Collector, cpu_seconds, resident_bytes
from tasks.collecting import SegmentSink
from tasks.metrics_server import serve_metrics


class AgentHealth:
    """What ``/metrics`` says: read when it is asked for, so that nobody pays for it otherwise.

    Attributes
    ----------
    collector, sink
        Of the present run; set when one begins.
    """

    def __init__(self) -> None:
        self.collector: Collector | None = None
        self.sink: SegmentSink | None = None

    def watch(self, collector: Collector, sink: SegmentSink) -> None:
        """Tell of these from now on."""
        self.collector, self.sink = collector, sink

    def collect(self) -> Iterable[Metric]:
        """Yield the metrics; called by the Prometheus client."""
        yield CounterMetricFamily("reveal_cpu_seconds", "CPU time used by the agent", value=cpu_seconds())
        yield GaugeMetricFamily("reveal_resident_bytes", "Resident memory", value=resident_bytes())
        if self.collector is not None:
            yield from self._collector(self.collector)
        if self.sink is not None:
            yield from self._sink(self.sink)

    def _collector(self, collector: Collector) -> Iterable[Metric]:
        own = collector.own
        yield CounterMetricFamily("reveal_late_ticks", "Ticks that began late", value=own.late_ticks)
        yield CounterMetricFamily("reveal_lost_ticks", "Ticks that were skipped", value=own.lost_ticks)
        yield CounterMetricFamily("reveal_clock_steps", "Times the clock was set", value=own.clock_steps)
        yield CounterMetricFamily("reveal_samples", "Samples that were read", value=collector.samples)
        yield GaugeMetricFamily("reveal_channels", "Channels at present", value=len(collector.channels))
        up = GaugeMetricFamily("reveal_source_up", "Whether a source is sampled", labels=["source"])
        late = CounterMetricFamily("reveal_source_late_reads", "Reads that came late", labels=["source"])
        failed = CounterMetricFamily("reveal_source_failed_reads", "Reads that failed", labels=["source"])
        for opened in list(collector.opened):
            late.add_metric([opened.source.name], opened.late)
            failed.add_metric([opened.source.name], opened.failed)
        for status in collector.sources:
            up.add_metric([status.source], float(status.available))
        yield from (up, late, failed)

    def _sink(self, sink: SegmentSink) -> Iterable[Metric]:
        yield CounterMetricFamily("reveal_stored_segments", "Segments in the store", value=sink.segments)
        yield CounterMetricFamily("reveal_stored_bytes", "Bytes of these segments", value=sink.bytes)
        if sink.spool is not None:
            spool = sink.spool
            yield GaugeMetricFamily("reveal_spool_segments", "Segments in the spool", value=len(spool))
            yield GaugeMetricFamily("reveal_spool_bytes", "Bytes in the spool", value=spool.size)
            yield CounterMetricFamily("reveal_given_up_segments", "Segments given up", value=spool.given_up)

    def serve(self, address: str) -> int:
        """Answer at ``HOST:PORT`` from now on, in a thread; return the port.

        Raises
        ------
        UsageError
            If the address is none.
        UnavailableError
            If nothing can be served there.
        """
        return int(serve_metrics("--metrics", address, self, "127.0.0.1:9464").server_port)
