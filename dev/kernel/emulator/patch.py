# SPDX-License-Identifier: Apache-2.0

"""The changes that give QEMU 7.2 a processor with RDT."""

import dataclasses
import pathlib
import shutil

from dev.kernel import obstacle

HERE = pathlib.Path(__file__).parent

#: They go to target/i386 as they are.
FILES = ('rdt.c', 'rdt.h')

_CPU = 'target/i386/cpu.c'
_BUILD = 'target/i386/meson.build'
_REGISTERS = 'target/i386/tcg/sysemu/misc_helper.c'
_NUMBERS = 'include/hw/i386/topology.h'
_BOARD = 'hw/i386/x86.c'


class Mismatch(obstacle.Obstacle):
    """The source is not the one that the patch was made for."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """Text that is there once, and is replaced."""

    path: str
    old: str
    new: str


EDITS = (
    Edit(
        path=_CPU,
        old='void cpu_x86_cpuid(',
        new='void rdt_plain_cpuid(',
    ),
    Edit(
        path=_CPU,
        old='#include "cpu.h"\n',
        new='#include "cpu.h"\n#include "target/i386/rdt.h"\n',
    ),
    Edit(path=_BUILD, old="  'cpu.c',\n", new="  'cpu.c',\n  'rdt.c',\n"),
    Edit(
        path=_REGISTERS,
        old='#include "cpu.h"\n',
        new='#include "cpu.h"\n#include "target/i386/rdt.h"\n',
    ),
    # Registers that QEMU does not know, first the reading ones.
    Edit(
        path=_REGISTERS,
        old='        /* XXX: exception? */\n        val = 0;\n',
        new='        val = rdt_read(env, env->regs[R_ECX]);\n',
    ),
    Edit(
        path=_REGISTERS,
        old='\n        /* XXX: exception? */\n',
        new='\n        rdt_write(env, env->regs[R_ECX], val);\n',
    ),
    # Linux numbers CPUs as the firmware lists them, and that of a real
    # machine lists the second threads of all cores last.
    Edit(
        path=_NUMBERS,
        old='    topo_ids->pkg_id = cpu_index / '
        '(nr_dies * nr_cores * nr_threads);\n',
        new='    cpu_index = rdt_place(cpu_index, nr_threads);\n'
        '    topo_ids->pkg_id = cpu_index / '
        '(nr_dies * nr_cores * nr_threads);\n',
    ),
    Edit(
        path=_NUMBERS,
        old='typedef uint32_t apic_id_t;\n',
        new='typedef uint32_t apic_id_t;\n\n'
        'unsigned rdt_place(unsigned cpu, unsigned threads);\n',
    ),
    # CPUs are no longer sorted by the number that is looked for.
    Edit(
        path=_BOARD,
        old='    found_cpu = bsearch(&apic_id, ms->possible_cpus->cpus,\n'
        '        ms->possible_cpus->len, sizeof(*ms->possible_cpus->cpus),\n'
        '        x86_apic_cmp);\n',
        new='    found_cpu = NULL;\n'
        '    for (int at = 0; at < ms->possible_cpus->len; at++) {\n'
        '        if (!x86_apic_cmp(&apic_id, '
        '&ms->possible_cpus->cpus[at])) {\n'
        '            found_cpu = &ms->possible_cpus->cpus[at];\n'
        '        }\n'
        '    }\n',
    ),
)


def apply(source: pathlib.Path) -> None:
    """Change an unpacked source.

    :raises Mismatch: it is another version
    """
    for edit in EDITS:
        path = source / edit.path
        text = path.read_text(encoding='utf-8')
        if text.count(edit.old) != 1:
            raise Mismatch(
                f'the patch was made for another QEMU: {edit.path} has '
                f'{text.count(edit.old)} times "{edit.old.strip()}"'
            )
        path.write_text(text.replace(edit.old, edit.new), encoding='utf-8')
    for name in FILES:
        shutil.copy(HERE / name, source / 'target' / 'i386' / name)
