// SPDX-License-Identifier: Apache-2.0
// Runs a program of DPDK's SWX pipeline between a source and sinks, and prints the processor time of each received frame.
//
//   swx codegen SPEC C_FILE
//   swx EAL_OPTIONS -- NAME LIBRARY IO_FILE ENTRIES_FILE SESSIONS TURNS TURN_NS
//
// A line of the file of entries has a table's name and an entry in the pipeline's own format. TURNS of 0 runs the frames once.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <rte_eal.h>
#include <rte_mbuf.h>
#include <rte_swx_ctl.h>
#include <rte_swx_pipeline.h>

#define INSTRUCTIONS 20000
#define MAX_LINE 1024
#define RUNS_OF_ONE_PASS 1000

static void fail(const char *what) {
    fprintf(stderr, "%s\n", what);
    exit(1);
}

static FILE *open_file(const char *path, const char *mode) {
    FILE *file = fopen(path, mode);
    if (!file)
        fail(path);
    return file;
}

static void fail_at(const char *file, uint32_t line, const char *message) {
    fprintf(stderr, "%s:%u: %s\n", file, line, message ? message : "not accepted");
    exit(1);
}

static int codegen(const char *spec, const char *code) {
    uint32_t line = 0;
    const char *message = NULL;
    FILE *in = open_file(spec, "r"), *out = open_file(code, "w");
    if (rte_swx_pipeline_codegen(in, out, &line, &message))
        fail_at(spec, line, message);
    return fclose(out) != 0;
}

static void load(struct rte_swx_pipeline *pipeline, const char *path) {
    struct rte_swx_ctl_pipeline *ctl = rte_swx_ctl_pipeline_create(pipeline);
    if (!ctl)
        fail("cannot control the pipeline");
    FILE *file = open_file(path, "r");
    char line[MAX_LINE];
    for (uint32_t number = 1; fgets(line, sizeof line, file); number++) {
        char *entry = strchr(line, ' ');
        int blank = 0;
        if (!entry)
            fail_at(path, number, "no entry");
        *entry++ = 0;
        struct rte_swx_table_entry *read = rte_swx_ctl_pipeline_table_entry_read(ctl, line, entry, &blank);
        if (!read || rte_swx_ctl_pipeline_table_entry_add(ctl, line, read))
            fail_at(path, number, "the entry is not accepted");
    }
    fclose(file);
    if (rte_swx_ctl_pipeline_commit(ctl, 1))
        fail("the tables cannot be built");
}

static uint64_t received(struct rte_swx_pipeline *pipeline) {
    struct rte_swx_port_in_stats stats;
    if (rte_swx_ctl_pipeline_port_in_stats_read(pipeline, 0, &stats))
        fail("no statistics of the source");
    return stats.n_pkts;
}

static uint64_t processor_time(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return now.tv_sec * 1000000000ull + now.tv_nsec;
}

static double turn(struct rte_swx_pipeline *pipeline, uint64_t turn_ns) {
    uint64_t begin = processor_time(), before = received(pipeline), took;
    do {
        rte_swx_pipeline_run(pipeline, INSTRUCTIONS);
        took = processor_time() - begin;
    } while (took < turn_ns);
    return (double)took / (received(pipeline) - before);
}

// Sinks count all frames as dropped. The last port is the one to which the instruction `drop` sends.
static void statistics(struct rte_swx_pipeline *pipeline) {
    struct rte_swx_ctl_pipeline_info info;
    if (rte_swx_ctl_pipeline_info_get(pipeline, &info))
        fail("no information on the pipeline");
    printf("received %lu\n", (unsigned long)received(pipeline));
    for (uint32_t port = 0; port < info.n_ports_out; port++) {
        struct rte_swx_port_out_stats stats;
        if (rte_swx_ctl_pipeline_port_out_stats_read(pipeline, port, &stats))
            fail("no statistics of a sink");
        printf("sent %u %lu\n", port, (unsigned long)stats.n_pkts_drop);
    }
}

int main(int argc, char **argv) {
    if (argc == 4 && !strcmp(argv[1], "codegen"))
        return codegen(argv[2], argv[3]);
    int used = rte_eal_init(argc, argv);
    if (used < 0 || argc - used != 8)
        fail("cannot start DPDK");
    char **args = argv + used;
    if (!rte_pktmbuf_pool_create("MEMPOOL0", 32767, 256, 0, RTE_MBUF_DEFAULT_BUF_SIZE, 0))
        fail("no memory for frames");
    struct rte_swx_pipeline *pipeline = NULL;
    FILE *io = open_file(args[3], "r");
    if (rte_swx_pipeline_build_from_lib(&pipeline, args[1], args[2], io, 0))
        fail("the compiled pipeline cannot be built");
    fclose(io);
    struct rte_swx_pipeline_mirroring_session_params session = {0};
    for (int id = 0; id < atoi(args[5]); id++) {
        session.port_id = id;
        if (rte_swx_ctl_pipeline_mirroring_session_set(pipeline, id, &session))
            fail("no mirroring session");
    }
    load(pipeline, args[4]);
    int turns = atoi(args[6]);
    double least = 0;
    for (int i = 0; i < turns; i++) {
        double time = turn(pipeline, strtoull(args[7], NULL, 10));
        least = i == 0 || time < least ? time : least;
    }
    if (turns == 0)
        for (int i = 0; i < RUNS_OF_ONE_PASS; i++)
            rte_swx_pipeline_run(pipeline, INSTRUCTIONS);
    rte_swx_pipeline_flush(pipeline);
    if (turns)
        printf("ns %.2f\n", least);
    statistics(pipeline);
    fflush(stdout);
    rte_swx_pipeline_free(pipeline);
    return 0;
}
