/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * A processor that says it has RDT (Intel) or QoS (AMD), and that keeps what
 * the system writes to its registers. Nothing is limited or counted: the
 * tests want to know what the kernel does, and not what a cache does.
 *
 * Described by the environment variable QEMU_RDT, words with numbers:
 *
 *   amd=1                          leaves of AMD in place of Intel's
 *   l3=WAYS,CLASSES,SHARED,FLAGS   flags: 4 CDP, 8 masks with gaps
 *   l2=WAYS,CLASSES,SHARED,FLAGS
 *   mb=MAXIMUM,CLASSES,FLAGS       flags: 4 linear, 1 for each thread;
 *                                  AMD: bits of a value instead of a maximum
 *   mon=IDS,SCALE,EVENTS,WIDTH     events: 1 occupancy, 2 total, 4 local
 *   size=WAYS,SETS                 what leaf 4 says of the L3
 *   cpus=NUMBER                    all first threads come before the second
 *
 * Beside the architectural registers there are some for who tests, which a
 * guest reaches through /dev/cpu/N/msr:
 *
 *   DOOR + 0  select a counter: domain << 32 | id << 8 | event
 *   DOOR + 1  set it; bit 63 is an error, bit 62 "unavailable"
 *   DOOR + 2  the id that the system has asked for first on the selected
 *             domain since DOOR + 0 was written; all ones for none
 *   DOOR + 3  set all counters to zero, as a flush of the caches does
 */

#include "qemu/osdep.h"
#include "cpu.h"
#include "hw/i386/topology.h"
#include "target/i386/rdt.h"

#define DOOR 0x4d000000
#define DOMAINS 256
#define CLASSES 128
#define IDS 2048
#define CPUS 1024

enum { AMD, L3, L2, MB, MON, SIZE, NUMBERING, WORDS };

static const char *const words[WORDS] = {
    "amd", "l3", "l2", "mb", "mon", "size", "cpus"
};

static uint32_t given[WORDS][4];
static bool is_given[WORDS];

static uint64_t masks[DOMAINS][CLASSES], masks2[DOMAINS][CLASSES];
static uint64_t limits[DOMAINS][CLASSES];
static uint64_t split[DOMAINS], split2[DOMAINS];
static uint64_t counters[DOMAINS][IDS][4], asked_first[DOMAINS];
static uint64_t asked[CPUS], running[CPUS];
static uint64_t chosen;

static void __attribute__((constructor)) read_description(void)
{
    const char *text = getenv("QEMU_RDT");
    char **parts = g_strsplit(text ? text : "", " ", -1);

    for (char **part = parts; *part; part++) {
        char **pair = g_strsplit(*part, "=", 2);

        for (int word = 0; word < WORDS; word++) {
            char **number;
            int at = 0;

            if (!pair[0] || !pair[1] || strcmp(pair[0], words[word])) {
                continue;
            }
            number = g_strsplit(pair[1], ",", 4);
            for (; number[at]; at++) {
                given[word][at] = strtoul(number[at], NULL, 0);
            }
            g_strfreev(number);
            is_given[word] = true;
        }
        g_strfreev(pair);
    }
    g_strfreev(parts);
}

unsigned rdt_place(unsigned cpu, unsigned threads)
{
    unsigned cores;

    if (!is_given[NUMBERING] || threads < 2) {
        return cpu;
    }
    cores = given[NUMBERING][0] / threads;
    return cpu % cores * threads + cpu / cores;
}

static void monitoring_leaf(uint32_t sub, uint32_t *eax, uint32_t *ebx,
                            uint32_t *ecx, uint32_t *edx)
{
    if (sub == 0) {
        *ebx = given[MON][0] - 1;
        *edx = 1 << 1;
    } else if (sub == 1) {
        *eax = given[MON][3];
        *ebx = given[MON][1];
        *ecx = given[MON][0] - 1;
        *edx = given[MON][2];
    }
}

static void allocation_leaf(uint32_t sub, uint32_t *eax, uint32_t *ebx,
                            uint32_t *ecx, uint32_t *edx)
{
    bool has_limits = is_given[MB] && !is_given[AMD];

    if (sub == 0) {
        *ebx = is_given[L3] << 1 | is_given[L2] << 2 | has_limits << 3;
    } else if ((sub == 1 && is_given[L3]) || (sub == 2 && is_given[L2])) {
        const uint32_t *cache = given[sub == 1 ? L3 : L2];

        *eax = cache[0] - 1;
        *ebx = cache[2];
        *ecx = cache[3];
        *edx = cache[1] - 1;
    } else if (sub == 3 && has_limits) {
        *eax = given[MB][0] - 1;
        *ecx = given[MB][2];
        *edx = given[MB][1] - 1;
    }
}

