// CNP filter: forwards only the CNPs of the most congested path to the source.
//
// See v1model/optional/cnp_filter.p4. Here each window of 2^20 ns (about a millisecond) begins with a count of 0 instead of half of the
// last one, because the target cannot shift by a variable. In each window the first CNP is forwarded, then those of the path
// with the most CNPs in this window, at most CNP_LIMIT per path.

#ifndef ALFIRK_CNP_FILTER_P4
#define ALFIRK_CNP_FILTER_P4

struct cnp_count_t {
    bit<16> window;
    bit<16> count;
}

control CnpFilter(inout ingress_metadata_t meta) {
    Register<cnp_count_t, cell_t>(SIZE_PATHS) paths;
    // Most congested path: count ++ path.
    Register<cnp_count_t, group_cell_t>(MAX_GROUPS) worst;
    bit<1> passes = 0;

    // The count is in the upper 8 bits, in steps such that it saturates at CNP_LIMIT + 1.
#define CNP_COUNT_STEP (0x10000 / (CNP_LIMIT + 1))

    RegisterAction<cnp_count_t, cell_t, bit<16>>(paths) count = {
        void apply(inout cnp_count_t value, out bit<16> counted) {
            if (value.window == meta.cnp_window) {
                value.count = value.count |+| CNP_COUNT_STEP;
            } else {
                value.count = CNP_COUNT_STEP;
            }
            value.window = meta.cnp_window;
            counted = value.count;
        }
    };
    RegisterAction<cnp_count_t, group_cell_t, bit<1>>(worst) compare = {
        void apply(inout cnp_count_t value, out bit<1> is_worst) {
            if (value.window != meta.cnp_window || meta.cnp_word > value.count) {
                value.window = meta.cnp_window;
                value.count = meta.cnp_word;
                is_worst = 1;
            } else {
                is_worst = 0;
            }
        }
    };

    action count_cnp() {
        meta.cnp_word = count.execute(meta.carried.cell);
    }

    action tie_cnp() {
        @in_hash {
            meta.cnp_word = meta.cnp_word[15:8] ++ (bit<8>)(bit<32>)meta.tie;
        }
    }

    action compare_cnp() {
        passes = compare.execute(CELL_GROUP(meta.carried.cell));
    }

    // Drops a CNP beyond the limit, which has no information about congestion.
    action limit() {
        meta.drop_reason = Drop.CNP_LIMITED;
        passes = 1;
    }

    // A default action has no hash unit to compute the group's cell, so constant entries match every CNP.
    table counted {
        key = { meta.cnp_word[15:8]: ternary @name("count"); }
        actions = { compare_cnp; limit; @defaultonly NoAction; }
        const default_action = NoAction();
        const entries = {
            0xff: limit();
            _: compare_cnp();
        }
        size = 2;
    }

    apply {
        count_cnp();
        tie_cnp();
        counted.apply();
        if (passes == 0) {
            meta.drop_reason = Drop.CNP_FILTERED;
        }
    }
}

#endif  // ALFIRK_CNP_FILTER_P4
