"""The store: where telemetry, scores, incidents and reports rest, local folder or object store, over fsspec.

Nothing outside this package knows a path.
"""
