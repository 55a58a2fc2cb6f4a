"""The collector: reads a host's signals and builds segments of them."""

import os

# Arrow's own allocator keeps for later what it has freed, several MiB of an agent that encodes once a minute.
# It is chosen when Arrow is loaded, and only so.
os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
