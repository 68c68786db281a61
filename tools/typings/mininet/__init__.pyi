# Types of the part of Mininet 2.3 that alfirk_mininet uses; Mininet has none of its own.