static void amd_leaf(uint32_t sub, uint32_t *eax, uint32_t *ebx,
                     uint32_t *edx)
{
    if (sub == 0) {
        *ebx = 1 << 1;
    } else if (sub == 1) {
        *eax = given[MB][0];
        *edx = given[MB][1] - 1;
    }
}

static bool is_ours(uint32_t leaf)
{
    return (leaf == 0xf && is_given[MON]) || leaf == 0x10
        || (leaf == 0x80000020 && is_given[AMD] && is_given[MB]);
}

void cpu_x86_cpuid(CPUX86State *env, uint32_t leaf, uint32_t sub,
                   uint32_t *eax, uint32_t *ebx, uint32_t *ecx, uint32_t *edx)
{
    if (is_ours(leaf)) {
        *eax = *ebx = *ecx = *edx = 0;
        if (leaf == 0xf) {
            monitoring_leaf(sub, eax, ebx, ecx, edx);
        } else if (leaf == 0x10) {
            allocation_leaf(sub, eax, ebx, ecx, edx);
        } else {
            amd_leaf(sub, eax, ebx, edx);
        }
        return;
    }
    rdt_plain_cpuid(env, leaf, sub, eax, ebx, ecx, edx);
    if (leaf == 7 && sub == 0) {
        *ebx |= is_given[MON] << 12;
        *ebx |= (is_given[L3] || is_given[L2] || is_given[MB]) << 15;
    } else if (leaf == 4 && sub == 3 && is_given[SIZE]) {
        *ebx = (given[SIZE][0] - 1) << 22 | 63;
        *ecx = given[SIZE][1] - 1;
    } else if (leaf == 0x80000001 && is_given[AMD]) {
        /* TOPOEXT: without it the system finds no id of a cache. */
        *ecx |= 1 << 22;
    } else if (leaf == 0x80000008 && is_given[AMD] && is_given[MB]) {
        *ebx |= 1 << 6;
    }
}

static X86CPUTopoInfo describe(CPUX86State *env)
{
    return (X86CPUTopoInfo) {
        .dies_per_pkg = env->nr_dies,
        .cores_per_die = env_cpu(env)->nr_cores,
        .threads_per_core = env_cpu(env)->nr_threads,
    };
}

static unsigned find_l3(CPUX86State *env)
{
    X86CPUTopoInfo topology = describe(env);

    return (env_archcpu(env)->apic_id >> apicid_die_offset(&topology))
        % DOMAINS;
}

static unsigned find_l2(CPUX86State *env)
{
    X86CPUTopoInfo topology = describe(env);

    return (env_archcpu(env)->apic_id >> apicid_core_offset(&topology))
        % DOMAINS;
}

static uint64_t *find(CPUX86State *env, uint32_t msr)
{
    unsigned cpu = env_cpu(env)->cpu_index % CPUS;

    switch (msr) {
    case 0xc81:
        return &split[find_l3(env)];
    case 0xc82:
        return &split2[find_l2(env)];
    case 0xc8d:
        return &asked[cpu];
    case 0xc8f:
        return &running[cpu];
    case 0xc90 ... 0xd0f:
        return &masks[find_l3(env)][msr - 0xc90];
    case 0xd10 ... 0xd4f:
        return &masks2[find_l2(env)][msr - 0xd10];
    case 0xd50 ... 0xdcf:
        return &limits[find_l3(env)][msr - 0xd50];
    case 0xc0000200 ... 0xc000027f:
        return &limits[find_l3(env)][msr - 0xc0000200];
    default:
        return NULL;
    }
}

static uint64_t *find_counter(unsigned domain, uint64_t id, unsigned event)
{
    return &counters[domain % DOMAINS][id % IDS][event & 3];
}

void rdt_write(CPUX86State *env, uint32_t msr, uint64_t value)
{
    uint64_t *kept = find(env, msr);
    uint64_t *first = &asked_first[find_l3(env)];

    if (kept) {
        *kept = value;
        if (msr == 0xc8d && *first == UINT64_MAX) {
            *first = value >> 32;
        }
    } else if (msr == DOOR) {
        chosen = value;
        asked_first[(chosen >> 32) % DOMAINS] = UINT64_MAX;
    } else if (msr == DOOR + 1) {
        *find_counter(chosen >> 32, chosen >> 8 & 0xffffff, chosen) = value;
    } else if (msr == DOOR + 3) {
        memset(counters, 0, sizeof(counters));
    }
}

uint64_t rdt_read(CPUX86State *env, uint32_t msr)
{
    uint64_t *kept = find(env, msr);

    if (kept) {
        return *kept;
    } else if (msr == 0xc8e) {
        uint64_t wanted = asked[env_cpu(env)->cpu_index % CPUS];
        return *find_counter(find_l3(env), wanted >> 32, wanted);
    } else if (msr == DOOR + 2) {
        return asked_first[(chosen >> 32) % DOMAINS];
    }
    return 0;
}
