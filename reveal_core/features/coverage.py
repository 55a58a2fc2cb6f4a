"""How much of what a source should have delivered is there: missing telemetry is evidence."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from reveal_core.channels import Channel

Array = NDArray[np.float64]

FIXED_SOURCES = (
    "gpu",
    "gpu_detail",
    "gpu_health",
    "amd_gpu",
    "infiniband",
    "infiniband_detail",
    "nvme",
    "numa",
)
"""Sources whose instances are hardware that stays: each must deliver.

Elsewhere network interfaces, groups and disks come and go as jobs do, and a metric counts as delivered by the
instance that delivers most of it.
"""

LEAST_SAMPLES = 3
"""So many samples must be due before their absence says something; a slow source is judged over longer."""


def delivered(counts: Array, width: int, stride_s: float, period_s: float) -> Array:
    """Return the share of the samples due that a channel delivered up to the end of each window.

    Parameters
    ----------
    counts
        Samples in each stride, shape (n_strides,).
    width
        Strides of a window.
    stride_s
        Length of a stride.
    period_s
        Time between two samples.

    Returns
    -------
    Array
        0 to 1, shape (n_strides - width + 1,). Over the window, or over as long before its end as
        `LEAST_SAMPLES` take, if that is longer. One sample may have fallen outside; where none is due yet,
        the share is 1.
    """
    total = np.concatenate([[0.0], np.cumsum(counts)])
    end = np.arange(width, len(counts) + 1)
    back = max(width, int(np.ceil(LEAST_SAMPLES * period_s / stride_s)))
    begin = np.maximum(end - back, 0)
    due = np.floor((end - begin) * stride_s / period_s + 1e-9)
    got = total[end] - total[begin] + 1.0
    return np.where(due >= 1.0, np.minimum(got / np.maximum(due, 1.0), 1.0), 1.0)


def source_coverage(channels: Sequence[Channel], shares: Sequence[Array]) -> dict[str, Array]:
    """Return the share of the samples due that each source delivered in each window.

    Parameters
    ----------
    channels
        As sampled: those with a period.
    shares
        From `delivered`, of each channel.

    Returns
    -------
    dict
        By name of the source: mean over its metrics, shape (n_windows,).
    """
    metrics: dict[str, dict[str, list[Array]]] = {}
    for channel, share in zip(channels, shares, strict=True):
        metrics.setdefault(channel.source, {}).setdefault(channel.metric, []).append(share)
    found = {}
    for source, by_metric in metrics.items():
        combine = np.mean if source in FIXED_SOURCES else np.max
        found[source] = np.mean([combine(block, axis=0) for block in by_metric.values()], axis=0)
    return found
