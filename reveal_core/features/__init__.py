"""From raw samples to features of windows: pure functions on Polars frames."""
