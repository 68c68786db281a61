// The core profile of the data plane (profile.p4).
#define ALFIRK_PROFILE PROFILE_CORE
#include "main.p4"
