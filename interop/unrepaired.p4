// The pipeline without the constants that keep the ICRC of a group's data right: every copy that a receiver gets is
// wrong, and nothing else is. For the scenario that shows that guests, and the checks of captures, find out.
#define ICRC_LEFT_WRONG
#include "../p4src/v1model/main.p4"
