"""What competitors of the workload do, by what they strain; a function does not end unless it says so."""
