"""From contributions to metrics, subsystems, incidents and causes."""
