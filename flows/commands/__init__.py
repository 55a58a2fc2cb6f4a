"""The commands: each reads settings, runs a pipeline and shows the result."""
