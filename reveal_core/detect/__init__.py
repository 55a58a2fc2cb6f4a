"""Detectors in the scikit-learn manner, their calibration and their fusion.

Everywhere a higher ``anomaly_score`` is stranger; scikit-learn's own ``score_samples`` keeps its opposite
sign.
"""
