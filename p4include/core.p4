/* SPDX-License-Identifier: Apache-2.0
 *
 * The core library of P4_16 (specification 1.2.5, appendix "Core library"): what every architecture builds on.
 */

#ifndef _CORE_P4_
#define _CORE_P4_

/* Predefined parser errors. Programs may declare more. */
error {
    NoError,                // no error
    PacketTooShort,         // extract, lookahead or advance ran past the end of the packet
    NoMatch,                // no case of a select expression matched
    StackOutOfBounds,       // next or last of a stack that is full or empty
    HeaderTooShort,         // more bits for a varbit field than it can hold
    ParserTimeout,          // the parser took too long
    ParserInvalidArgument   // an invalid argument of a parser operation
}

/* The packet being parsed. */
extern packet_in {
    /* Reads a header of fixed size, makes it valid, and advances. */
    void extract<T>(out T hdr);
    /* The same for a header with one varbit field, which becomes variableFieldSizeInBits long. */
    void extract<T>(out T variableSizeHeader, in bit<32> variableFieldSizeInBits);
    /* Reads the next bits as a T, without advancing. */
    @noSideEffects
    T lookahead<T>();
    /* Skips bits. */
    void advance(in bit<32> sizeInBits);
    /* Length of the packet in bytes, if the target supports it. */
    @pure
    bit<32> length();
}

/* The packet being assembled. */
extern packet_out {
    /* Appends a header if it is valid; of structs, stacks and unions, the valid headers in order. */
    void emit<T>(in T hdr);
}

/* In parsers: continues if the check holds; otherwise sets the parser error and rejects. */
extern void verify(in bool check, in error toSignal);

/* Compile-time check: a false condition is an error with the message. Returns true. */
@pure
extern bool static_assert(bool check, string message);
@pure
extern bool static_assert(bool check);

/* The default action of tables that set none. */
@noWarn("unused")
action NoAction() {}

/* Match kinds of table keys. Architectures add more. */
match_kind {
    exact,      // equal
    ternary,    // equal where the mask has ones
    lpm         // longest prefix wins
}

#endif
