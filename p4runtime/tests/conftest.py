"""Settings that must be in place before the official package is imported."""

import os

# The C++ runtime of current protobuf releases does not accept its generated modules, which are too old.
os.environ.setdefault("PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION", "python")
