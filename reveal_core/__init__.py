"""Everything that is Reveal's own and needs no orchestrator, tracker or store."""

__version__ = "0.1.0"
