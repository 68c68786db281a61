"""For Mininet's own command line: ``sudo mn --custom mininet/alfirk.py --topo fattree,k=4 --switch alfirk``.

``mn`` finds by name what is defined here: topologies, switches, and the network class that starts the
controller.
"""

import inspect
import sys
from pathlib import Path

# mn executes this file without setting __file__.
_HERE = str(Path(inspect.getfile(lambda: None)).resolve().parent)
if _HERE not in sys.path:
    sys.path.insert(0, _HERE)

from alfirk_mininet import mn as _mn  # noqa: E402 - it is found by the path above

topos = _mn.TOPOS
switches = _mn.SWITCHES
hosts = _mn.HOSTS
#: mn has no `links` for custom files, but updates any of its own names.
LINKS = _mn.LINKS
#: mn creates topologies by this function.
buildTopo = _mn.build_topo  # noqa: N816 - mn's name
#: mn calls this after an error; its own function ends all networks of the machine.
cleanup = _mn.stop_network
#: mn builds the network by this class.
Mininet = _mn.AlfirkNet
#: mn looks for an OpenFlow controller; there is none here.
findController = _mn.no_openflow  # noqa: N816 - mn's name
