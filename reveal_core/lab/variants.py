"""What the lab's workload can be like: steady training, checkpoints all the time, or requests in bursts."""

from __future__ import annotations

from dataclasses import dataclass

MIB = 1 << 20
DEFAULT_VARIANT = "training"


@dataclass(frozen=True)
class Variant:
    """A way to use the two ranks; each keeps within what two cores do.

    Attributes
    ----------
    name, title
        What it is called, and what it does.
    compute_s
        Computing time of a step on an unloaded core; the passes over a mini-batch are chosen to meet it.
    wait_s
        Mean wait of a training step for its input.
    checkpoint_period_s, checkpoint_bytes
        How often rank 0 writes a checkpoint, and its size.
    pause_period_s
        How often training is evaluated, or a served model is loaded again.
    serves
        Whether steps are requests, which come in bursts, instead of training.
    """

    name: str
    title: str
    compute_s: float
    wait_s: float
    checkpoint_period_s: float
    checkpoint_bytes: int
    pause_period_s: float
    serves: bool = False


VARIANTS: tuple[Variant, ...] = (
    # With these waits the two ranks keep about 60 % of two cores busy.
    Variant(DEFAULT_VARIANT, "steady training", 0.045, 0.026, 8.0, 24 * MIB, 15.0),
    Variant("checkpoints", "training with large checkpoints, often", 0.045, 0.026, 2.5, 48 * MIB, 30.0),
    Variant("inference", "inference, requests in bursts", 0.03, 0.0, 0.0, 24 * MIB, 40.0, serves=True),
)


def variant_of(name: str) -> Variant:
    """Return a variant by its name.

    Raises
    ------
    KeyError
        If there is none.
    """
    return {variant.name: variant for variant in VARIANTS}[name]
