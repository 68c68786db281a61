// The pipeline without the constants that preserve the ICRC of a group's data, so that every copy has an invalid ICRC. Used by the
// scenario that checks that guests and captures detect it.
#define ICRC_LEFT_WRONG
#include "../p4src/v1model/main.p4"
