/* SPDX-License-Identifier: GPL-2.0-or-later */

#ifndef TARGET_I386_RDT_H
#define TARGET_I386_RDT_H

/* What cpu_x86_cpuid() was before the patch. */
void rdt_plain_cpuid(CPUX86State *env, uint32_t leaf, uint32_t sub,
                     uint32_t *eax, uint32_t *ebx,
                     uint32_t *ecx, uint32_t *edx);

void rdt_write(CPUX86State *env, uint32_t msr, uint64_t value);
uint64_t rdt_read(CPUX86State *env, uint32_t msr);

/* The place in the machine of the CPU that the system numbers like this. */
unsigned rdt_place(unsigned cpu, unsigned threads);

#endif
