"""For Mininet's own command line: ``sudo mn --custom mininet/alfirk.py --topo fattree,k=4 --switch alfirk``.

What is defined here, ``mn`` takes up by name: topologies, switches, and the network that starts the
controller.
"""

import inspect
import sys
from pathlib import Path

# mn runs this text without saying which file it is from.
_HERE = str(Path(inspect.getfile(lambda: None)).resolve().parent)
if _HERE not in sys.path:
    sys.path.insert(0, _HERE)

from alfirk_mininet import mn as _mn  # noqa: E402 - it is found by the path above

topos = _mn.TOPOS
switches = _mn.SWITCHES
hosts = _mn.HOSTS
#: mn knows no `links` of custom files, but takes any name for one of its own.
LINKS = _mn.LINKS
#: mn makes topologies by this function.
buildTopo = _mn.build_topo  # noqa: N816 - mn's name
#: mn calls this after an error; its own ends all networks of the machine.
cleanup = _mn.stop_network
#: mn builds the network by this class.
Mininet = _mn.AlfirkNet
#: mn asks for an OpenFlow controller, of which there is none here.
findController = _mn.no_openflow  # noqa: N816 - mn's name
