# Types of the part of PTF that alfirk_ptf uses; PTF has none of its own.
from ptf.dataplane import DataPlane

dataplane_instance: DataPlane
