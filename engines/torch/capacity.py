"""A running model of how long a step takes, and what load that makes of paced streams.

Step time is taken as linear, c = a + b * sequences + k * context + q * prefill rows, and
fitted by recursive least squares with forgetting (Haykin, Adaptive Filter Theory, ch. 10),
so that it follows a noisy neighbour or a slower clock within some hundred steps.
"""

from collections import deque

import numpy as np
from numpy.typing import NDArray

_SCALES = np.array([1.0, 10.0, 10_000.0, 100.0])
"""Brings sequences, context and prefill rows to about 1, which keeps the fit well-behaved."""

_ENOUGH = 8  # observations before the fit is trusted
_PRIOR = 100.0  # variance of the coefficients before anything is known, in seconds squared
_MOST_VARIANCE = 1e4  # directions that are never excited would grow without end


class CapacityModel:
    """Learns step times and predicts them.

    Args:
        forgetting: weight of the previous step against the newest, below 1.
        quantile: of recent residuals, added to a careful prediction.
        window: residuals that are kept.
    """

    def __init__(self, forgetting: float = 0.995, quantile: float = 0.9, window: int = 256) -> None:
        self._forgetting = forgetting
        self._quantile = quantile
        self._weights: NDArray[np.float64] = np.zeros(4)
        self._covariance: NDArray[np.float64] = np.eye(4) * _PRIOR
        self._residuals: deque[float] = deque(maxlen=window)
        self._margin_s = 0.0
        self._count = 0

    @property
    def is_fitted(self) -> bool:
        """Whether enough steps have been seen to trust the model."""
        return self._count >= _ENOUGH

    @property
    def coefficients(self) -> tuple[float, float, float, float]:
        """Seconds per step, per sequence, per cached position and per prefill row."""
        a, b, k, q = (np.maximum(self._weights, 0.0) / _SCALES).tolist()
        return a, b, k, q

    def observe(self, sequences: int, context: int, prefill_rows: int, elapsed_s: float) -> None:
        """Learns from a step that took `elapsed_s`."""
        x = np.array([1.0, sequences, context, prefill_rows]) / _SCALES
        error = elapsed_s - float(x @ self._weights)
        if self.is_fitted:
            self._keep(elapsed_s - self.predict(sequences, context, prefill_rows))
        gain = self._covariance @ x / (self._forgetting + float(x @ self._covariance @ x))
        self._weights = self._weights + gain * error
        covariance = (self._covariance - np.outer(gain, x @ self._covariance)) / self._forgetting
        covariance = (covariance + covariance.T) / 2
        trace = float(np.trace(covariance))
        if trace > _MOST_VARIANCE:
            covariance *= _MOST_VARIANCE / trace
        self._covariance = covariance
        self._count += 1

    def _keep(self, residual_s: float) -> None:
        self._residuals.append(residual_s)
        if len(self._residuals) % 16 == 0 or self._count % 16 == 0:
            self._margin_s = max(0.0, float(np.quantile(self._residuals, self._quantile)))

    def predict(self, sequences: int, context: int, prefill_rows: int) -> float:
        """Returns the expected seconds of a step."""
        a, b, k, q = self.coefficients
        return a + b * sequences + k * context + q * prefill_rows

    def predict_upper(self, sequences: int, context: int, prefill_rows: int) -> float:
        """Returns the seconds that most such steps stay below."""
        return self.predict(sequences, context, prefill_rows) + self._margin_s

    def load(self, rates: list[float], context: int) -> float:
        """Returns the share of the time that decoding these streams together takes.

        Args:
            rates: tokens per second of each stream. Streams of unlike rates share steps and
                sit out some, so that the mean rate counts.
            context: cached positions of all of them.
        """
        if not rates:
            return 0.0
        return sum(rates) / len(rates) * self.predict_upper(len(rates), context, 0)
