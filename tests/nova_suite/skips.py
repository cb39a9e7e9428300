# SPDX-License-Identifier: Apache-2.0

"""Nova's tests that are not run, and why."""

import dataclasses
import enum
import re


class Mode(enum.StrEnum):
    """Which driver Nova's tests run on.

    * ``ALONE``: Nova's
    * ``NOTHING``: ours, with nothing enabled, as where something was
    * ``COUNTED``: ours, with one counted resource on each host
    """

    ALONE = 'alone'
    NOTHING = 'nothing'
    COUNTED = 'counted'


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """Tests that are not run.

    :param pattern: found in their names below ``nova.tests.functional``
    :param modes: those in which they are not run
    """

    pattern: str
    reason: str
    modes: frozenset[Mode] = frozenset(Mode)


RULES = (
    Rule(
        pattern=r'^(api_sample_tests|notification_sample_tests)\.'
        r'|test_network_data_matches_schema$',
        reason="needs Nova's folder doc, which its wheel lacks",
    ),
    Rule(pattern=r'^db\.', reason='starts no nova-compute'),
    Rule(
        pattern=r'^compute\.test_init_host\..*'
        r'test_migrate_disk_and_power_off_crash_finish_revert_migration',
        reason='hangs on native threads with Nova alone, too',
    ),
    Rule(
        pattern=r'^regressions\.test_bug_1825034\.',
        reason='locks the database, whose connections tests share here',
    ),
    Rule(
        pattern=r'^compute\.test_init_host\.'
        r'TestComputeRestartInstanceStuckInBuild\.',
        reason="replaces a method of Nova's by one with other parameters, "
        'which a start of ours refuses',
        modes=frozenset({Mode.NOTHING, Mode.COUNTED}),
    ),
    Rule(
        pattern=r'^regressions\.test_bug_(1671648|1837955|1843090|1845291)\.'
        r'|\.test_evacuate_with_qos_port_fails_recover_source_compute$',
        reason="replaces a claim of Nova's resource tracker after the start, "
        'at which our driver has wrapped it',
        modes=frozenset({Mode.NOTHING, Mode.COUNTED}),
    ),
    Rule(
        pattern=r'^regressions\.test_bug_1679750\.',
        reason='its placement has one connection to its database, which '
        "threads of Nova and of ours would share",
        modes=frozenset({Mode.NOTHING, Mode.COUNTED}),
    ),
)


def find_reason(test_id: str, mode: Mode) -> str | None:
    """Return why a test is not run; None: it is."""
    name = test_id.removeprefix('nova.tests.functional.')
    return next(
        (
            rule.reason
            for rule in RULES
            if mode in rule.modes and re.search(rule.pattern, name)
        ),
        None,
    )
