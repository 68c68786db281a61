"""Settings that must be in place before the official package is imported."""

import os

# Its generated modules are older than the C++ runtime of current protobuf releases accepts.
os.environ.setdefault("PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION", "python")
