"""Incidents and scores for other tools: what is told of a fleet, as Prometheus metrics and in OTLP."""
