"""The network that the lab's workload trains: a perceptron with one hidden layer, in NumPy."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

ROWS = 256
"""Samples of a mini-batch."""
FEATURES = 1024
"""Inputs of a sample; a mini-batch is a file of ``ROWS * FEATURES`` float32, 1 MiB."""
HIDDEN = 384
CLASSES = 10
PARAMETERS = FEATURES * HIDDEN + HIDDEN * CLASSES
"""Number of weights: about 1.6 MB of gradients in float32."""

Floats = NDArray[np.float32]


class Network:
    """A perceptron (1024-384-10, rectifier, softmax) trained by gradient descent with momentum.

    All arrays are allocated once: a job whose memory is mapped and unmapped at every step would bury the page
    faults that a fault causes.

    Parameters
    ----------
    seed
        Seed of the initial weights; the same on every rank.

    Attributes
    ----------
    weights, gradient, momentum
        Flat vectors of `PARAMETERS` float32.
    """

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.weights: Floats = rng.standard_normal(PARAMETERS).astype(np.float32) * np.float32(0.03)
        self.gradient: Floats = np.zeros(PARAMETERS, np.float32)
        self.momentum: Floats = np.zeros(PARAMETERS, np.float32)
        self._scratch: Floats = np.zeros(PARAMETERS, np.float32)
        cut = FEATURES * HIDDEN
        self._w1 = self.weights[:cut].reshape(FEATURES, HIDDEN)
        self._w2 = self.weights[cut:].reshape(HIDDEN, CLASSES)
        self._g1 = self._scratch[:cut].reshape(FEATURES, HIDDEN)
        self._g2 = self._scratch[cut:].reshape(HIDDEN, CLASSES)
        self._hidden: Floats = np.zeros((ROWS, HIDDEN), np.float32)
        self._mask = np.zeros((ROWS, HIDDEN), np.bool_)
        self._back: Floats = np.zeros((ROWS, HIDDEN), np.float32)
        self._logits: Floats = np.zeros((ROWS, CLASSES), np.float32)
        self._column: Floats = np.zeros((ROWS, 1), np.float32)
        self._rows = np.arange(ROWS)

    def forward(self, batch: Floats) -> Floats:
        """Return class probabilities, shape ``(ROWS, CLASSES)``, in a buffer that is reused."""
        np.matmul(batch, self._w1, out=self._hidden)
        np.maximum(self._hidden, 0, out=self._hidden)
        np.matmul(self._hidden, self._w2, out=self._logits)
        np.max(self._logits, axis=1, keepdims=True, out=self._column)
        np.subtract(self._logits, self._column, out=self._logits)
        np.exp(self._logits, out=self._logits)
        np.sum(self._logits, axis=1, keepdims=True, out=self._column)
        np.divide(self._logits, self._column, out=self._logits)
        return self._logits

    def accumulate(self, batch: Floats) -> None:
        """Add a mini-batch's mean gradient of the cross entropy to `gradient`.

        The label of a sample is the largest of its first `CLASSES` inputs, so that there is something to
        learn.
        """
        labels = batch[:, :CLASSES].argmax(axis=1)
        error = self.forward(batch)
        error[self._rows, labels] -= 1
        np.multiply(error, np.float32(1 / ROWS), out=error)
        np.matmul(self._hidden.T, error, out=self._g2)
        np.matmul(error, self._w2.T, out=self._back)
        np.greater(self._hidden, 0, out=self._mask)
        np.multiply(self._back, self._mask, out=self._back)
        np.matmul(batch.T, self._back, out=self._g1)
        np.add(self.gradient, self._scratch, out=self.gradient)

    def apply(self, scale: float) -> None:
        """Take a step of gradient descent with ``scale`` times the gradient, and clear the gradient."""
        np.multiply(self.momentum, np.float32(0.9), out=self.momentum)
        np.multiply(self.gradient, np.float32(scale), out=self.gradient)
        np.add(self.momentum, self.gradient, out=self.momentum)
        np.multiply(self.momentum, np.float32(0.05), out=self._scratch)
        np.subtract(self.weights, self._scratch, out=self.weights)
        self.gradient.fill(0)
