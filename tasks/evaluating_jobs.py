"""Peer comparison on jobs with slow nodes, and causes named for faults in pods: what they are worth."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from reveal_core.detect.peers import PeerDetector
from reveal_core.evaluate.datasets import emmy, nezha
from reveal_core.evaluate.detection import EventScores, RankingScores, event_scores, pooled, ranking_scores
from reveal_core.evaluate.labelled import FaultDay
from reveal_core.evaluate.peers import SPAN_S, PeerFigures, peer_figures
from reveal_core.evaluate.pods import CPU, NETWORK, JudgedPod, LocalRule, day_figures, judge_pods
from reveal_core.evaluate.sampled import FUSED
from tasks.labelled_figures import NO_ATTRIBUTION, detector_figures, told

Say = Callable[[str], None]


def evaluate_peers(folder: Path, say: Say) -> dict[str, Any]:
    """Compare the nodes of every job of a folder; ``jobs`` of the document has figures of each.

    ``detectors`` has ``peers``, over metrics of work done, and ``peers_all_metrics``, over all, to show what
    the choice of metrics is worth.

    Raises
    ------
    UsageError
        If a file is missing or damaged, or a job too short.
    """
    started = time.perf_counter()
    jobs = emmy.read(folder)
    found: dict[str, list[PeerFigures]] = {"peers": [], "peers_all_metrics": []}
    for number, job in enumerate(jobs, 1):
        say(f"{job.job} ({number} of {len(jobs)})")
        found["peers"].append(peer_figures(job, job.work))
        found["peers_all_metrics"].append(peer_figures(job, job.metrics))
    rule = PeerDetector()
    everything = pooled(events for one in found["peers"] for events in one.events)
    return {
        "dataset": "emmy",
        "profile": "default",
        "threshold": (
            f"score {rule.threshold:g} and {100 * rule.effect:g} % off for {SPAN_S / 60:g} minutes"
        ),
        "entities": sum(len(job.nodes) for job in jobs),
        "host_days": round(everything.days, 2),
        "events": everything.events,
        "seconds": round(time.perf_counter() - started, 1),
        "detectors": {
            name: detector_figures([one.ranking for one in parts], [e for one in parts for e in one.events])
            for name, parts in found.items()
        },
        "attribution": dict(NO_ATTRIBUTION),
        "jobs": [_job(one) for one in found["peers"]],
    }


def _job(figures: PeerFigures) -> dict[str, Any]:
    return {
        "job": figures.job,
        "metrics": list(figures.metrics),
        "full_hours": figures.hours,
        "slow_on_top": told(figures.slow_on_top),
        "named_after_min": figures.named_after_min,
        "others_named": list(figures.others_named),
        "healthy_node_minutes": figures.healthy_minutes,
        "healthy_node_minutes_named": figures.healthy_named,
    }


def evaluate_pods(folder: Path, say: Say) -> dict[str, Any]:
    """Name what is behind the faults of every day of a folder; ``days`` of the document has figures of each.

    ``detectors`` judge each sample of each pod; samples at which a fault of the pod shows are anomalous. Of
    ``attribution``, ``subsystem_top1`` is the share of faults of CPU and network for which just this was
    named, not seeing a fault counted as wrong.

    Raises
    ------
    UsageError
        If a file is missing or damaged.
    """
    started = time.perf_counter()
    days, rule = nezha.read(folder), LocalRule()
    rankings: dict[str, list[RankingScores]] = {CPU: [], NETWORK: [], FUSED: []}
    events: dict[str, list[EventScores]] = {CPU: [], NETWORK: [], FUSED: []}
    told_days, right, faults = [], 0, 0
    for number, day in enumerate(days, 1):
        say(f"{day.day} ({number} of {len(days)})")
        pods = judge_pods(day, rule)
        figures = day_figures(day, pods, rule)
        right += figures.right[CPU] + figures.right[NETWORK]
        faults += figures.faults[CPU] + figures.faults[NETWORK]
        told_days.append(
            {**asdict(figures), "free_named_share": told(_share(figures.free_named, figures.free))}
        )
        for pod in pods:
            for name, score in _scores(pod).items():
                rankings[name].append(ranking_scores(score, pod.labels))
                events[name].append(event_scores(score, rule.threshold, pod.labels, _period_s(day)))
    everything = pooled(events[FUSED])
    return {
        "dataset": "nezha",
        "profile": "default",
        "threshold": f"{rule.threshold:g} above the {rule.before_s / 60:g} minutes before",
        "entities": sum(len(day.pods) for day in days),
        "host_days": round(everything.days, 2),
        "events": everything.events,
        "seconds": round(time.perf_counter() - started, 1),
        "detectors": {name: detector_figures(rankings[name], events[name]) for name in rankings},
        "attribution": {
            **NO_ATTRIBUTION,
            "subsystem_top1": told(_share(right, faults)),
            "subsystem_segments": faults,
        },
        "days": told_days,
    }


def _scores(pod: JudgedPod) -> dict[str, np.ndarray]:
    """Return the scores of a pod, the larger of both last: they are in the same units."""
    both = {name: np.maximum(pod.scores[name], 0.0) for name in (CPU, NETWORK)}
    return {**both, FUSED: np.maximum(both[CPU], both[NETWORK])}


def _period_s(day: FaultDay) -> float:
    return float(np.median(np.concatenate([np.diff(pod.times_s) for pod in day.pods])))


def _share(part: float, whole: float) -> float:
    return part / whole if whole else np.nan
