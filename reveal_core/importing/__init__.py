"""Telemetry of others: text and tables in, channels and columns out.

One module per kind, all of them in `reveal_core.importing.kinds.KINDS`. Readers are streams: they hold a
bounded piece of their source, whatever its length. `assemble` makes segments of the chunks that they give,
with the collector's own encoder.
"""
