// Profiles: the core alone, or with all optional parts. features.p4 lists the parts.
//
//   alfirk p4c -DALFIRK_PROFILE=PROFILE_CORE p4src/v1model/main.p4
//
// The core merges feedback by a tournament tree, and keeps the ICRC of data by constants. It has all rules that protect a group.

#ifndef ALFIRK_PROFILE_P4
#define ALFIRK_PROFILE_P4

#define PROFILE_CORE 1
#define PROFILE_FULL 2

#ifndef ALFIRK_PROFILE
#define ALFIRK_PROFILE PROFILE_FULL
#endif

#if ALFIRK_PROFILE == PROFILE_FULL
#include "optional/metadata.p4"
#elif ALFIRK_PROFILE == PROFILE_CORE
struct optional_t {}
#else
#error "ALFIRK_PROFILE must be PROFILE_CORE or PROFILE_FULL"
#endif

#endif  // ALFIRK_PROFILE_P4
