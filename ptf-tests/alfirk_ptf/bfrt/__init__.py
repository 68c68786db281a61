"""BfRuntime for packet tests of programs for Tofino.

`program` has the base class of tests; `client` the connection, tables and entries; `schema` the names, ids
and types of bf-rt.json; `messages` the protobuf messages.
"""
