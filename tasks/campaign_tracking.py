"""A campaign as one run in MLflow: what it was, its figures, and its table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tasks.campaign_report import markdown, run_table
from tasks.models import code_version
from tasks.tracking import Tracking, run_url, text_params

if TYPE_CHECKING:
    from matplotlib.figure import Figure

INK, BAR, MISS, LINE = "#1f2937", "#3b6ea5", "#d1d5db", "#b45309"


def log_campaign(tracking_uri: str, document: Mapping[str, Any]) -> dict[str, str]:
    """Log a campaign as a run of the experiment ``reveal/campaign/<hardware class>``.

    Parameters
    ----------
    tracking_uri
        Where.
    document
        `tasks.campaign_report.campaign_document`.

    Returns
    -------
    dict
        ``experiment``, ``run_id`` and ``run_url``, which is "" for a store without pages.

    Raises
    ------
    UnavailableError
        If MLflow does not answer.
    """
    campaign, summary = document["campaign"], document["summary"]
    method = campaign["method"] or {}
    tracking = Tracking(tracking_uri)
    name = f"reveal/campaign/{campaign['hardware_class']}"
    experiment_id = tracking.experiment(name)
    client = tracking.client
    parameters = {
        **{f"campaign.{key}": value for key, value in campaign["plan"].items()},
        **{f"method.{key}": value for key, value in method.items()},
    }
    with tracking.expected():
        import mlflow

        with mlflow.start_run(
            experiment_id=experiment_id,
            run_name=f"{summary['all']['injected']} faults",
            tags={
                "reveal.version": code_version(),
                "reveal.hardware_class": str(campaign["hardware_class"]),
                "reveal.seed": str(campaign["plan"]["seed"]),
                "reveal.machine": campaign["machine"],
                "mlflow.note.content": markdown(document),
            },
            log_system_metrics=False,
        ) as run:
            run_id = run.info.run_id
            mlflow.log_params(text_params(parameters))
            mlflow.log_metrics(run_metrics(summary))
            mlflow.log_dict(dict(document), "campaign.json")
            mlflow.log_text(markdown(document), "campaign.md")
            if document["runs"]:
                client.log_table(run_id, run_table(document["runs"]), "runs.json")
            client.log_figure(run_id, campaign_figure(summary), "campaign.png")
    return {"experiment": name, "run_id": run_id, "run_url": run_url(tracking, experiment_id, run_id)}


def run_metrics(summary: Mapping[str, Any]) -> dict[str, float]:
    """Return a summary's figures as MLflow takes them; what cannot be told is left out."""
    found = {
        f"{group}_{name}": value for group in ("all", "harmful") for name, value in summary[group].items()
    }
    found |= {name: summary[name] for name in ("healthy_hours", "false_incidents", "false_per_3h")}
    found["targets_met"] = sum(bool(target["met"]) for target in summary["targets"])
    return {name: float(value) for name, value in found.items() if value is not None}


def campaign_figure(summary: Mapping[str, Any]) -> Figure:
    """Return how many of each fault were found and rightly explained, and how late, as bars."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    by_fault = summary["by_fault"]
    names = sorted(by_fault, key=lambda name: (by_fault[name]["recall"], name))
    places = range(len(names))
    figure = Figure(figsize=(10.0, 1.4 + 0.26 * max(len(names), 6)), dpi=110, layout="constrained")
    found, late = figure.subplots(1, 2, width_ratios=[2.0, 1.0])
    found.barh(places, [by_fault[name]["injected"] for name in names], color=MISS, label="injected")
    found.barh(places, [by_fault[name]["detected"] for name in names], color=BAR, label="found")
    right = [by_fault[name]["detected"] * (by_fault[name]["cause_first"] or 0.0) for name in names]
    found.scatter(right, places, color=LINE, marker="|", s=120, zorder=3, label="right cause first")
    found.set_yticks(places, names)
    found.set_xlabel("faults")
    found.xaxis.set_major_locator(MaxNLocator(integer=True))
    found.legend(frameon=False, fontsize=7, loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=3)
    late.barh(places, [by_fault[name]["median_delay_s"] or 0.0 for name in names], color=BAR)
    late.set_yticks(places, [""] * len(names))
    late.set_xlabel("median delay, s")
    for axes in (found, late):
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(labelsize=7, colors=INK)
    return figure
