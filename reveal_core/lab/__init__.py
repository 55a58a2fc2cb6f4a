"""The lab: an ML-like workload, and real faults to inject into the machine that it runs on."""
