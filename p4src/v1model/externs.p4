// Externs that shared controls need, mapped to those of this target.

#ifndef ALFIRK_EXTERNS_P4
#define ALFIRK_EXTERNS_P4

// Packets and bytes of each entry of a table.
#define DIRECT_COUNTER(name) direct_counter(CounterType.packets_and_bytes) name

#endif  // ALFIRK_EXTERNS_P4
